import type { Findings } from '../../findings.ts'
import { described, itemsOf, propertiesOf, propertyOf, type SchemaProps, valuesOf } from './schema-props.ts'

/**
 * What makes a schema structural, as Kubernetes defines it: each value has a type, logic only constrains what is declared outside
 * of it, and metadata is left alone.
 */

type Level = 'root' | 'item' | 'field'

const embedded = 'x-kubernetes-embedded-resource'
const intOrString = 'x-kubernetes-int-or-string'
const preserve = 'x-kubernetes-preserve-unknown-fields'

/** A pattern, and the place of its keyword. */
export interface PlacedPattern {
  readonly source: string
  readonly place: string
}

/** Checks a schema that can be read. Returns its patterns, which are still to be checked. */
export function checkStructural(
  schema: SchemaProps,
  place: string,
  found: Findings,
): readonly PlacedPattern[] {
  const structural = new Structural(found)
  structural.check(schema, 'root', place)
  // As in Kubernetes, of the root only: logic further inside may constrain fields that are not declared.
  structural.checkCompleteness(schema, schema, place, place)
  return structural.patterns
}

class Structural {
  readonly patterns: PlacedPattern[] = []
  readonly #found: Findings

  constructor(found: Findings) {
    this.#found = found
  }

  check(schema: SchemaProps, level: Level, place: string): void {
    const found = this.#found
    const { type, additionalProperties } = schema
    const items = itemsOf(schema)
    if (type === 'array' && items === undefined) found.required(`${place}.items`, 'must be specified')
    if (items !== undefined) this.check(items, 'item', `${place}.items`)
    for (const [name, property] of propertiesOf(schema))
      this.check(property, 'field', `${place}.properties[${name}]`)
    if (additionalProperties !== undefined) {
      if (level === 'root') found.forbidden(`${place}.additionalProperties`, 'must not be used at the root')
      if (schema[embedded])
        found.forbidden(`${place}.additionalProperties`, `must not be used next to ${embedded}`)
      const values = valuesOf(schema)
      if (values !== undefined) this.check(values, 'field', `${place}.additionalProperties`)
    }
    for (const keyword of [preserve, embedded] as const)
      if (schema[intOrString] && schema[keyword])
        found.invalid(`${place}.${keyword}`, `must be false if ${intOrString} is true`)
    this.#checkLogic(schema, place)
    this.#checkType(schema, level, place)
    this.#checkMetadata(schema, level, place)
    if (schema[embedded] && !schema[preserve] && schema.properties === undefined)
      found.required(`${place}.properties`, `must not be empty if ${embedded} is true without ${preserve}`)
  }

  #checkType(schema: SchemaProps, level: Level, place: string): void {
    const found = this.#found
    const { type } = schema
    if (schema[embedded] && type !== 'object') {
      const why = `must be object if ${embedded} is true`
      if (type === undefined) found.required(`${place}.type`, why)
      else found.invalid(`${place}.type`, why)
    } else if (type === undefined && !schema[intOrString] && !schema[preserve]) {
      const what = { root: 'at the root', item: 'for items of a list', field: 'for fields of an object' }[
        level
      ]
      found.required(`${place}.type`, `must not be empty ${what}`)
    }
    if (level === 'root' && type !== undefined && type !== 'object')
      found.invalid(`${place}.type`, 'must be object at the root')
  }

  #checkMetadata(schema: SchemaProps, level: Level, place: string): void {
    const found = this.#found
    const isResource = level === 'root' || schema[embedded] === true
    const metadata = propertyOf(schema, 'metadata')
    if (isResource) {
      for (const name of ['kind', 'apiVersion']) {
        const field = propertyOf(schema, name)
        if (field !== undefined && field.type !== 'string')
          found.invalid(`${place}.properties[${name}].type`, 'must be string')
      }
      if (metadata !== undefined && metadata.type !== 'object')
        found.invalid(`${place}.properties[metadata].type`, 'must be object')
    }
    if (level === 'root' && metadata !== undefined && !isRestrictedToNames(metadata))
      found.forbidden(
        `${place}.properties[metadata]`,
        'must not specify anything but name and generateName, because the metadata of objects is given',
      )
  }

  /** Checks the logic of a value, and its pattern. */
  #checkLogic(schema: SchemaProps, place: string): void {
    const { anyOf = [], allOf = [] } = schema
    if (!isIntOrString(anyOf)) this.#checkBranches('anyOf', anyOf, place)
    for (const [at, branch] of allOf.entries())
      this.#checkBranch(branch, `${place}.allOf[${at}]`, at === 0 && isIntOrString(branch.anyOf))
    this.#checkOtherLogic(schema, place)
  }

  #checkOtherLogic({ oneOf = [], not, pattern }: SchemaProps, place: string): void {
    this.#checkBranches('oneOf', oneOf, place)
    if (not !== undefined) this.#checkBranch(not, `${place}.not`)
    if (pattern !== undefined) this.patterns.push({ source: pattern, place: `${place}.pattern` })
  }

  #checkBranches(keyword: string, branches: readonly SchemaProps[], place: string): void {
    for (const [at, branch] of branches.entries()) this.#checkBranch(branch, `${place}.${keyword}[${at}]`)
  }

  /** Checks a schema inside logic. */
  #checkBranch(branch: SchemaProps, place: string, isIntOrStringHere = false): void {
    const found = this.#found
    const { anyOf = [], allOf = [], additionalProperties } = branch
    if (!isIntOrStringHere) this.#checkBranches('anyOf', anyOf, place)
    this.#checkBranches('allOf', allOf, place)
    this.#checkOtherLogic(branch, place)
    const items = itemsOf(branch)
    if (items !== undefined) this.#checkBranch(items, `${place}.items`)
    for (const [name, property] of propertiesOf(branch))
      this.#checkBranch(property, `${place}.properties[${name}]`)
    for (const keyword of outsideOnly)
      if (branch[keyword] !== undefined)
        found.forbidden(
          `${place}.${keyword}`,
          'must be outside of allOf, anyOf, oneOf and not in a structural schema',
        )
    if (additionalProperties !== undefined && additionalProperties !== false)
      found.forbidden(
        `${place}.additionalProperties`,
        'must be outside of allOf, anyOf, oneOf and not in a structural schema',
      )
    if (propertyOf(branch, 'metadata') !== undefined)
      found.forbidden(`${place}.properties[metadata]`, 'must not be inside of allOf, anyOf, oneOf and not')
  }

  /** Checks that what the logic at `logicPlace` constrains is declared by `schema`. */
  checkCompleteness(logic: SchemaProps, schema: SchemaProps, place: string, logicPlace: string): void {
    const { not, allOf = [], anyOf = [], oneOf = [] } = logic
    if (not !== undefined) this.#checkDeclared(not, schema, place, `${logicPlace}.not`)
    for (const [keyword, branches] of Object.entries({ allOf, anyOf, oneOf }))
      for (const [at, branch] of branches.entries())
        this.#checkDeclared(branch, schema, place, `${logicPlace}.${keyword}[${at}]`)
  }

  #checkDeclared(
    branch: SchemaProps,
    schema: SchemaProps | undefined,
    place: string,
    branchPlace: string,
  ): void {
    if (schema === undefined) {
      this.#found.required(place, `is required, because it is defined in ${branchPlace}`)
      return
    }
    this.checkCompleteness(branch, schema, place, branchPlace)
    const items = itemsOf(branch)
    if (items !== undefined)
      this.#checkDeclared(items, itemsOf(schema), `${place}.items`, `${branchPlace}.items`)
    for (const [name, property] of propertiesOf(branch)) {
      const step = `.properties[${name}]`
      this.#checkDeclared(property, propertyOf(schema, name), place + step, branchPlace + step)
    }
  }
}

/** Keywords that must not stand inside logic, besides `additionalProperties`. */
const outsideOnly = [
  'type',
  'default',
  'title',
  'description',
  'nullable',
  preserve,
  embedded,
  intOrString,
  'x-kubernetes-list-map-keys',
  'x-kubernetes-list-type',
  'x-kubernetes-map-type',
  'x-kubernetes-validations',
] as const

/** Returns true for exactly `[{ type: integer }, { type: string }]`. */
function isIntOrString(anyOf: readonly SchemaProps[] | undefined): boolean {
  if (anyOf?.length !== 2) return false
  return ['integer', 'string'].every((type, at) => {
    const branch = anyOf[at] ?? {}
    return branch.type === type && keywordsOf(branch).length === 1
  })
}

function keywordsOf(schema: SchemaProps): string[] {
  return Object.keys(schema).filter(keyword => !described.has(keyword))
}

/** Returns true for a schema of the metadata that declares at most names. Its default is refused elsewhere. */
function isRestrictedToNames(metadata: SchemaProps): boolean {
  const allowed = ['type', 'default', 'properties']
  return (
    keywordsOf(metadata).every(keyword => allowed.includes(keyword)) &&
    propertiesOf(metadata).every(([name]) => name === 'name' || name === 'generateName')
  )
}
