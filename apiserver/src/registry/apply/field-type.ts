import { isRecord } from '@setpoint/controller-runtime/api'
import type { ServedVersion } from '../../model/index.ts'
import { keyElement, type PathElement, valueElement } from './path-element.ts'

/**
 * How the fields of a value are owned and merged: what OpenAPI's `x-kubernetes-list-type` and `x-kubernetes-map-type`
 * say about it. A value may be of several forms; the one that it has decides. A value of another form is a single
 * field, like a scalar: the validation of the object refuses it.
 */
export interface FieldType {
  readonly map?: MapType
  readonly list?: ListType
  /** True if the value may be a scalar. */
  readonly isScalar: boolean
}

export interface MapType {
  /** True if the map is one field. */
  readonly isAtomic: boolean
  readonly fields: ReadonlyMap<string, FieldType>
  /** The type of all other fields. */
  readonly rest: FieldType
}

export interface ListType {
  /** An atomic list is one field. */
  readonly kind: 'atomic' | 'set' | 'map'
  readonly items: FieldType
  /** The keys of a list of type map, by name. */
  readonly keys: readonly { readonly name: string; readonly default: unknown }[]
}

const noDeclaredFields: ReadonlyMap<string, FieldType> = new Map()

/** A scalar, or any value that is a single field. */
const single: FieldType = { isScalar: true }

const atomicList: ListType = { kind: 'atomic', items: single, keys: [] }

/** The type of a field that the schema does not describe: maps are merged field by field, lists are atomic. */
export const deduced: FieldType = {
  map: {
    isAtomic: false,
    fields: noDeclaredFields,
    get rest() {
      return deduced
    },
  },
  list: atomicList,
  isScalar: true,
}

const mapOfScalars: FieldType = {
  map: { isAtomic: false, fields: noDeclaredFields, rest: single },
  isScalar: false,
}

/** As in Kubernetes' ObjectMeta: finalizers are a set, owner references are identified by their uid. */
const metadataType: FieldType = {
  map: {
    isAtomic: false,
    fields: new Map<string, FieldType>([
      ['name', single],
      ['labels', mapOfScalars],
      ['annotations', mapOfScalars],
      ['finalizers', { list: { kind: 'set', items: single, keys: [] }, isScalar: false }],
      [
        'ownerReferences',
        {
          list: {
            kind: 'map',
            items: {
              map: { isAtomic: true, fields: noDeclaredFields, rest: single },
              isScalar: false,
            },
            keys: [{ name: 'uid', default: undefined }],
          },
          isScalar: false,
        },
      ],
    ]),
    rest: deduced,
  },
  isScalar: false,
}

const resourceFields: readonly (readonly [string, FieldType])[] = [
  ['apiVersion', single],
  ['kind', single],
  ['metadata', metadataType],
]

/**
 * Translates a schema, as kube-openapi's `schemaconv/openapi.go`. Fields that it does not declare are kept, so deduced.
 */
export function fieldTypeOf(schema: unknown): FieldType {
  if (!isRecord(schema)) return deduced
  switch (schema.type) {
    case undefined:
      return { map: mapTypeOf(schema), list: listTypeOf(schema), isScalar: true }
    case 'object':
      return { map: mapTypeOf(schema), isScalar: false }
    case 'array':
      return { list: listTypeOf(schema), isScalar: false }
    default:
      return single
  }
}

type AnySchema = Readonly<Record<string, unknown>>

function mapTypeOf(schema: AnySchema): MapType {
  const { properties, additionalProperties } = schema
  const isAtomic = schema['x-kubernetes-map-type'] === 'atomic'
  const isResource = schema['x-kubernetes-embedded-resource'] === true
  const fields = new Map<string, FieldType>(isResource ? resourceFields : [])
  if (isRecord(properties))
    for (const [name, property] of Object.entries(properties)) fields.set(name, fieldTypeOf(property))
  return {
    isAtomic,
    fields,
    rest: isRecord(additionalProperties) ? fieldTypeOf(additionalProperties) : deduced,
  }
}

function listTypeOf(schema: AnySchema): ListType {
  const { items } = schema
  const kind = schema['x-kubernetes-list-type']
  if (kind !== 'set' && kind !== 'map') return atomicList
  const names = schema['x-kubernetes-list-map-keys']
  const keys = Array.isArray(names) ? names.filter(name => typeof name === 'string').sort() : []
  return {
    kind,
    items: fieldTypeOf(items),
    keys: keys.map(name => ({ name, default: defaultOf(items, name) })),
  }
}

function defaultOf(items: unknown, name: string): unknown {
  const properties = isRecord(items) ? items.properties : undefined
  const property = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined
  return isRecord(property) ? property.default : undefined
}

/** The types of whole objects, derived once for each version. */
const objectTypes = new WeakMap<ServedVersion, FieldType>()

/** Returns the type of a version's objects. */
export function objectTypeOf(version: ServedVersion): FieldType {
  const known = objectTypes.get(version)
  if (known !== undefined) return known
  const fields = new Map(resourceFields)
  for (const [field, schema] of Object.entries(version.content)) fields.set(field, fieldTypeOf(schema))
  const type: FieldType = { map: { isAtomic: false, fields, rest: deduced }, isScalar: false }
  objectTypes.set(version, type)
  return type
}

export function typeOfField({ fields, rest }: MapType, name: string): FieldType {
  return fields.get(name) ?? rest
}

/** The form that decides how a value is merged. */
export type Form = 'map' | 'list' | 'single'

/**
 * What is left of a map or list that has lost all its fields to a removal. Kubernetes leaves null, and drops it when it
 * stores the object; this is not the null of a client. In JSON it is absent.
 */
export const emptied = Symbol('emptied')

/** Null and `emptied` have every form; the first that the type allows decides. */
export function formOf(type: FieldType, value: unknown): Form {
  if (Array.isArray(value)) return type.list === undefined ? 'single' : 'list'
  if (isRecord(value)) return type.map === undefined ? 'single' : 'map'
  if (value !== null && value !== emptied) return 'single'
  if (type.map !== undefined) return 'map'
  return type.isScalar || type.list === undefined ? 'single' : 'list'
}

/**
 * Returns the element of an item of a list of type set or map. An item of a map without any of its keys is identified
 * by its whole value; `problemsOfConfig` refuses such items in what is applied.
 */
export function itemElement(list: ListType, item: unknown): PathElement {
  const keys = list.kind === 'map' && isRecord(item) ? keysOfItem(list, item) : undefined
  return keys === undefined ? valueElement(item) : keyElement(keys)
}

/** Returns undefined if the item has no key. A key that is absent, without a default, is left out. */
export function keysOfItem(
  { keys }: ListType,
  item: Readonly<Record<string, unknown>>,
): Record<string, unknown> | undefined {
  const own: Record<string, unknown> = {}
  let isEmpty = true
  for (const key of keys) {
    const value = Object.hasOwn(item, key.name) ? item[key.name] : key.default
    if (value === undefined) continue
    own[key.name] = value
    isEmpty = false
  }
  return isEmpty ? undefined : own
}
