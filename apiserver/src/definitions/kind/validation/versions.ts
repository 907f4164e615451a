import { deepEqual } from '../../../model/index.ts'
import type { Findings } from '../../findings.ts'
import { problemOfLabel } from '../../label.ts'
import { checkColumns } from './columns.ts'
import type { DefinitionSpec, DefinitionVersion } from './definition.ts'
import type { SchemaProps } from './schema-props.ts'
import { checkSelectableFields } from './selectable-fields.ts'
import { checkSubresources } from './subresources.ts'

type Aspect = 'schema' | 'subresources' | 'additionalPrinterColumns' | 'selectableFields'

/** The schema of one version, or that of all. */
export interface VersionSchema {
  readonly place: string
  /** The versions. */
  readonly names: readonly string[]
  readonly schema: SchemaProps
  /** True if one of the versions has the subresource status. */
  readonly hasStatus: boolean
}

/**
 * The parts of a definition by place. What is the same in all versions is checked once, at the place where Kubernetes'
 * internal type has it: `spec.validation` in place of each `spec.versions[*].schema`.
 */
class Parts {
  readonly versions: readonly DefinitionVersion[]
  readonly #shared: ReadonlySet<Aspect>

  constructor({ versions = [] }: DefinitionSpec) {
    this.versions = versions
    const [first, ...others] = versions
    const aspects: readonly Aspect[] = [
      'schema',
      'subresources',
      'additionalPrinterColumns',
      'selectableFields',
    ]
    this.#shared = new Set(
      aspects.filter(
        aspect => first !== undefined && others.every(each => deepEqual(each[aspect], first[aspect])),
      ),
    )
  }

  isShared(aspect: Aspect): boolean {
    return this.#shared.has(aspect)
  }

  /** Yields each distinct part with its place. */
  *of<A extends Aspect>(
    aspect: A,
    shared: string,
  ): Generator<[place: string, part: NonNullable<DefinitionVersion[A]>, version: DefinitionVersion]> {
    const checked = this.isShared(aspect) ? this.versions.slice(0, 1) : this.versions
    for (const [at, version] of checked.entries()) {
      const { [aspect]: part } = version
      if (part !== undefined)
        yield [this.isShared(aspect) ? `spec.${shared}` : `spec.versions[${at}].${aspect}`, part, version]
    }
  }
}

/** Checks everything about versions but their schemas. */
export function checkVersions(
  spec: DefinitionSpec,
  options: { readonly requiresSchemas: boolean },
  found: Findings,
): void {
  const parts = new Parts(spec)
  const { versions } = parts
  for (const [at, version] of versions.entries()) {
    const problem = problemOfLabel(version.name)
    if (problem !== undefined) {
      found.invalid(`spec.versions[${at}].name`, problem)
      // The internal type has the name of the first version a second time.
      if (at === 0 && version.name !== '') found.invalid('spec.version', problem)
    }
    checkDeprecation(version, `spec.versions[${at}].deprecationWarning`, found)
    const isWithoutSchema = version.schema?.openAPIV3Schema === undefined
    if (isWithoutSchema && options.requiresSchemas)
      found.required(`spec.versions[${at}].schema.openAPIV3Schema`)
    else if (isWithoutSchema && version.served)
      found.required(
        `spec.versions[${at}].schema.openAPIV3Schema`,
        'is required, because otherwise all fields are pruned',
      )
  }
  if (new Set(versions.map(({ name }) => name)).size < versions.length)
    found.invalid('spec.versions', 'must have unique version names')
  if (versions.filter(({ storage }) => storage).length !== 1)
    found.invalid('spec.versions', 'must have exactly one version marked as storage version')
  for (const [place, subresources] of parts.of('subresources', 'subresources'))
    checkSubresources(subresources, place, found)
  for (const [place, columns] of parts.of('additionalPrinterColumns', 'additionalPrinterColumns'))
    checkColumns(columns, place, found)
  for (const [place, fields, version] of parts.of('selectableFields', 'selectableFields')) {
    const { openAPIV3Schema } = version.schema ?? {}
    const isBeside = parts.isShared('schema') === parts.isShared('selectableFields')
    if (openAPIV3Schema !== undefined && isBeside)
      checkSelectableFields(fields, openAPIV3Schema, place, found)
    else
      found.invalid(
        place,
        'needs a schema in the same place: as in Kubernetes, either both are the same in all versions or both differ',
      )
  }
}

/** Returns the schemas of a definition: one, if it is the same in all versions. */
export function schemasOf(spec: DefinitionSpec): VersionSchema[] {
  const parts = new Parts(spec)
  const schemas: VersionSchema[] = []
  for (const [place, { openAPIV3Schema: schema }, version] of parts.of('schema', 'validation')) {
    const versions = parts.isShared('schema') ? parts.versions : [version]
    const hasStatus = versions.some(({ subresources }) => subresources?.status !== undefined)
    const names = versions.map(({ name }) => name)
    if (schema !== undefined) schemas.push({ place: `${place}.openAPIV3Schema`, names, schema, hasStatus })
  }
  return schemas
}

/** The characters of Go's `unicode.IsPrint`. */
const printable = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]*$/u

function checkDeprecation(
  { deprecated = false, deprecationWarning }: DefinitionVersion,
  place: string,
  found: Findings,
): void {
  if (deprecationWarning === undefined) return
  if (!deprecated) {
    found.invalid(place, 'can only be set for deprecated versions')
    return
  }
  if (Buffer.byteLength(deprecationWarning) > 256) found.invalid(place, 'must have at most 256 bytes')
  if (deprecationWarning === '') found.invalid(place, 'must not be empty')
  if (!printable.test(deprecationWarning)) found.invalid(place, 'must have printable characters only')
}

/** Checks that the recorded versions of stored objects are versions, with the one that is stored in now. */
export function checkStoredVersions(
  storedVersions: readonly string[],
  { versions = [] }: DefinitionSpec,
  found: Findings,
): void {
  const place = 'status.storedVersions'
  if (storedVersions.length === 0) {
    found.invalid(place, 'must have at least one stored version')
    return
  }
  const stored = new Map(storedVersions.map((name, at) => [name, at]))
  for (const { name, storage } of versions)
    if (storage && !stored.has(name)) found.invalid(place, `must have the storage version ${name}`)
  for (const { name } of versions) stored.delete(name)
  for (const [name, at] of stored) {
    found.invalid(
      `${place}[${at}]`,
      `is missing from spec.versions: objects may still be stored in ${name}. Migrate them, and remove ${name} from status.storedVersions, before you remove the version`,
    )
  }
}
