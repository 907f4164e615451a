import { isRecord } from '@setpoint/controller-runtime/api'
import type { JsonObject, ServedModel, ServedVersion } from '../model/index.ts'
import { kindExtensions } from './kind-extensions.ts'
import { apiVersion, kind, metaRef } from './meta-schemas.ts'
import { kindName, refTo } from './names.ts'
import { toOpenApiSchema } from './openapi-schema.ts'
import { sampleOf } from './sample.ts'

/** A kind in one of its versions. */
export interface KindVersion {
  readonly served: ServedModel
  readonly version: ServedVersion
  /** The path of the module that adds to the console for this kind. */
  readonly consoleModule?: string
}

/** The schemas and examples of a kind, by their names in the document. */
export interface KindComponents {
  readonly schemas: JsonObject
  readonly examples: JsonObject
}

/** Returns true if the objects of the kind are in namespaces. */
export function isNamespaced({ served }: KindVersion): boolean {
  return served.model.scope === 'Namespaced'
}

/** Returns the group, version and kind as Kubernetes clients look for them. */
export function kindExtension({ served: { model }, version }: KindVersion) {
  return { group: version.group, kind: model.kind, version: version.name }
}

/** The keywords of a list that strategic merge patches treat in their own way. */
export interface PatchKeywords {
  /** The names of the properties that lead to the list. */
  readonly path: readonly string[]
  readonly keywords: JsonObject
}

/** Returns the components of a kind: its objects, its lists, and examples where some can be made. */
export function kindComponents(of: KindVersion, patchKeywords: readonly PatchKeywords[]): KindComponents {
  const content = Object.fromEntries(
    Object.entries(of.version.content).map(([field, schema]) => [field, toOpenApiSchema(schema)]),
  )
  const object = objectSchema(of, content)
  for (const { path, keywords } of patchKeywords) addKeywords(object, path, keywords)
  return {
    schemas: {
      [nameOf(of)]: object,
      // Reviews are not listed.
      ...(of.served.review === undefined && { [listNameOf(of)]: listSchema(of) }),
    },
    examples: examplesOf(of, content),
  }
}

/** Adds keywords to the property at a path, if the schema has it. */
function addKeywords(schema: JsonObject, path: readonly string[], keywords: JsonObject): void {
  const [name, ...rest] = path
  if (name === undefined) {
    Object.assign(schema, keywords)
    return
  }
  const property = isRecord(schema.properties) ? schema.properties[name] : undefined
  if (isRecord(property)) addKeywords(property, rest, keywords)
}

export function nameOf({ version }: KindVersion): string {
  return kindName(version.apiVersion, version.kind)
}

export function listNameOf({ version }: KindVersion): string {
  return kindName(version.apiVersion, version.listKind)
}

function objectSchema(of: KindVersion, content: Readonly<Record<string, JsonObject>>): JsonObject {
  const { model } = of.served
  const descriptions: Readonly<Record<string, string>> = {
    spec: 'The desired state.',
    status: of.version.hasStatus
      ? 'The observed state. Only writes to /status change it.'
      : 'The observed state.',
  }
  const described = Object.entries(content).map(([field, schema]) => {
    const { [field]: description } = descriptions
    return [field, of.version.defined === undefined ? { description, ...schema } : schema] as const
  })
  return {
    type: 'object',
    description: of.version.defined?.root.description ?? `An object of the kind ${model.kind}.`,
    ...requiredOf(of),
    properties: {
      apiVersion,
      kind,
      metadata: metaRef('ObjectMeta', 'What identifies and classifies the object.'),
      ...Object.fromEntries(described),
    },
    'x-kubernetes-group-version-kind': [kindExtension(of)],
    ...kindExtensions(of),
  }
}

/** Bodies of built-in kinds may omit what the path says. Those of a definition need what its schema says. */
function requiredOf({ version: { isBuiltIn, defined } }: KindVersion): JsonObject {
  if (isBuiltIn) return {}
  if (defined === undefined) return { required: ['apiVersion', 'kind', 'metadata', 'spec'] }
  const { required } = defined.root
  return required === undefined ? {} : { required }
}

const count = (description: string) => ({ type: 'integer', format: 'int64', description })
const flag = (description: string) => ({ type: 'boolean', description })

/** Absent in responses to `limit`. */
const pageFields = {
  page: count('The number of this page, from 1.'),
  size: count('The number of items of a full page.'),
  total: count('The number of items on all pages.'),
  totalPages: count('The number of pages; 0 if nothing was found.'),
  first: flag('True on the first page.'),
  last: flag('True on the last page, and past it.'),
  hasNext: flag('True if there is a next page.'),
  hasPrevious: flag('True if there is a previous page.'),
}

function listSchema(of: KindVersion): JsonObject {
  const { group, version, kind: name } = kindExtension(of)
  return {
    type: 'object',
    description: `Objects of the kind ${name}, all from one state of the store. A list with limit has no fields about pages.`,
    required: of.version.defined === undefined ? ['apiVersion', 'kind', 'metadata', 'items'] : ['items'],
    properties: {
      apiVersion,
      kind,
      metadata: metaRef('ListMeta', 'The state of the list.'),
      ...pageFields,
      items: {
        type: 'array',
        description: 'The objects.',
        items: refTo('schemas', nameOf(of)),
      },
    },
    'x-kubernetes-group-version-kind': [{ group, kind: of.version.listKind, version }],
  }
}

/** The names of a kind's examples in the document. */
export interface ExampleNames {
  /** As a client sends it. */
  readonly sent: string
  /** As a client sends it to `/status`. */
  readonly status: string
  /** As the server returns it. */
  readonly stored: string
}

/** Returns undefined if the schema allows no example to be made. */
export function exampleNames(of: KindVersion, examples: JsonObject): ExampleNames | undefined {
  const sent = nameOf(of)
  const status = `${sent}.status`
  if (!Object.hasOwn(examples, sent)) return undefined
  return { sent, status: Object.hasOwn(examples, status) ? status : sent, stored: `${sent}.stored` }
}

function examplesOf(of: KindVersion, { status, ...schemas }: JsonObject): JsonObject {
  // What a built-in kind accepts does not follow from its schema alone.
  if (of.version.isBuiltIn) return {}
  const { apiVersion, kind } = of.version
  const samples = Object.entries(schemas).map(([field, schema]) => [field, sampleOf(schema)] as const)
  if (samples.some(([, sample]) => sample === undefined)) return {}
  const content = Object.fromEntries(samples)
  const observed = sampleOf(status)
  const key = { name: 'example', ...(isNamespaced(of) && { namespace: 'default' }) }
  const sent = { apiVersion, kind, metadata: key, ...content }
  const stored = {
    apiVersion,
    kind,
    metadata: {
      ...key,
      uid: '6f1d0f8e-2a4b-4f0c-8f57-1d2f3a4b5c6d',
      version: '42',
      resourceVersion: '42',
      generation: 1,
      creationTimestamp: '2026-01-31T10:00:00.000Z',
    },
    ...content,
    ...(isFilled(observed) && { status: observed }),
  }
  const name = nameOf(of)
  return {
    [name]: { summary: `${kind} as a client sends it`, value: sent },
    ...(isFilled(observed) &&
      of.version.hasStatus && {
        [`${name}.status`]: {
          summary: `${kind} as a client sends it to /status`,
          value: { ...sent, status: observed },
        },
      }),
    [`${name}.stored`]: { summary: `${kind} as the server returns it`, value: stored },
  }
}

function isFilled(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0
}
