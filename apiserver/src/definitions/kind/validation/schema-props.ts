/** One rule of `x-kubernetes-validations`. */
export interface RuleProps {
  readonly rule: string
  readonly message?: string
  readonly messageExpression?: string
  readonly reason?: string
  readonly fieldPath?: string
  readonly optionalOldSelf?: boolean
}

type ByName = Readonly<Record<string, SchemaProps>>

/** A schema as Go's `JSONSchemaProps` keeps it: without empty texts and lists, and without `false` where that is the default. */
export interface SchemaProps {
  readonly id?: string
  readonly $schema?: string
  readonly $ref?: string
  readonly description?: string
  readonly type?: string
  readonly format?: string
  readonly title?: string
  readonly default?: unknown
  readonly maximum?: number
  readonly exclusiveMaximum?: boolean
  readonly minimum?: number
  readonly exclusiveMinimum?: boolean
  readonly maxLength?: number
  readonly minLength?: number
  readonly pattern?: string
  readonly maxItems?: number
  readonly minItems?: number
  readonly uniqueItems?: boolean
  readonly multipleOf?: number
  readonly enum?: readonly unknown[]
  readonly maxProperties?: number
  readonly minProperties?: number
  readonly required?: readonly string[]
  readonly items?: SchemaProps | readonly SchemaProps[]
  readonly allOf?: readonly SchemaProps[]
  readonly oneOf?: readonly SchemaProps[]
  readonly anyOf?: readonly SchemaProps[]
  readonly not?: SchemaProps
  readonly properties?: ByName
  readonly additionalProperties?: SchemaProps | boolean
  readonly patternProperties?: ByName
  readonly dependencies?: Readonly<Record<string, SchemaProps | readonly string[]>>
  readonly additionalItems?: SchemaProps | boolean
  readonly definitions?: ByName
  readonly externalDocs?: object
  readonly example?: unknown
  readonly nullable?: boolean
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean
  readonly 'x-kubernetes-embedded-resource'?: boolean
  readonly 'x-kubernetes-int-or-string'?: boolean
  readonly 'x-kubernetes-list-map-keys'?: readonly string[]
  readonly 'x-kubernetes-list-type'?: string
  readonly 'x-kubernetes-map-type'?: string
  readonly 'x-kubernetes-validations'?: readonly RuleProps[]
}

/** Keywords that only describe. */
export const described: ReadonlySet<string> = new Set(['externalDocs', 'example'])

/** Returns the schema of all items, or undefined if there is none or a list of them. */
export function itemsOf({ items }: SchemaProps): SchemaProps | undefined {
  return items === undefined || isList(items) ? undefined : items
}

/** Returns the schemas of items by position. */
export function listedItemsOf({ items }: SchemaProps): readonly SchemaProps[] {
  return items !== undefined && isList(items) ? items : []
}

/** Returns the schema of additional fields, if there is one. */
export function valuesOf({ additionalProperties }: SchemaProps): SchemaProps | undefined {
  return typeof additionalProperties === 'object' ? additionalProperties : undefined
}

/** Returns the schema of a declared field. */
export function propertyOf({ properties }: SchemaProps, name: string): SchemaProps | undefined {
  return properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined
}

export function propertiesOf({ properties = {} }: SchemaProps): [name: string, schema: SchemaProps][] {
  return Object.entries(properties)
}

/** Visits the schemas directly inside a schema, at every keyword. */
export function forEachPart(schema: SchemaProps, visit: (part: SchemaProps) => void): void {
  const items = itemsOf(schema)
  if (items !== undefined) visit(items)
  listedItemsOf(schema).forEach(visit)
  for (const branches of [schema.allOf, schema.anyOf, schema.oneOf]) branches?.forEach(visit)
  if (schema.not !== undefined) visit(schema.not)
  for (const byName of [schema.properties, schema.patternProperties, schema.definitions])
    if (byName !== undefined) Object.values(byName).forEach(visit)
  for (const more of [schema.additionalProperties, schema.additionalItems])
    if (typeof more === 'object') visit(more)
  for (const dependency of Object.values(schema.dependencies ?? {}))
    if (!isList(dependency)) visit(dependency)
}

/** `Array.isArray` does not tell read-only lists from objects. */
export function isList<T>(value: object | readonly T[]): value is readonly T[] {
  return Array.isArray(value)
}
