import { type ContentSchema, isRecord } from '@setpoint/controller-runtime/api'
import { type FieldPath, formatPath } from './field-path.ts'
import type { JsonObject } from './json-value.ts'
import type { SchemaSubject } from './object-rules.ts'

/**
 * Returns the paths of unknown fields in `value`, at most `limit`. Only an object whose schema has `properties` can
 * have unknown fields. A field is known if the schema, or any branch of its allOf, anyOf and oneOf, declares it or
 * allows additional properties. If they are forbidden, the field is a violation and is left out here.
 */
export function findUnknownFields(schema: unknown, value: unknown, path: FieldPath, limit: number): string[] {
  const found: string[] = []
  if (limit > 0) visit(withBranches([schema]), value, path, field => found.push(formatPath(field)) < limit)
  return found
}

/**
 * Returns an object without the unknown fields in its content, or the object itself if it has none. Copies what it
 * changes.
 * @param schema the schemas of the fields besides apiVersion, kind and metadata
 */
export function withoutUnknownFields<T extends SchemaSubject>(schema: ContentSchema, object: T): T {
  const unknown: FieldPath[] = []
  for (const field of Object.keys(object)) {
    if (Object.hasOwn(schema, field))
      visit(withBranches([schema[field]]), object[field], [field], path => unknown.push(path) > 0)
    else if (!resourceFields.has(field)) unknown.push([field])
  }
  return withoutFields(object, unknown)
}

function removeField(object: object, path: FieldPath): void {
  let parent: object = object
  for (const step of path.slice(0, -1)) parent = Reflect.get(parent, step)
  Reflect.deleteProperty(parent, path.at(-1) ?? '')
}

/**
 * Returns the paths of the fields that Kubernetes prunes from an object (`structural-schema/pruning`): an object has
 * only the fields that its schema declares, and nothing is declared where there is no schema.
 * @param root the schema of the whole object
 */
export function prunedFields(root: JsonObject, object: SchemaSubject, limit: number): FieldPath[] {
  const found: FieldPath[] = []
  if (limit > 0) visitStructural(root, object, [], true, path => found.push([...path]) < limit)
  return found
}

/**
 * Every object is walked over when it is read and written, so this allocates nothing for declared fields.
 * @param path of the value. It changes during the walk
 * @param isResource true for an object of the API, which has the fields of every one
 */
function visitStructural(
  schema: unknown,
  value: object,
  path: (string | number)[],
  isResource: boolean,
  report: (field: FieldPath) => boolean,
): boolean {
  const declared = isRecord(schema) ? schema : nothing
  const preserves = declared['x-kubernetes-preserve-unknown-fields'] === true
  const goOn = (part: unknown, item: unknown, step: string | number) => {
    if (typeof item !== 'object' || item === null) return true
    path.push(step)
    const isWhole = isRecord(part) && part[embeddedResource] === true
    const goesOn = visitStructural(part, item, path, isWhole, report)
    path.pop()
    return goesOn
  }
  if (Array.isArray(value)) {
    if (preserves && declared.items === undefined) return true
    return value.every((item, at) => goOn(declared.items, item, at))
  }
  const { properties, additionalProperties } = declared
  const hasOthers = additionalProperties !== undefined && additionalProperties !== false
  for (const [name, item] of Object.entries(value)) {
    let goesOn = true
    if (isResource && resourceFields.has(name)) {
      if (name === 'metadata' && path.length > 0) goesOn = reportUnknownMeta(item, [...path, name], report)
    } else if (isRecord(properties) && Object.hasOwn(properties, name))
      goesOn = goOn(properties[name], item, name)
    else if (hasOthers) {
      // True allows any value, but declares nothing inside of it.
      if (!preserves || additionalProperties !== true) goesOn = goOn(additionalProperties, item, name)
    } else if (!preserves) goesOn = report([...path, name])
    if (!goesOn) return false
  }
  return true
}

const nothing: JsonObject = Object.freeze({})

const embeddedResource = 'x-kubernetes-embedded-resource'

/** Returns an object without the fields at some paths, or the object itself without any. Copies what it changes. */
export function withoutFields<T extends SchemaSubject>(object: T, paths: readonly FieldPath[]): T {
  if (paths.length === 0) return object
  const kept = structuredClone(object)
  for (const path of paths) removeField(kept, path)
  return kept
}

/** Reports unknown fields until `report` returns false. Returns false then, too. */
function visit(
  schemas: readonly JsonObject[],
  value: unknown,
  path: FieldPath,
  report: (field: FieldPath) => boolean,
): boolean {
  if (schemas.length === 0) return true
  if (Array.isArray(value)) {
    const items = withBranches(schemas.map(schema => schema.items))
    if (items.length > 0)
      for (const [index, item] of value.entries())
        if (isNested(item) && !visit(items, item, [...path, index], report)) return false
    return true
  }
  if (!isRecord(value)) return true
  const isResource = schemas.some(schema => schema[embeddedResource] === true)
  const closed = schemas.some(schema => isRecord(schema.properties)) && !schemas.some(allowsAnything)
  for (const name of Object.keys(value)) {
    const item = value[name]
    const applying: unknown[] = []
    for (const { properties, additionalProperties } of schemas) {
      if (isRecord(properties) && Object.hasOwn(properties, name)) applying.push(properties[name])
      else if (isRecord(additionalProperties)) applying.push(additionalProperties)
    }
    if (applying.length > 0) {
      if (isNested(item) && !visit(withBranches(applying), item, [...path, name], report)) return false
    } else if (isResource && resourceFields.has(name)) continue
    else if (closed && !report([...path, name])) return false
  }
  return true
}

/** Kubernetes decodes the metadata of embedded objects into its own type, so nothing else is known there. */
function reportUnknownMeta(
  metadata: unknown,
  path: FieldPath,
  report: (field: FieldPath) => boolean,
): boolean {
  if (!isRecord(metadata)) return true
  return Object.keys(metadata).every(field => metaFields.has(field) || report([...path, field]))
}

const metaFields: ReadonlySet<string> = new Set([
  ...['name', 'generateName', 'namespace', 'selfLink', 'uid', 'resourceVersion', 'generation'],
  ...['creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'labels', 'annotations'],
  ...['ownerReferences', 'finalizers', 'managedFields'],
])

/** The fields of every object of the API, declared or not. */
const resourceFields = new Set(['apiVersion', 'kind', 'metadata'])

/** Returns true if the value can contain fields. */
function isNested(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function allowsAnything(schema: JsonObject): boolean {
  return schema.additionalProperties !== undefined || schema['x-kubernetes-preserve-unknown-fields'] === true
}

/** Returns the schemas and all their branches. */
function withBranches(schemas: readonly unknown[]): JsonObject[] {
  const all: JsonObject[] = []
  for (const schema of schemas) {
    if (!isRecord(schema)) continue
    all.push(schema)
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      const branches = schema[keyword]
      if (Array.isArray(branches)) all.push(...withBranches(branches))
    }
  }
  return all
}
