import { itemsOf, listedItemsOf, propertiesOf, type SchemaProps, valuesOf } from './schema-props.ts'

interface Facts {
  /** Why the schema cannot be read as a structural one. */
  readonly unreadable: string | undefined
  readonly hasDefaults: boolean
  /** The number of rules. */
  readonly rules: number
}

const nothing: Facts = { unreadable: undefined, hasDefaults: false, rules: 0 }

/** What is in a schema and the schemas inside of it, found in one walk. */
export class SchemaFacts {
  readonly #facts = new Map<SchemaProps, Facts>()

  constructor(root: SchemaProps) {
    this.#walk(root)
  }

  of(schema: SchemaProps): Facts {
    return this.#facts.get(schema) ?? nothing
  }

  #walk(schema: SchemaProps): Facts {
    let unreadable = unreadableKeyword(schema)
    let hasDefaults = schema.default !== undefined
    let rules = schema['x-kubernetes-validations']?.length ?? 0
    const add = (part: SchemaProps | undefined) => {
      if (part === undefined) return
      const facts = this.#walk(part)
      unreadable ??= facts.unreadable
      hasDefaults ||= facts.hasDefaults
      rules += facts.rules
    }
    add(itemsOf(schema))
    add(valuesOf(schema))
    for (const [, property] of propertiesOf(schema)) add(property)
    add(schema.not)
    for (const branches of [schema.allOf, schema.anyOf, schema.oneOf]) branches?.forEach(add)
    const facts = { unreadable, hasDefaults, rules }
    this.#facts.set(schema, facts)
    return facts
  }
}

/** Keywords that structural schemas do not have. */
const unsupported = [
  'id',
  '$schema',
  '$ref',
  'patternProperties',
  'dependencies',
  'additionalItems',
  'definitions',
] as const

/** Returns why a schema, apart from those inside of it, cannot be read as a structural one. Other checks find the same at its place. */
function unreadableKeyword(schema: SchemaProps): string | undefined {
  for (const keyword of unsupported) if (schema[keyword]) return `${keyword} is not supported`
  if (schema.additionalItems === false) return 'additionalItems is not supported'
  if (schema['x-kubernetes-preserve-unknown-fields'] === false)
    return 'x-kubernetes-preserve-unknown-fields must be true or undefined'
  if (listedItemsOf(schema).length > 0) return 'items must be a schema, not a list of schemas'
  return undefined
}
