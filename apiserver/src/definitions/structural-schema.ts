import { isRecord } from '@setpoint/controller-runtime/api'
import { cloneJson, fillDefaults, type JsonObject, setOwn } from '../model/index.ts'
import { toOpenApiSchema } from '../openapi/index.ts'

interface Options {
  /** True if fields that the schema does not declare are kept, as Setpoint does unless the model prunes. */
  readonly keepsUnknown: boolean
  /** Called with each constraint that a structural schema cannot have. `place` is a path such as `spec.tags`. */
  readonly leftOut: (place: string, why: string) => void
}

/** Annotations that Kubernetes refuses, and keywords that the conversion to OpenAPI adds and structural schemas do not need. */
const refused: ReadonlySet<string> = new Set(['deprecated', 'readOnly', 'writeOnly'])

const preserve = 'x-kubernetes-preserve-unknown-fields'
const intOrString = 'x-kubernetes-int-or-string'
const logic = ['allOf', 'anyOf', 'oneOf', 'not'] as const

/**
 * Returns the structural schema, as CustomResourceDefinitions need it, for a schema of a model: each place has a type, logic only
 * constrains what is declared outside of it, and maps have no declared fields.
 */
export function toStructuralSchema(schema: unknown, place: string, options: Options): JsonObject {
  const source = isRecord(schema) ? schema : {}
  const { properties, items, additionalProperties } = source
  const result = withoutNested(source)
  for (const keyword of logic) delete result[keyword]
  if (result.uniqueItems === true) options.leftOut(place, 'uniqueItems: use x-kubernetes-list-type set')
  delete result.uniqueItems
  if (isRecord(properties)) {
    const structural: JsonObject = {}
    for (const [name, property] of Object.entries(properties))
      setOwn(structural, name, toStructuralSchema(property, `${place}.${name}`, options))
    result.properties = structural
    if (isRecord(additionalProperties) && Object.keys(additionalProperties).length > 0)
      options.leftOut(place, 'additionalProperties, because it has properties too')
  } else if (isRecord(additionalProperties))
    result.additionalProperties = toStructuralSchema(additionalProperties, `${place}[*]`, options)
  if (result.type === 'array') result.items = toStructuralSchema(items, `${place}[]`, options)
  const isUntyped = result.type === undefined && result[intOrString] !== true
  if (isUntyped && properties !== undefined) result.type = 'object'
  // An object without declared fields, and a value of any type, have any content.
  if (isUntyped || (result.type === 'object' && hasNoFields(source))) result[preserve] = true
  if (properties !== undefined && options.keepsUnknown && additionalProperties !== false)
    result[preserve] = true
  if (source.default !== undefined) {
    // Kubernetes checks a default as it stands, without the defaults inside it.
    result.default = cloneJson(source.default)
    fillDefaults(source, result.default)
  }
  addLogic(source, result, place, options)
  return result
}

/** Returns the keywords that are the same in both, without those of nested schemas. */
function withoutNested(source: Readonly<Record<string, unknown>>): JsonObject {
  const { properties: _p, items: _i, additionalProperties: _a, ...own } = source
  const converted = toOpenApiSchema(own)
  for (const added of ['properties', 'items', 'additionalProperties']) delete converted[added]
  // What the conversion adds for readers that do not know the keyword.
  if (source[intOrString] === true && source.anyOf === undefined) delete converted.anyOf
  const kept = Object.entries(converted).filter(
    ([keyword]) =>
      !refused.has(keyword) && (!keyword.startsWith('x-') || keyword.startsWith('x-kubernetes-')),
  )
  return Object.fromEntries(kept)
}

function hasNoFields({ properties, additionalProperties }: Readonly<Record<string, unknown>>): boolean {
  return properties === undefined && (additionalProperties === undefined || additionalProperties === true)
}

function addLogic(
  source: Readonly<Record<string, unknown>>,
  result: JsonObject,
  place: string,
  options: Options,
): void {
  for (const keyword of logic) {
    const { [keyword]: given } = source
    if (given === undefined) continue
    const branches = (Array.isArray(given) ? given : [given]).map(branch => constraintsOf(branch, source))
    if (branches.some(branch => branch === undefined))
      options.leftOut(place, `${keyword}, which has a type or a field that is not declared outside of it`)
    else result[keyword] = Array.isArray(given) ? branches : branches[0]
  }
}

/** Keywords of Kubernetes' structural schemas that must not stand inside logic. */
const outsideOnly: ReadonlySet<string> = new Set(['description', 'title', 'default', 'example', 'nullable'])

/**
 * Returns what a branch of logic says of a value, without annotations; undefined if it says more than that of what `outer`
 * declares.
 */
function constraintsOf(branch: unknown, outer: Readonly<Record<string, unknown>>): JsonObject | undefined {
  if (!isRecord(branch)) return undefined
  const result: JsonObject = {}
  for (const [keyword, value] of Object.entries(branch)) {
    if (outsideOnly.has(keyword) || refused.has(keyword)) continue
    if (keyword === 'type') {
      if (value !== outer.type && outer[intOrString] !== true) return undefined
      if (outer[intOrString] === true) result.type = value
    } else if (keyword === 'properties') {
      const fields = fieldsOf(value, outer.properties)
      if (fields === undefined) return undefined
      result.properties = fields
    } else if (keyword === 'items') {
      const items = constraintsOf(value, isRecord(outer.items) ? outer.items : {})
      if (items === undefined) return undefined
      result.items = items
    } else if (keyword === 'not') {
      const not = constraintsOf(value, outer)
      if (not === undefined) return undefined
      result.not = not
    } else if (keyword === 'allOf' || keyword === 'anyOf' || keyword === 'oneOf') {
      const branches = Array.isArray(value) ? value.map(each => constraintsOf(each, outer)) : []
      if (branches.some(each => each === undefined)) return undefined
      result[keyword] = branches
    } else if (keyword === 'additionalProperties' || keyword.startsWith('x-')) return undefined
    else result[keyword] = value
  }
  return result
}

function fieldsOf(properties: unknown, outer: unknown): JsonObject | undefined {
  if (!isRecord(properties) || !isRecord(outer)) return undefined
  const result: JsonObject = {}
  for (const [name, property] of Object.entries(properties)) {
    if (!Object.hasOwn(outer, name)) return undefined
    const { [name]: declared } = outer
    const constraints = constraintsOf(property, isRecord(declared) ? declared : {})
    if (constraints === undefined) return undefined
    setOwn(result, name, constraints)
  }
  return result
}
