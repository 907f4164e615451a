import type { Findings } from '../../findings.ts'
import { checkListKeywords, type ListLeniency } from './list-keywords.ts'
import { checkRuleFields } from './rule-fields.ts'
import type { SchemaFacts } from './schema-facts.ts'
import { isList, itemsOf, listedItemsOf, propertiesOf, type SchemaProps, valuesOf } from './schema-props.ts'

const embedded = 'x-kubernetes-embedded-resource'

/** What is not demanded of a schema, because the stored definition breaks it too. */
export interface SchemaLeniency extends ListLeniency {
  readonly allowsUnknownTypes: boolean
}

const types = ['array', 'boolean', 'integer', 'number', 'object', 'string']
const metadataFields: ReadonlySet<string> = new Set(['metadata', 'kind', 'apiVersion'])

export function hasUnknownType({ type }: SchemaProps): boolean {
  return type !== undefined && !types.includes(type)
}

/** How a schema is reached. */
interface Way {
  /** Set where defaults are forbidden: the end of the sentence "must not be set". */
  readonly noDefaults?: string
  readonly isInMetadata: boolean
  /** The place of the list around the schema whose items have no old values. */
  readonly uncorrelated?: string
  /** False inside logic, where rules are refused elsewhere. */
  readonly hasRules: boolean
}

/** A schema with rules whose expressions are still to be compiled. */
export interface PlacedRules {
  readonly schema: SchemaProps
  readonly place: string
  /** The place of the list around the schema whose items have no old values. */
  readonly uncorrelated: string | undefined
}

/**
 * Checks a schema and all schemas in it, wherever they stand: the keywords that OpenAPI has and Kubernetes does not, those that exclude
 * each other, and the rules but for their expressions.
 * @returns the schemas whose rules can be compiled
 */
export function checkOpenApiSchema(
  schema: SchemaProps,
  place: string,
  leniency: SchemaLeniency,
  facts: SchemaFacts,
  found: Findings,
): readonly PlacedRules[] {
  const walk = new SchemaWalk(leniency, facts, schema, found)
  walk.check(schema, place, { isInMetadata: false, hasRules: true })
  return walk.rules
}

class SchemaWalk {
  readonly rules: PlacedRules[] = []
  readonly #leniency: SchemaLeniency
  readonly #facts: SchemaFacts
  readonly #root: SchemaProps
  readonly #found: Findings

  constructor(leniency: SchemaLeniency, facts: SchemaFacts, root: SchemaProps, found: Findings) {
    this.#leniency = leniency
    this.#facts = facts
    this.#root = root
    this.#found = found
  }

  check(schema: SchemaProps, place: string, way: Way): void {
    const found = this.#found
    const before = found.total
    this.#checkKeywords(schema, place, way)
    if (schema.uniqueItems)
      found.forbidden(`${place}.uniqueItems`, `must not be true; use x-kubernetes-list-type: set`)
    this.#checkFields(schema, place, way)
    this.#checkLogic(schema, place, { ...way, hasRules: false })
    this.#checkItems(schema, place, way)
    if (schema['x-kubernetes-preserve-unknown-fields'] === false)
      found.invalid(`${place}.x-kubernetes-preserve-unknown-fields`, 'must be true or undefined')
    checkListKeywords(schema, place, this.#leniency, found)
    checkRuleFields(schema, place, this.#facts, found)
    // As in Kubernetes: an expression over a malformed schema would fail for a reason that goes away with that of the schema.
    if (way.hasRules && found.total === before && schema['x-kubernetes-validations'] !== undefined)
      this.rules.push({ schema, place, uncorrelated: way.uncorrelated })
  }

  /** Checks the keywords that are not allowed, or not there. */
  #checkKeywords(schema: SchemaProps, place: string, { noDefaults, isInMetadata }: Way): void {
    const found = this.#found
    const { type } = schema
    if (hasUnknownType(schema) && !this.#leniency.allowsUnknownTypes)
      found.unsupported(`${place}.type`, type ?? '', types)
    if (type === 'null') found.forbidden(`${place}.type`, 'must not be null; use nullable')
    if (schema.default !== undefined && noDefaults !== undefined)
      found.forbidden(`${place}.default`, `must not be set ${noDefaults}`)
    for (const keyword of unsupported)
      if (schema[keyword] !== undefined) found.forbidden(`${place}.${keyword}`, 'is not supported')
    if (listedItemsOf(schema).length > 0)
      found.forbidden(`${place}.items`, 'must be a schema, not a list of them')
    if (isInMetadata && schema[embedded])
      found.forbidden(`${place}.${embedded}`, 'must not be used inside of metadata')
  }

  #checkFields(schema: SchemaProps, place: string, way: Way): void {
    const { additionalProperties } = schema
    const properties = propertiesOf(schema)
    if (properties.length > 0 && additionalProperties !== undefined && additionalProperties !== true)
      this.#found.forbidden(`${place}.additionalProperties`, 'must not stand next to properties')
    const values = valuesOf(schema)
    if (values !== undefined) {
      const noDefaults = 'inside additionalProperties of metadata'
      this.check(values, `${place}.additionalProperties`, way.isInMetadata ? { ...way, noDefaults } : way)
    }
    const isRoot = schema === this.#root
    for (const [name, property] of properties) {
      const isOfResource = (isRoot || schema[embedded]) && metadataFields.has(name)
      const inside = isOfResource ? { ...way, isInMetadata: true } : way
      const noDefaults = `in top-level ${name}`
      this.check(
        property,
        `${place}.properties[${name}]`,
        isRoot && isOfResource ? { ...inside, noDefaults } : inside,
      )
    }
  }

  #checkLogic(schema: SchemaProps, place: string, way: Way): void {
    const { not, allOf = [], oneOf = [], anyOf = [], definitions = {}, dependencies = {} } = schema
    if (not !== undefined) this.check(not, `${place}.not`, way)
    for (const [keyword, branches] of Object.entries({ allOf, oneOf, anyOf }))
      for (const [at, branch] of branches.entries()) this.check(branch, `${place}.${keyword}[${at}]`, way)
    for (const [name, each] of Object.entries(definitions))
      this.check(each, `${place}.definitions[${name}]`, way)
    for (const [name, each] of Object.entries(dependencies))
      if (!isList(each)) this.check(each, `${place}.dependencies[${name}]`, way)
  }

  #checkItems(schema: SchemaProps, place: string, way: Way): void {
    const { uncorrelated = place } = way
    const ofItem = schema['x-kubernetes-list-type'] === 'map' ? way : { ...way, uncorrelated }
    const items = itemsOf(schema)
    if (items !== undefined) this.check(items, `${place}.items`, ofItem)
    for (const [at, each] of listedItemsOf(schema).entries())
      this.check(each, `${place}.items[${at}]`, { ...ofItem, hasRules: false })
  }
}

/** Keywords of JSON Schema that structural schemas do not have. */
const unsupported = [
  'id',
  'additionalItems',
  'patternProperties',
  'definitions',
  'dependencies',
  '$ref',
] as const
