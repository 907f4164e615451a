import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { HookViolation } from '@setpoint/controller-runtime/api'
import { type BareObject, deepEqual, formatPath, type Scope } from '../../../model/index.ts'
import { Findings } from '../../findings.ts'
import { inTurns } from '../../turns.ts'
import { indexesAnnotation, parseIndexes } from '../indexes.ts'
import { checkConversion } from './conversion.ts'
import { type DefinitionSpec, readDefinition } from './definition.ts'
import { conversionLeniencyAfter, isEstablished, leniencyAfter, requiresSchemas } from './leniency.ts'
import { checkApproval, checkMetadataName, checkNames, checkSpecNames, checkUnchanged } from './names.ts'
import { checkVersionSchema } from './version-schema.ts'
import { checkStoredVersions, checkVersions, schemasOf, type VersionSchema } from './versions.ts'

/**
 * Returns the violations of a definition, as a kube-apiserver finds them: with the same fields and reasons. Works in turns of the
 * event loop, because a schema may be large.
 * @param object with Kubernetes' defaults
 * @param previous the stored definition that a write changes
 */
export async function inspectDefinition(
  object: BareObject,
  previous: BareObject | undefined,
  scope: Scope,
  clock: Clock = systemClock,
): Promise<readonly HookViolation[]> {
  const found = new Findings()
  await inTurns(check(object, previous, scope, found), clock)
  return found.violations
}

function* check(
  object: BareObject,
  stored: BareObject | undefined,
  scope: Scope,
  found: Findings,
): Generator<void> {
  const content = readDefinition(object)
  if (!('spec' in content)) {
    for (const { path, expected } of content) found.mistyped(formatPath(path), `must be ${expected}`)
    return
  }
  yield
  checkNames(content.status.acceptedNames, 'status.acceptedNames', found)
  if (scope === 'status') return
  const before = stored && readDefinition(stored)
  const previous = before !== undefined && 'spec' in before ? before : undefined
  yield
  const { spec, status } = content
  const { annotations } = object.metadata
  if (stored === undefined) checkMetadataName(object.metadata.name, spec, found)
  checkSpecNames(spec, found)
  if (previous !== undefined) checkUnchanged(spec, previous.spec, isEstablished(previous), found)
  checkVersions(spec, { requiresSchemas: requiresSchemas(previous) }, found)
  yield
  const changed = changedSchemas(spec, previous?.spec)
  yield
  const leniency = leniencyAfter(changed.length > 0 ? previous : undefined)
  yield
  for (const each of changed) yield* checkVersionSchema(each, leniency, found)
  if (spec.conversion !== undefined)
    checkConversion(spec.conversion, conversionLeniencyAfter(previous), found)
  if (spec.preserveUnknownFields) {
    if (spec.conversion !== undefined && spec.conversion.strategy !== 'None')
      found.invalid('spec.conversion.strategy', 'must be None if spec.preserveUnknownFields is true')
    found.invalid(
      'spec.preserveUnknownFields',
      'cannot be true; use x-kubernetes-preserve-unknown-fields in spec.versions[*].schema instead',
    )
  }
  checkStoredVersions(status.storedVersions ?? [], spec, found)
  checkApproval(spec, annotations, stored && { annotations: stored.metadata.annotations }, found)
  checkIndexes(annotations?.[indexesAnnotation], spec, found)
}

/** Returns the schemas that are not stored. Those that are were checked before. */
function changedSchemas(spec: DefinitionSpec, previous: DefinitionSpec | undefined): VersionSchema[] {
  const schemas = schemasOf(spec)
  if (previous === undefined) return schemas
  const stored = new Map(schemasOf(previous).flatMap(each => each.names.map(name => [name, each] as const)))
  return schemas.filter(({ names: [name = ''], schema, hasStatus }) => {
    const before = stored.get(name)
    return before?.hasStatus !== hasStatus || !deepEqual(before.schema, schema)
  })
}

function checkIndexes(
  text: string | undefined,
  { scope, versions = [] }: DefinitionSpec,
  found: Findings,
): void {
  const fields = versions.flatMap(({ selectableFields = [] }) => selectableFields)
  const selectable = fields.map(({ jsonPath }) => jsonPath)
  const read = parseIndexes(text, { isNamespaced: scope === 'Namespaced', selectable })
  for (const problem of 'problems' in read ? read.problems : [])
    found.invalid(`metadata.annotations[${indexesAnnotation}]`, problem)
}
