import type { HookViolation } from '@setpoint/controller-runtime/api'
import { type BareObject, formatPath, type Scope } from '../../../model/index.ts'
import { indexesAnnotation, parseIndexes } from '../indexes.ts'
import { checkConversion } from './conversion.ts'
import { type DefinitionContent, type DefinitionSpec, readDefinition } from './definition.ts'
import { Findings } from './findings.ts'
import { isEstablished, leniencyAfter } from './leniency.ts'
import { checkApproval, checkMetadataName, checkNames, checkSpecNames, checkUnchanged } from './names.ts'
import { checkVersionSchema } from './version-schema.ts'
import { checkStoredVersions, checkVersions } from './versions.ts'

/**
 * Returns the violations of a definition, as a kube-apiserver finds them: with the same fields and reasons.
 * @param object with Kubernetes' defaults
 * @param previous the stored definition that a write changes
 */
export function validateDefinition(
  object: BareObject,
  previous: BareObject | undefined,
  scope: Scope,
): readonly HookViolation[] {
  const found = new Findings()
  const content = readDefinition(object)
  if (!('spec' in content)) {
    for (const { path, expected } of content) found.mistyped(formatPath(path), `must be ${expected}`)
    return found.violations
  }
  const stored = previous && readDefinition(previous)
  const before = stored !== undefined && 'spec' in stored ? stored : undefined
  if (scope === 'object') checkDefinition(content, before, object, previous, found)
  checkNames(content.status.acceptedNames, 'status.acceptedNames', found)
  return found.violations
}

function checkDefinition(
  { spec, status }: DefinitionContent,
  previous: DefinitionContent | undefined,
  { metadata }: BareObject,
  stored: BareObject | undefined,
  found: Findings,
): void {
  const leniency = leniencyAfter(previous)
  if (stored === undefined) checkMetadataName(metadata.name, spec, found)
  checkSpecNames(spec, found)
  if (previous !== undefined) checkUnchanged(spec, previous.spec, isEstablished(previous), found)
  const schemas = checkVersions(spec, { requiresSchemas: !leniency.allowsNoSchema }, found)
  for (const each of schemas) checkVersionSchema(each, leniency, found)
  if (spec.conversion !== undefined) checkConversion(spec.conversion, leniency.conversion, found)
  if (spec.preserveUnknownFields) {
    if (spec.conversion !== undefined && spec.conversion.strategy !== 'None')
      found.invalid('spec.conversion.strategy', 'must be None if spec.preserveUnknownFields is true')
    found.invalid(
      'spec.preserveUnknownFields',
      'cannot be true; use x-kubernetes-preserve-unknown-fields in spec.versions[*].schema instead',
    )
  }
  checkStoredVersions(status.storedVersions ?? [], spec, found)
  checkApproval(spec, metadata.annotations, stored && { annotations: stored.metadata.annotations }, found)
  checkIndexes(metadata.annotations?.[indexesAnnotation], spec, found)
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
