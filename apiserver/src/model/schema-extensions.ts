/**
 * The `x-kubernetes-*` keywords of structural schemas: checks their use as Kubernetes does, and translates those that
 * constrain values to JSON Schema.
 */

import { isRecord, kubernetesKeywords, nearestName } from '@setpoint/controller-runtime/api'
import { embeddedMetadataSchema } from './embedded-metadata.ts'
import type { JsonObject } from './json-value.ts'
import { Pattern } from './pattern.ts'
import { SchemaError } from './schema-error.ts'
import { listTypeKeyword, patternKeyword } from './schema-keywords.ts'

/** The value of `listTypeKeyword`. A set has no keys. */
export interface DistinctItems {
  readonly keys?: readonly string[]
}

const known: ReadonlySet<string> = new Set(kubernetesKeywords)

/** Returns true if the keyword is one of Kubernetes' extensions. @throws SchemaError if it is not enforced */
export function isExtension(keyword: string, place: string): boolean {
  if (!keyword.startsWith('x-kubernetes-')) return false
  if (known.has(keyword)) return true
  const nearest = nearestName(keyword, kubernetesKeywords)
  const help =
    nearest === undefined ? `which enforces ${kubernetesKeywords.join(', ')}` : `did you mean ${nearest}?`
  throw new SchemaError(`${place}.${keyword} is not enforced by this server, ${help}`)
}

/**
 * Checks the extensions of one schema and adds their constraints to its translation.
 * @param result the JSON Schema of the other keywords
 * @throws SchemaError that names the place of the wrong keyword
 */
export function addExtensions(result: JsonObject, schema: JsonObject, place: string): void {
  const fail = (keyword: string, why: string): never => {
    throw new SchemaError(`${place}.x-kubernetes-${keyword} ${why}`)
  }
  const flag = (keyword: string): boolean => {
    const value = schema[`x-kubernetes-${keyword}`]
    if (value === undefined) return false
    return value === true || fail(keyword, 'must be true or absent')
  }
  if (flag('int-or-string')) {
    if (schema.type !== undefined) fail('int-or-string', 'must not stand next to a type')
    const types = ['integer', 'string']
    result.type = schema.nullable === true ? [...types, 'null'] : types
  }
  if (flag('preserve-unknown-fields') && schema.type !== undefined && schema.type !== 'object')
    fail('preserve-unknown-fields', 'needs the type object, or none')
  if (flag('embedded-resource')) {
    if (schema.type !== 'object') fail('embedded-resource', 'needs the type object')
    if (!isRecord(schema.properties) && schema['x-kubernetes-preserve-unknown-fields'] !== true)
      fail('embedded-resource', 'needs properties or x-kubernetes-preserve-unknown-fields')
    addConstraint(result, embeddedResource(schema.nullable === true))
  }
  const mapType = schema['x-kubernetes-map-type']
  if (mapType !== undefined) {
    if (schema.type !== 'object') fail('map-type', 'needs the type object')
    if (mapType !== 'atomic' && mapType !== 'granular') fail('map-type', 'must be atomic or granular')
  }
  const problem = problemOfList(schema)
  if (problem !== undefined) throw new SchemaError(`${place}.${problem}`)
  if (schema['x-kubernetes-list-type'] === 'set') result[listTypeKeyword] = {}
  if (schema['x-kubernetes-list-type'] === 'map') result[listTypeKeyword] = { keys: keysOf(schema) }
}

/** Returns the keys of a list of type map; none for any other list. */
export function keysOf(schema: JsonObject): readonly string[] {
  const keys = schema['x-kubernetes-list-map-keys']
  return Array.isArray(keys) ? keys.filter(key => typeof key === 'string') : []
}

/** @throws SchemaError for an extension inside allOf, anyOf, oneOf and not, which only constrain values */
export function refuseExtensions(schema: JsonObject, place: string): void {
  for (const [keyword, value] of Object.entries(schema)) {
    if (value !== undefined && isExtension(keyword, place))
      throw new SchemaError(`${place}.${keyword} must not stand inside allOf, anyOf, oneOf or not`)
  }
}

const listTypes = ['atomic', 'set', 'map']

/** Returns the first problem of the keywords of a list, which begins with the keyword. */
function problemOfList(schema: JsonObject): string | undefined {
  const { items } = schema
  const listType = schema['x-kubernetes-list-type']
  const keys = schema['x-kubernetes-list-map-keys']
  if (keys !== undefined && listType !== 'map')
    return 'x-kubernetes-list-map-keys needs the x-kubernetes-list-type map'
  if (listType === undefined) return undefined
  if (typeof listType !== 'string' || !listTypes.includes(listType))
    return `x-kubernetes-list-type must be one of ${listTypes.join(', ')}`
  if (schema.type !== 'array') return 'x-kubernetes-list-type needs the type array'
  if (listType === 'atomic') return undefined
  if (!isRecord(items)) return `x-kubernetes-list-type ${listType} needs items`
  if (items.nullable === true) return `items.nullable must not be true in a list of type ${listType}`
  return listType === 'set' ? problemOfSet(items) : problemOfMap(items, keys)
}

function problemOfSet(items: JsonObject): string | undefined {
  if (items.type === 'object' && items['x-kubernetes-map-type'] !== 'atomic')
    return 'items.x-kubernetes-map-type must be atomic for objects in a list of type set'
  if (items.type === 'array' && (items['x-kubernetes-list-type'] ?? 'atomic') !== 'atomic')
    return 'items.x-kubernetes-list-type must be atomic for lists in a list of type set'
  return undefined
}

const scalars = ['string', 'integer', 'number', 'boolean']

function problemOfMap({ type, properties, required }: JsonObject, keys: unknown): string | undefined {
  if (type !== 'object') return 'items.type must be object in a list of type map'
  if (!Array.isArray(keys) || keys.length === 0)
    return 'x-kubernetes-list-map-keys must have at least one key in a list of type map'
  if (new Set(keys).size !== keys.length) return 'x-kubernetes-list-map-keys must be distinct'
  for (const key of keys) {
    const property =
      isRecord(properties) && typeof key === 'string' && Object.hasOwn(properties, key)
        ? properties[key]
        : undefined
    if (!isRecord(property))
      return `x-kubernetes-list-map-keys has ${JSON.stringify(key)}, which is not a property of the items`
    if (!scalars.includes(String(property.type)) && property['x-kubernetes-int-or-string'] !== true)
      return `items.properties.${key} must be a scalar, since it is a key of a list of type map`
    if (property.nullable === true)
      return `items.properties.${key}.nullable must not be true, since it is a key of a list of type map`
    if (property.default === undefined && !(Array.isArray(required) && required.includes(key)))
      return `items.properties.${key} must be required or have a default, since it is a key of a list of type map`
  }
  return undefined
}

/** The fields of every object of the API. */
function embeddedResource(nullable: boolean): JsonObject {
  const object = {
    type: 'object',
    required: ['apiVersion', 'kind'],
    properties: {
      apiVersion: matching('^([a-z0-9][-a-z0-9.]*/)?[a-z0-9][-a-z0-9]*$'),
      kind: matching('^[A-Za-z][-A-Za-z0-9]*$'),
      metadata: embeddedMetadataSchema,
    },
  }
  return nullable ? { ...object, type: ['object', 'null'] } : object
}

function matching(pattern: string): JsonObject {
  return { type: 'string', [patternKeyword]: new Pattern(pattern) }
}

/** A condition that always holds: unlike in allOf, the errors are those of the object itself. */
function addConstraint(result: JsonObject, constraint: JsonObject): void {
  result.if = {}
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  result.then = constraint
}
