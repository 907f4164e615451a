import { type Answer, type Api, type ApiObject, Collection, objectOf } from './api.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './json.ts'
import { objectIn, Watch, type WatchEvent } from './watch.ts'

/** CustomResourceDefinitions that tests store, and the objects of their kinds. */

export const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** What a test says of a version. Everything else is the simplest that is valid. */
export interface VersionParts {
  /** The schema of `spec`. Default: one that keeps every field. */
  readonly spec?: Fields
  /** More keywords of the root schema. */
  readonly root?: Fields
  readonly served?: boolean
  /** Default: true for the first version, false for the others. */
  readonly storage?: boolean
  /** JSONPaths. */
  readonly selectable?: readonly string[]
  readonly columns?: readonly Fields[]
  readonly subresources?: Fields
  readonly deprecated?: boolean
}

export interface DefinitionParts {
  readonly plural: string
  /** Default live.example.com. */
  readonly group?: string
  /** Default: the plural without its last letter, with a capital. */
  readonly kind?: string
  /** Default Cluster. */
  readonly scope?: 'Cluster' | 'Namespaced'
  /** More names, in the place of the defaults. */
  readonly names?: Fields
  /** By name. Default: v1. */
  readonly versions?: Readonly<Record<string, VersionParts>>
  /** The entries of the annotation `setpoint.dev/indexes`. */
  readonly indexes?: readonly Fields[]
  readonly metadata?: Fields
}

export const anyFields: Fields = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }

export function definitionOf(parts: DefinitionParts): Fields {
  const { plural, group = 'live.example.com', scope = 'Cluster', names, indexes, metadata = {} } = parts
  const annotations = {
    ...fieldsOf(metadata.annotations ?? {}),
    ...(indexes && { 'setpoint.dev/indexes': JSON.stringify(indexes) }),
  }
  const versions = Object.entries(parts.versions ?? { v1: {} })
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, ...metadata, annotations },
    spec: {
      group,
      scope,
      names: { plural, singular: plural.slice(0, -1), kind: kindIn(parts), ...names },
      versions: versions.map(([name, version], at) => versionOf(name, { storage: at === 0, ...version })),
    },
  }
}

function versionOf(name: string, version: VersionParts): Fields {
  const { spec = anyFields, root = {}, served = true, storage, selectable, columns, ...others } = version
  return {
    ...others,
    ...{ name, served, storage },
    schema: { openAPIV3Schema: { type: 'object', properties: { spec }, ...root } },
    ...(selectable && { selectableFields: selectable.map(jsonPath => ({ jsonPath })) }),
    ...(columns && { additionalPrinterColumns: columns }),
  }
}

function kindIn({ kind, plural }: DefinitionParts): string {
  return kind ?? plural.charAt(0).toUpperCase() + plural.slice(1, -1)
}

export function nameOf(definition: Fields): string {
  return textOf(fieldsOf(definition.metadata).name)
}

export function pathOf(definition: Fields): string {
  return `${definitionsPath}/${nameOf(definition)}`
}

/** The objects of a definition's kind. @param version default: the first one */
export function objectsOf(
  api: Api,
  definition: Fields,
  { version, namespace }: { readonly version?: string; readonly namespace?: string } = {},
): Collection {
  const { group, names, versions } = fieldsOf(definition.spec)
  const { kind, plural } = fieldsOf(names)
  const [first] = arrayOf(versions).map(fieldsOf)
  const apiVersion = `${textOf(group)}/${version ?? textOf(first?.name)}`
  return new Collection(api, apiVersion, textOf(kind), textOf(plural), namespace)
}

/** Creates a definition. */
export async function define(api: Api, definition: Fields): Promise<ApiObject> {
  return objectOf(await api.post(definitionsPath, definition), 201)
}

/** Creates a definition, or makes the stored one equal to it. */
export async function applyDefinition(api: Api, definition: Fields): Promise<ApiObject> {
  const answer = await applied(api, definition)
  return objectOf(answer, answer.status === 201 ? 201 : 200)
}

export function applied(api: Api, definition: Fields): Promise<Answer> {
  const type = 'application/apply-patch+yaml'
  const path = `${pathOf(definition)}?fieldManager=test&force=true`
  return api.request('PATCH', path, JSON.stringify(definition), { type })
}

export async function readDefinition(api: Api, definition: Fields): Promise<ApiObject> {
  return objectOf(await api.get(pathOf(definition)))
}

/** Returns `True` or `False` with the reason, or undefined if the definition has no such condition. */
export function conditionIn({ status }: Pick<ApiObject, 'status'>, type: string): string | undefined {
  const found = conditionsOf(status).find(each => each.type === type)
  return found && `${found.status} ${found.reason}`
}

export function messageIn({ status }: Pick<ApiObject, 'status'>, type: string): string {
  return textOf(conditionsOf(status).find(each => each.type === type)?.message ?? '')
}

function conditionsOf({ conditions }: Fields): readonly Fields[] {
  return arrayOf(conditions ?? []).map(fieldsOf)
}

/** Watches one definition, which need not exist yet. */
export function watchDefinition({ url }: Api, definition: Fields): Promise<Watch> {
  return Watch.open(url, `${definitionsPath}?fieldSelector=metadata.name=${nameOf(definition)}`)
}

/** Returns true for the event of a definition that has a condition, for example `Established`, with this status. */
export function hasCondition(event: WatchEvent, type: string, status = 'True'): boolean {
  return event.name !== '' && conditionIn(objectIn(event), type)?.startsWith(`${status} `) === true
}
