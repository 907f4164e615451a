import type { Findings } from '../../findings.ts'
import { itemsOf, listedItemsOf, propertyOf, type SchemaProps } from './schema-props.ts'

const listTypeKeyword = 'x-kubernetes-list-type'
const mapTypeKeyword = 'x-kubernetes-map-type'
const keysKeyword = 'x-kubernetes-list-map-keys'

/** What is not demanded of lists, because the stored definition breaks it too. */
export interface ListLeniency {
  /** Items of sets need not be atomic. */
  readonly allowsGranularSets: boolean
  /** Keys of maps need not be required, and items may be nullable. */
  readonly allowsOptionalKeys: boolean
}

/** Checks `x-kubernetes-list-type`, `-list-map-keys` and `-map-type` of one schema. */
export function checkListKeywords(
  schema: SchemaProps,
  place: string,
  { allowsGranularSets, allowsOptionalKeys }: ListLeniency,
  found: Findings,
): void {
  const { type, [mapTypeKeyword]: mapType, [listTypeKeyword]: listType } = schema
  if (mapType !== undefined) {
    checkType(type, 'object', mapTypeKeyword, place, found)
    if (!mapTypes.includes(mapType)) found.unsupported(`${place}.${mapTypeKeyword}`, mapType, mapTypes)
  }
  if (listType !== undefined) {
    checkType(type, 'array', listTypeKeyword, place, found)
    if (type === 'array' && !allowsGranularSets) checkSet(schema, place, found)
    if (!listTypes.includes(listType)) found.unsupported(`${place}.${listTypeKeyword}`, listType, listTypes)
  }
  const { [keysKeyword]: keys = [] } = schema
  if (keys.length > 0 && listType !== 'map') {
    const why = `must be map if ${keysKeyword} is not empty`
    if (listType === undefined) found.required(`${place}.${listTypeKeyword}`, why)
    else found.invalid(`${place}.${listTypeKeyword}`, why)
  }
  if (listType === 'map') checkMap(schema, keys, place, found)
  if (!allowsOptionalKeys) checkItems(schema, place, found)
}

const mapTypes = ['atomic', 'granular']
const listTypes = ['atomic', 'set', 'map']

function checkType(
  type: string | undefined,
  wanted: string,
  keyword: string,
  place: string,
  found: Findings,
): void {
  if (type === wanted) return
  const why = `must be ${wanted} if ${keyword} is specified`
  if (type === undefined) found.required(`${place}.type`, why)
  else found.invalid(`${place}.type`, why)
}

/** Returns the keyword of the items that must be atomic in a set, if it is not. */
export function granularKeyword(schema: SchemaProps): string | undefined {
  const items = itemsOf(schema)
  if (schema[listTypeKeyword] !== 'set' || items === undefined) return undefined
  const { type, [listTypeKeyword]: listType = 'atomic', [mapTypeKeyword]: mapType } = items
  if (type === 'array' && listType !== 'atomic') return listTypeKeyword
  return type === 'object' && mapType !== 'atomic' ? mapTypeKeyword : undefined
}

function checkSet(schema: SchemaProps, place: string, found: Findings): void {
  const keyword = granularKeyword(schema)
  if (keyword !== undefined)
    found.invalid(`${place}.items.${keyword}`, 'must be atomic for the items of a list of type set')
}

function checkMap(schema: SchemaProps, keys: readonly string[], place: string, found: Findings): void {
  if (keys.length === 0) found.required(`${place}.${keysKeyword}`, `must not be empty in a list of type map`)
  const items = itemsOf(schema)
  if (items === undefined) {
    if (schema.items === undefined)
      found.required(`${place}.items`, 'must have a schema in a list of type map')
    else if (listedItemsOf(schema).length > 0)
      found.invalid(`${place}.items`, 'must have a single schema in a list of type map')
    return
  }
  if (items.type !== 'object') {
    found.invalid(`${place}.items.type`, 'must be object in a list of type map')
    return
  }
  const seen = new Set<string>()
  for (const key of keys) {
    const property = propertyOf(items, key)
    if (property === undefined)
      found.invalid(
        `${place}.${keysKeyword}`,
        `must be names of properties of the items, ${JSON.stringify(key)} is not`,
      )
    else if (property.type === 'array' || property.type === 'object')
      found.invalid(
        `${place}.items.properties[${key}].type`,
        'must be a scalar, because it is a key of the list',
      )
    if (seen.has(key)) found.invalid(`${place}.${keysKeyword}`, `must not have ${JSON.stringify(key)} twice`)
    seen.add(key)
  }
}

/** Checks that items have their keys, and are not null. */
export function checkItems(schema: SchemaProps, place: string, found: Findings): void {
  const { [listTypeKeyword]: listType, [keysKeyword]: keys = [] } = schema
  const items = itemsOf(schema)
  if (items === undefined || (listType !== 'set' && listType !== 'map')) return
  if (items.nullable)
    found.forbidden(`${place}.items.nullable`, `must not be true in a list of type ${listType}`)
  if (listType === 'set') return
  const required = new Set(items.required)
  for (const key of keys) {
    const property = propertyOf(items, key)
    if (property === undefined) continue
    const at = `${place}.items.properties[${key}]`
    if (!required.has(key) && property.default === undefined)
      found.required(`${at}.default`, 'is required unless the property is, because it is a key of the list')
    if (property.nullable)
      found.forbidden(`${at}.nullable`, 'must not be true, because it is a key of the list')
  }
}
