import { isRecord } from '@setpoint/controller-runtime/api'
import { deepEqual, kubernetesFormat } from '../../../model/index.ts'
import { Findings } from '../../findings.ts'
import type { CheckWork } from './check-work.ts'
import type { Patterns } from './patterns.ts'
import { itemsOf, propertiesOf, propertyOf, type SchemaProps, valuesOf } from './schema-props.ts'

/**
 * Checks a default by its schema, with the places and reasons of Kubernetes. It interprets the schema, because that of a default is
 * used once, and compiling it would take longer.
 */
export class SchemaValue {
  readonly #patterns: Patterns
  readonly #work: CheckWork
  /** The place of the whole value, where Kubernetes reports what logic refuses. */
  readonly #root: string

  constructor(patterns: Patterns, work: CheckWork, root: string) {
    this.#patterns = patterns
    this.#work = work
    this.#root = root
  }

  /** @throws TooManySteps */
  check(schema: SchemaProps, value: unknown, place: string, found: Findings): void {
    this.#work.spend(1 + (schema.enum?.length ?? 0))
    checkType(schema, value, place, found)
    checkEnum(schema, value, place, found)
    if (value === null) return
    this.#checkLogic(schema, value, place, found)
    if (typeof value === 'string') this.#checkText(schema, value, place, found)
    else if (typeof value === 'number') checkNumber(schema, value, place, found)
    else if (Array.isArray(value)) this.#checkList(schema, value, place, found)
    else if (isRecord(value)) this.#checkObject(schema, value, place, found)
  }

  #checkLogic(schema: SchemaProps, value: unknown, place: string, found: Findings): void {
    const { allOf = [], anyOf = [], oneOf = [], not } = schema
    const refuse = (what: string) => found.invalid(this.#root, `${what} at ${place}`)
    const outcomeOf = (branch: SchemaProps) => {
      const outcome = new Findings()
      this.check(branch, value, place, outcome)
      return outcome
    }
    if (anyOf.length > 0) {
      const outcomes = anyOf.map(outcomeOf)
      if (outcomes.every(({ isEmpty }) => !isEmpty)) {
        refuse('must match at least one schema of anyOf')
        found.addAll(nearest(outcomes).violations)
      }
    }
    if (oneOf.length > 0) {
      const outcomes = oneOf.map(outcomeOf)
      const matches = outcomes.filter(({ isEmpty }) => isEmpty).length
      if (matches !== 1) refuse(`must match exactly one schema of oneOf, matches ${matches},`)
      if (matches === 0) found.addAll(nearest(outcomes).violations)
    }
    const refused = allOf.map(outcomeOf).filter(({ isEmpty }) => !isEmpty)
    for (const outcome of refused) found.addAll(outcome.violations)
    if (refused.length > 0) refuse('must match all schemas of allOf')
    if (not !== undefined && outcomeOf(not).isEmpty) refuse('must not match the schema of not')
  }

  #checkText(schema: SchemaProps, value: string, place: string, found: Findings): void {
    const { maxLength = Infinity, minLength = 0, pattern, format = '' } = schema
    const length = charactersOf(value)
    if (length > maxLength) found.tooLong(place, `must have at most ${maxLength} characters`)
    else if (length < minLength) found.invalid(place, `must have at least ${minLength} characters`)
    else if (pattern !== undefined && this.#patterns.refuses(pattern, value))
      found.invalid(place, `must match the pattern ${pattern}`)
    if (kubernetesFormat(format)?.(value) === false) found.mistyped(place, `must be of the format ${format}`)
  }

  #checkList(schema: SchemaProps, value: readonly unknown[], place: string, found: Findings): void {
    const { minItems = 0, maxItems = Infinity } = schema
    const items = itemsOf(schema)
    // As in Kubernetes, whose paths begin at the value.
    const list = place === this.#root ? `${place}.` : place
    if (items !== undefined)
      for (const [at, item] of value.entries()) this.check(items, item, `${list}[${at}]`, found)
    const { length } = value
    if (length < minItems) found.invalid(place, `must have at least ${minItems} items, has ${length}`)
    if (length > maxItems) found.tooMany(place, `must have at most ${maxItems} items, has ${length}`)
  }

  #checkObject(
    schema: SchemaProps,
    value: Readonly<Record<string, unknown>>,
    place: string,
    found: Findings,
  ): void {
    const { minProperties = 0, maxProperties = Infinity, required = [], additionalProperties } = schema
    const names = Object.keys(value)
    const properties = propertiesOf(schema)
    this.#work.spend(required.length + properties.length)
    const { length } = names
    if (length < minProperties)
      found.invalid(place, `must have at least ${minProperties} fields, has ${length}`)
    if (length > maxProperties)
      found.tooMany(place, `must have at most ${maxProperties} fields, has ${length}`)
    const values = valuesOf(schema)
    for (const name of names) {
      if (propertyOf(schema, name) !== undefined) continue
      if (additionalProperties === false)
        found.invalid(place, `must not have the field ${JSON.stringify(name)}`)
      else if (values !== undefined) this.check(values, value[name], `${place}.${name}`, found)
    }
    for (const [name, property] of properties)
      if (Object.hasOwn(value, name)) this.check(property, value[name], `${place}.${name}`, found)
    for (const name of required) if (!Object.hasOwn(value, name)) found.required(`${place}.${name}`)
  }
}

/** Returns the outcome of the branch that the value comes closest to: the first with the fewest violations. */
function nearest(outcomes: readonly Findings[]): Findings {
  return outcomes.reduce(
    (best, each) => (each.total < best.total ? each : best),
    outcomes[0] ?? new Findings(),
  )
}

/**
 * With the exceptions of Kubernetes: a format of texts stands in for the type of a text or list, and an int-or-string may be
 * anything.
 */
function checkType(schema: SchemaProps, value: unknown, place: string, found: Findings): void {
  const { type, format = '', nullable } = schema
  if (type === undefined && format === '') return
  const refuse = () => found.mistyped(place, `must be of type ${type ?? format}`)
  if (value === null) {
    if (type !== undefined && !nullable) refuse()
    return
  }
  const given = typeOf(value)
  const isTextOrList = given === 'string' || given === 'array'
  if (format !== '' && isTextOrList && type !== 'number' && type !== 'integer') return
  if (given !== type && !(given === 'integer' && type === 'number')) refuse()
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number'
  return typeof value
}

/** As in Kubernetes, null is never one of the values. */
function checkEnum({ enum: values }: SchemaProps, value: unknown, place: string, found: Findings): void {
  if (values === undefined || (value !== null && values.some(each => deepEqual(each, value)))) return
  const texts = values.map(each => (typeof each === 'string' ? each : JSON.stringify(each)))
  found.unsupported(place, typeof value === 'string' ? value : JSON.stringify(value), texts)
}

/** As in Kubernetes, the bounds of an integer are cut to integers. */
function checkNumber(schema: SchemaProps, value: number, place: string, found: Findings): void {
  const cut = (bound: number | undefined) =>
    bound !== undefined && Number.isInteger(value) ? Math.trunc(bound) : bound
  const { exclusiveMaximum = false, exclusiveMinimum = false } = schema
  const [maximum, minimum] = [cut(schema.maximum), cut(schema.minimum)]
  const multipleOf = cut(schema.multipleOf)
  if (multipleOf !== undefined && !isMultiple(value, multipleOf))
    found.invalid(place, `must be a multiple of ${schema.multipleOf}`)
  if (maximum !== undefined && (exclusiveMaximum ? value >= maximum : value > maximum))
    found.invalid(place, `must be ${exclusiveMaximum ? 'less than' : 'at most'} ${maximum}`)
  if (minimum !== undefined && (exclusiveMinimum ? value <= minimum : value < minimum))
    found.invalid(place, `must be ${exclusiveMinimum ? 'more than' : 'at least'} ${minimum}`)
}

function isMultiple(value: number, factor: number): boolean {
  if (factor <= 0) return false
  if (Number.isInteger(value)) return value % factor === 0
  const times = factor < 1 ? (1 / factor) * value : value / factor
  return Math.abs(times - Math.round(times)) < 1e-9
}

function charactersOf(text: string): number {
  let count = 0
  for (const _character of text) count++
  return count
}
