import { defaultIndexes } from './default-indexes.ts'
import type { ModelHooks } from './hooks.ts'
import { type IndexDeclaration, type IndexSpec, isIndexDeclaration, isIndexSpec } from './index-spec.ts'
import { isRecord } from './is-record.ts'
import { type KeysOf, unknownKeys } from './known-keys.ts'
import {
  type ContentSchema,
  type ModelVersion,
  problemsOfVersions,
  type VersionDeclarations,
} from './model-version.ts'
import { checkDnsLabel, checkSubdomain, type ObjectNames } from './names.ts'
import type { ApiObject, ObjectInput } from './object.ts'
import { type PrinterColumn, problemsOfColumns } from './printer-column.ts'
import type { FromSchema, Schema, SchemaUse } from './schema.ts'
import { problemOfFunction } from './synchronous.ts'

/** The OpenAPI v3 schemas of `spec` and `status`. A type, so that it is a `ContentSchema`. */
export type ModelSchema = {
  readonly spec: Schema
  readonly status?: Schema
}

const schemaKeys: KeysOf<ModelSchema> = { spec: true, status: true }

/** The type of `status`; any object without a status schema. */
export type StatusFromSchema<S extends ModelSchema, Use extends SchemaUse = 'read'> = S extends {
  readonly status: infer Status
}
  ? FromSchema<Status, Use>
  : Record<string, unknown>

/** The type of the objects that these schemas describe. */
export type ObjectOfSchema<S extends ModelSchema> = ApiObject<
  FromSchema<S['spec']>,
  StatusFromSchema<S>,
  ObjectInput<FromSchema<S['spec'], 'write'>, StatusFromSchema<S, 'write'>>
> & { metadata: { generation: number } }

/** The declaration of a model. Objects have no content besides `spec` and `status`. */
export interface ModelDeclaration<
  S extends ModelSchema = ModelSchema,
  V extends readonly ModelSchema[] = readonly ModelSchema[],
> extends ModelHooks<ObjectOfSchema<NoInfer<S>>> {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly singular: string
  readonly plural: string
  readonly schema: S
  readonly subresources?: { readonly status?: boolean }
  /**
   * Fields for filtering and sorting lists, made by `singleValueIndex` or `multiValueIndex`, or taken from another
   * model.
   */
  readonly indexes?: readonly (
    | IndexDeclaration<ObjectOfSchema<NoInfer<S>>>
    | IndexSpec<ObjectOfSchema<NoInfer<S>>>
  )[]
  readonly printerColumns?: readonly PrinterColumn[]
  /** Short forms of the plural for command lines, for example `gd`. Discovery shows them. */
  readonly shortNames?: readonly string[]
  /** Groups of kinds, for example `all`. Discovery shows them. */
  readonly categories?: readonly string[]
  /** The rule for names of objects: with `dns-subdomain` they may have dots. Default: `dns-label`. */
  readonly names?: ObjectNames
  /** `Namespaced`: each object is in a namespace, and names are unique within it. Default `Cluster`. */
  readonly scope?: ModelScope
  /**
   * True for a kind with secrets, such as private keys. The group `setpoint:viewers` may not read its objects. The
   * audit log has no bodies of its requests, and errors do not repeat its values. Default: false.
   */
  readonly sensitive?: boolean
  /**
   * True if fields that the schema does not declare are removed from objects, as in Kubernetes. Otherwise they are
   * stored. Default: false.
   */
  readonly prune?: boolean
  /** Further versions that are served. `version` and `schema` are the hub, which indexes and controllers see. */
  readonly versions?: VersionDeclarations<V, NoInfer<S>>
  /** The version that objects are stored in. Default: the hub. */
  readonly storedVersion?: string
}

/** With `apiVersion`, because a declaration may spread another model. */
const modelKeys: KeysOf<ModelDeclaration & { apiVersion: string }> = {
  group: true,
  version: true,
  kind: true,
  singular: true,
  plural: true,
  schema: true,
  subresources: true,
  indexes: true,
  printerColumns: true,
  shortNames: true,
  categories: true,
  names: true,
  scope: true,
  sensitive: true,
  prune: true,
  versions: true,
  storedVersion: true,
  default: true,
  validate: true,
  admit: true,
  apiVersion: true,
}

const subresourceKeys: KeysOf<ModelDeclaration['subresources'] & object> = { status: true }

/** A declared resource kind. `T` is the type of its objects. */
export interface Model<T extends ApiObject = ApiObject> extends ModelHooks<T> {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly singular: string
  readonly plural: string
  /** `<group>/<version>` */
  readonly apiVersion: string
  readonly schema: ContentSchema
  readonly subresources: { readonly status: boolean }
  readonly indexes: readonly IndexSpec<T>[]
  readonly printerColumns: readonly PrinterColumn[]
  readonly shortNames: readonly string[]
  readonly categories: readonly string[]
  readonly names: ObjectNames
  readonly scope: ModelScope
  /** True if its objects have secrets. */
  readonly sensitive: boolean
  /** True if its objects have only the fields that the schema declares. */
  readonly prune: boolean
  /** The versions other than the hub. */
  readonly versions: readonly ModelVersion[]
  /** The version that objects are stored in, if the declaration names one. Otherwise it is the hub. */
  readonly storedVersion?: string
}

/** The result of `defineModel`. Its objects have no content besides `spec` and `status`. */
export interface DefinedModel<T extends ApiObject = ApiObject> extends Model<T> {
  readonly schema: ModelSchema
  readonly versions: readonly (ModelVersion & { readonly schema: ModelSchema })[]
}

/** Whether the objects of a kind are in namespaces. It cannot change while objects are stored. */
export type ModelScope = 'Cluster' | 'Namespaced'

/** The object type of a model: `ObjectOf<typeof Gadget>`. */
export type ObjectOf<M> = M extends Model<infer T> ? T : never

/** A model declaration is invalid; the message lists every problem. */
export class ModelError extends Error {
  override readonly name = 'ModelError'
}

/**
 * Declares a resource kind. The types of `spec` and `status` are inferred from the schema.
 * @throws ModelError that lists every problem of the declaration.
 */
export function defineModel<const S extends ModelSchema, const V extends readonly ModelSchema[] = []>(
  declaration: ModelDeclaration<S, V>,
): DefinedModel<ObjectOfSchema<S>> {
  if (!isRecord(declaration)) throw new ModelError('defineModel must be given an object')
  const indexes: IndexSpec<ObjectOfSchema<S>>[] = []
  const problems = problemsOf(declaration)
  const declared: unknown = declaration.indexes ?? []
  if (!Array.isArray(declared)) problems.push('indexes must be an array')
  else {
    const names = new Set(defaultIndexes(declaration.scope).map(({ name }) => name))
    for (const given of declared) {
      const index = isIndexDeclaration(given) ? given() : given
      if (!isIndexSpec(index)) {
        problems.push('indexes must be made by singleValueIndex or multiValueIndex')
        continue
      }
      const problem = problemOfIndex(index, names, declaration)
      if (problem !== undefined) problems.push(problem)
      names.add(index.name)
      indexes.push(index)
    }
  }
  if (problems.length > 0) {
    throw new ModelError(
      `model ${declaration.kind ?? '?'} (${declaration.group ?? '?'}): ${problems.join('; ')}`,
    )
  }
  const { versions = [], storedVersion }: Pick<ModelDeclaration, 'versions' | 'storedVersion'> = declaration
  const { group, schema } = declaration
  return freezeModel({
    ...declaration,
    schema,
    indexes,
    versions: versions.map(each => ({ ...each, apiVersion: apiVersionOf(group, each.name) })),
    storedVersion,
  })
}

/** The parts of a model, without those that have a default. */
export interface ModelParts<T extends ApiObject>
  extends ModelHooks<T>,
    Pick<Model, 'group' | 'version' | 'kind' | 'singular' | 'plural'>,
    Partial<
      Pick<Model, 'printerColumns' | 'shortNames' | 'categories' | 'names' | 'scope' | 'sensitive' | 'prune'>
    > {
  readonly subresources?: { readonly status?: boolean }
  readonly indexes: readonly IndexSpec<T>[]
  readonly storedVersion?: string | undefined
}

/** Completes the parts of a model. */
export function freezeModel<T extends ApiObject, S extends ContentSchema, V extends ModelVersion>(
  parts: ModelParts<T> & { readonly schema: S; readonly versions?: readonly V[] },
) {
  const { group, version, kind, singular, plural, schema, subresources, indexes, storedVersion } = parts
  const { printerColumns = [], shortNames = [], categories = [], names = 'dns-label' } = parts
  const { scope = 'Cluster', sensitive = false, prune = false, versions = [] } = parts
  return Object.freeze({
    group,
    version,
    kind,
    singular,
    plural,
    apiVersion: apiVersionOf(group, version),
    schema,
    subresources: { status: subresources?.status ?? false },
    indexes: Object.freeze(indexes),
    printerColumns: Object.freeze([...printerColumns]),
    shortNames: Object.freeze([...shortNames]),
    categories: Object.freeze([...categories]),
    names,
    scope,
    sensitive,
    prune,
    versions: Object.freeze(versions.map(each => Object.freeze({ ...each }))),
    storedVersion,
    default: parts.default,
    validate: parts.validate,
    admit: parts.admit,
  } satisfies Model<T>)
}

/**
 * Returns a model for clients of another version of a kind. `T` is the type of the objects in that version.
 * @throws ModelError if the model does not have the version
 */
export function modelOfVersion<T extends ApiObject = ApiObject>(model: Model, name: string): Model<T> {
  const found = model.versions.find(version => version.name === name)
  if (found === undefined) throw new ModelError(`${model.kind} has no version ${name} besides its hub`)
  const { storedVersion: _storedVersion, ...hub } = model
  const { apiVersion, schema, printerColumns = hub.printerColumns } = found
  return Object.freeze({
    ...hub,
    version: name,
    apiVersion,
    schema,
    printerColumns,
    indexes: [],
    versions: [],
  })
}

/** Returns `<group>/<version>`; the core group has no name. */
function apiVersionOf(group: string, version: string): string {
  return group === '' ? version : `${group}/${version}`
}

function problemsOf(declaration: Omit<ModelDeclaration, 'indexes'>): string[] {
  const problems = unknownKeys(declaration, modelKeys, 'defineModel')
  const text = (
    field: 'group' | 'version' | 'kind' | 'singular' | 'plural',
    check: (value: string) => string | undefined,
  ) => {
    const value: unknown = declaration[field]
    const problem = typeof value === 'string' ? check(value) : 'must be a string'
    if (problem !== undefined) problems.push(`${field} ${problem}`)
  }
  // The empty group is reserved rather than malformed: the server refuses it, with the reserved domain.
  text('group', group => (group === '' ? undefined : checkSubdomain(group)))
  text('version', checkDnsLabel)
  text('kind', kind =>
    /^[A-Z][A-Za-z0-9]{0,62}$/.test(kind) ? undefined : 'must be CamelCase, at most 63 letters and digits',
  )
  text('singular', checkDnsLabel)
  text('plural', checkDnsLabel)
  const {
    schema,
    subresources = {},
    printerColumns = [],
    shortNames = [],
    categories = [],
    names = 'dns-label',
    scope = 'Cluster',
    sensitive = false,
    prune = false,
  }: Readonly<Record<string, unknown>> = { ...declaration }
  if (!isRecord(schema) || !isRecord(schema.spec)) problems.push('schema.spec must be an OpenAPI v3 schema')
  else problems.push(...unknownKeys(schema, schemaKeys, 'schema'))
  if (!isRecord(subresources)) problems.push('subresources must be an object such as { status: true }')
  else {
    problems.push(...unknownKeys(subresources, subresourceKeys, 'subresources'))
    if (typeof (subresources.status ?? false) !== 'boolean')
      problems.push('subresources.status must be true or false')
  }
  problems.push(...problemsOfColumns(printerColumns))
  for (const [field, names] of Object.entries({ shortNames, categories })) {
    const areNames = Array.isArray(names) && names.every(name => checkDnsLabel(String(name)) === undefined)
    if (!areNames) problems.push(`${field} must be an array of names of lowercase letters, digits and '-'`)
  }
  if (names !== 'dns-label' && names !== 'dns-subdomain')
    problems.push("names must be 'dns-label' or 'dns-subdomain'")
  if (scope !== 'Cluster' && scope !== 'Namespaced') problems.push("scope must be 'Cluster' or 'Namespaced'")
  if (typeof sensitive !== 'boolean') problems.push('sensitive must be true or false')
  if (typeof prune !== 'boolean') problems.push('prune must be true or false')
  if (declaration.plural === 'namespaces' && declaration.group !== '')
    problems.push("plural must not be 'namespaces', which is reserved for paths")
  problems.push(
    ...problemsOfVersions(declaration.version, declaration.versions ?? [], declaration.storedVersion),
  )
  for (const hook of ['default', 'validate', 'admit'] as const) {
    const given: unknown = declaration[hook]
    const problem = given === undefined ? undefined : problemOfFunction(given)
    if (problem !== undefined) problems.push(`${hook} ${problem}`)
  }
  return problems
}

function problemOfIndex(
  { name, order, unique, uniqueWithin, version }: IndexSpec<never>,
  taken: ReadonlySet<string>,
  { scope, sensitive }: { readonly scope?: unknown; readonly sensitive?: unknown },
) {
  if (typeof name !== 'string') return 'every index must have a name'
  if (!/^[A-Za-z0-9]([-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?$/.test(name))
    return `index name ${JSON.stringify(name)} must consist of letters, digits, '.', '-', '_' and '/'`
  if (taken.has(name))
    return `index name ${JSON.stringify(name)} is already in use, or is the name of a default index`
  if (order !== 'ASC' && order !== 'DESC') return `index ${name}: order must be ASC or DESC`
  if (typeof unique !== 'boolean') return `index ${name}: unique must be true or false`
  if (uniqueWithin !== undefined) {
    if (uniqueWithin !== 'namespace') return `index ${name}: uniqueWithin must be 'namespace'`
    if (!unique) return `index ${name}: uniqueWithin needs unique: true`
    if (scope !== 'Namespaced') return `index ${name}: uniqueWithin needs scope: 'Namespaced'`
  }
  if (unique && uniqueWithin === undefined && scope === 'Namespaced' && sensitive === true)
    return `index ${name} of a sensitive kind must have uniqueWithin: 'namespace', because a refused write would tell which values other namespaces have`
  if (!Number.isSafeInteger(version) || version < 1) return `index ${name}: version must be an integer from 1`
  return undefined
}
