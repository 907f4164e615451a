import {
  type ContentSchema,
  compareApiVersions,
  freezeModel,
  type IndexSpec,
  isRecord,
  type ModelVersion,
  type Schema,
} from '@setpoint/controller-runtime/api'
import { type Converter, type DefinedVersion, loadRules, ServedModel } from '../model/index.ts'
import { declaredIndex, selectableIndex, selectableName } from './defined-indexes.ts'
import type { DeclaredIndex } from './kind/index.ts'
import type { DefinitionNames, DefinitionVersion, StoredDefinition } from './stored-definition.ts'

/**
 * Returns the kind of a definition. Its hub is the version that objects are stored in.
 * @param names those that were accepted
 * @param indexes the entries of the annotation
 * @param converter undefined if conversions only change the apiVersion
 * @throws ModelError for a schema that cannot be compiled
 */
export async function definedModel(
  definition: StoredDefinition,
  names: DefinitionNames,
  indexes: readonly DeclaredIndex[],
  converter?: Converter,
): Promise<ServedModel> {
  const { name, uid, group, isNamespaced, conversion } = definition
  const hub = definition.versions.find(({ isStorage }) => isStorage) ?? definition.versions[0]
  if (hub === undefined) throw new RangeError(`the definition ${name} has no versions`)
  const versions =
    conversion.strategy === 'Webhook'
      ? definition.versions.map(version => withFieldsOf(hub, version))
      : definition.versions
  const others = versions.filter(version => version.name !== hub.name)
  const model = freezeModel({
    group,
    version: hub.name,
    ...{ kind: names.kind, singular: names.singular, plural: names.plural },
    ...{ shortNames: names.shortNames, categories: names.categories },
    names: 'dns-subdomain',
    scope: isNamespaced ? 'Namespaced' : 'Cluster',
    schema: contentOf(hub),
    subresources: { status: versions.some(({ hasStatus }) => hasStatus) },
    indexes: indexesOf(versions, indexes, conversion.strategy === 'Webhook' ? hub.name : ''),
    printerColumns: hub.columns,
    prune: true,
    versions: others.map(version => ({
      name: version.name,
      apiVersion: `${group}/${version.name}`,
      schema: contentOf(version),
      printerColumns: version.columns,
      ...unused,
    })),
  })
  const defined = {
    definition: name,
    uid,
    listKind: names.listKind,
    converter,
    versions: new Map(versions.map(version => [version.name, definedVersion(version, definition, names)])),
  }
  await loadRules(
    [model],
    versions.map(({ root }) => root),
  )
  return new ServedModel(model, undefined, { defined })
}

/** Returns a definition with schemas that allow everything, for a kind that cannot be served. */
export function withoutRules(definition: StoredDefinition): StoredDefinition {
  const root = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const versions = definition.versions.map(version => ({ ...version, root, columns: [], selectable: [] }))
  return { ...definition, versions }
}

/** A definition converts by its strategy. */
const unused: Pick<ModelVersion, 'toHub' | 'fromHub'> = {
  toHub: () => unconverted(),
  fromHub: () => unconverted(),
}

function unconverted(): never {
  throw new Error('a version of a definition has no functions')
}

function definedVersion(
  version: DefinitionVersion,
  definition: StoredDefinition,
  names: DefinitionNames,
): DefinedVersion {
  const { isServed, root, hasStatus, scale, selectable } = version
  return {
    isServed,
    root,
    hasStatus,
    scale,
    selectable: new Set(selectable.map(selectableName)),
    warning: warningOf(version, definition, names),
  }
}

/**
 * Returns a version with the selectable fields that objects at the hub may have, too, because indexes are of those. What a webhook
 * makes of a field is in none.
 */
function withFieldsOf(hub: DefinitionVersion, version: DefinitionVersion): DefinitionVersion {
  return { ...version, selectable: version.selectable.filter(path => declares(hub, path)) }
}

/** Returns true if objects of a version may have a field. @param path JSONPath */
function declares({ root }: DefinitionVersion, path: string): boolean {
  let at: unknown = root
  for (const step of path.split('.').slice(1)) {
    if (!isRecord(at)) return false
    const { properties } = at
    if (!isRecord(properties) || !Object.hasOwn(properties, step))
      return at['x-kubernetes-preserve-unknown-fields'] === true
    at = properties[step]
  }
  return true
}

/**
 * Returns the indexes of all versions. A field that is selectable in several of them is one index.
 * @param shape the version that objects are indexed in, if a webhook gives every version another shape
 */
function indexesOf(
  versions: readonly DefinitionVersion[],
  declared: readonly DeclaredIndex[],
  shape: string,
): IndexSpec[] {
  const paths = new Set(versions.flatMap(({ selectable }) => selectable))
  return [
    ...[...paths].map(path => selectableIndex(path, shape)),
    ...declared.map(each => declaredIndex(each, shape)),
  ]
}

/** Returns the text of the `Warning` header, as Kubernetes makes it. */
function warningOf(
  { name, isDeprecated, deprecationWarning }: DefinitionVersion,
  { group, versions }: StoredDefinition,
  { kind }: DefinitionNames,
): string | undefined {
  if (!isDeprecated) return undefined
  if (deprecationWarning !== undefined) return deprecationWarning
  const [newest] = versions
    .filter(each => each.isServed && !each.isDeprecated && compareApiVersions(each.name, name) < 0)
    .map(each => each.name)
    .sort(compareApiVersions)
  const instead = newest === undefined ? '' : `; use ${group}/${newest} ${kind}`
  return `${group}/${name} ${kind} is deprecated${instead}`
}

const resourceFields: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata'])

/** Returns the schemas of the fields besides apiVersion, kind and metadata. */
function contentOf({ root: { properties } }: DefinitionVersion): ContentSchema {
  const content: Record<string, Schema> = {}
  for (const [field, schema] of Object.entries(isRecord(properties) ? properties : {}))
    if (!resourceFields.has(field) && isRecord(schema)) content[field] = schema
  return content
}
