import { isRecord, type ViolationReason } from '@setpoint/controller-runtime/api'
import { quote } from '@setpoint/controller-runtime/internal'
import type { ErrorObject } from 'ajv'
import { deepEqual } from './deep-equal.ts'
import { type FieldPath, formatPath } from './field-path.ts'
import { formatName } from './kubernetes-schema.ts'
import { patternDefaults } from './pattern.ts'
import { canonical, type PatternStepsError } from './schema-compiler.ts'
import { embeddedMetadataKeyword, listTypeKeyword, patternKeyword } from './schema-keywords.ts'

/** One rule of a model's schema that an object breaks. */
export interface Violation {
  /** The place, as in causes: `spec.tags[2]`, `spec.map[some.key]`. */
  readonly field: string
  /** The same place as steps from the object's root. */
  readonly path: FieldPath
  readonly reason: ViolationReason
  /** The problem, with bound and value, as a clause. The field is its subject. */
  readonly message: string
}

/**
 * Marks a list of violations as incomplete. Its place is the whole object, so it is excused only if nothing changes.
 */
export const tooManyViolations: Violation = Object.freeze({
  field: '',
  path: [],
  reason: 'FieldValueTooMany',
  message: 'there are more violations than were counted',
})

/** The only violation of an object whose schema combines more schemas in one place than V8 can read as one function. */
export const tooComplex: Violation = Object.freeze({
  field: '',
  path: [],
  reason: 'FieldValueInvalid',
  message: 'cannot be checked: the schema of the kind combines too many schemas in one place',
})

/** Returns the only violation of an object that was not checked to its end. It is excused only if nothing changes. */
export function tooManySteps({ instancePath, pattern }: PatternStepsError, object: unknown): Violation {
  return {
    field: formatPath(pathOf(instancePath, object)),
    path: [],
    reason: 'FieldValueTooLong',
    message: `takes too many steps to match the pattern ${pattern.source}: the patterns of an object may take ${patternDefaults.steps} together, at least one for each character`,
  }
}

/** Returns the value at a path, or undefined if it is missing. */
export function valueAt(root: unknown, path: FieldPath): unknown {
  let value = root
  for (const step of path) {
    if (Array.isArray(value)) value = typeof step === 'number' ? value[step] : undefined
    else if (isRecord(value) && Object.hasOwn(value, step)) value = value[step]
    else return undefined
  }
  return value
}

/**
 * Converts ajv's errors (of `allErrors`, in its order) to violations. A failed anyOf or oneOf becomes one violation,
 * with the errors of the branch that came closest. The errors of its other branches are left out.
 * @param show describes the values of the object in messages
 */
export function violationsOf(
  errors: readonly ErrorObject[],
  object: unknown,
  show: ShowValue = showValue,
): Violation[] {
  const unions = new Set(errors.filter(isUnion).map(error => error.schemaPath))
  const violations: Violation[] = []
  for (const [index, error] of errors.entries()) {
    if (isInsideUnion(error, unions) || error.keyword === 'if') continue
    violations.push(
      isUnion(error) ? unionViolation(errors, index, error, object, show) : violationOf(error, object, show),
    )
  }
  return violations
}

/**
 * Converts ajv's errors to violations with the fields that Kubernetes gives them: what combines schemas is about no
 * field, and the errors of the first branch, or of all that must hold, follow.
 */
export function violationsAsKubernetes(errors: readonly ErrorObject[], object: unknown): Violation[] {
  const unions = new Set(errors.filter(isUnion).map(error => error.schemaPath))
  const violations: Violation[] = []
  const combined = new Set<string>()
  const combine = ({ instancePath }: ErrorObject, message: string) => {
    if (combined.has(instancePath)) return
    combined.add(instancePath)
    const path = pathOf(instancePath, object)
    violations.push({
      field: '',
      path,
      reason: 'FieldValueInvalid',
      message: `${formatPath(path)} ${message}`,
    })
  }
  for (const error of errors) {
    if (error.keyword === 'if') continue
    if (isUnion(error) || error.keyword === 'not') {
      const { message } = violationOf(error, object, showValue)
      combine(error, error.keyword === 'not' ? message : 'must match its alternatives')
      continue
    }
    if (isInsideUnion(error, unions)) {
      if (/\/(?:anyOf|oneOf)\/(\d+)/.exec(error.schemaPath)?.[1] !== '0') continue
    } else if (error.schemaPath.includes('/allOf/')) combine(error, 'must match all of its schemas')
    const violation = violationOf(error, object, showValue)
    if (error.keyword !== embeddedMetadataKeyword) violations.push(violation)
    else violations.push({ ...violation, field: formatPath(withoutKey(violation.path)) })
  }
  return violations
}

/** Returns the path of metadata without the key of a label or annotation. */
function withoutKey(path: FieldPath): FieldPath {
  return ['labels', 'annotations'].includes(String(path.at(-2))) ? path.slice(0, -1) : path
}

/**
 * Returns the violations of `next` that a write introduces. Leaves out those that the stored object has too, with the
 * same value, so that a stricter schema does not block other changes. Items of a list may have moved. Each stored
 * violation excuses one. Both objects must have their defaults filled in.
 */
export function remainingViolations(
  next: readonly Violation[],
  previous: readonly Violation[],
  nextObject: unknown,
  previousObject: unknown,
): Violation[] {
  const excused = new Set<Violation>()
  const inPlace = new Excuses(previous, placeOf)
  const unmoved = next.filter(violation => {
    const value = valueAt(nextObject, violation.path)
    const excuse = inPlace.take(placeOf(violation), stored =>
      deepEqual(value, valueAt(previousObject, stored.path)),
    )
    if (excuse !== undefined) excused.add(excuse)
    return excuse === undefined
  })
  // Moved violations come second, so that they do not take the excuse of one in place.
  const keyOfNext = contentKeys(nextObject)
  const left = previous.filter(stored => !excused.has(stored))
  const moved = new Excuses(left, contentKeys(previousObject))
  return unmoved.filter(violation => moved.take(keyOfNext(violation)) === undefined)
}

/** Stored violations by a key. Each can be taken once. */
class Excuses {
  readonly #byKey = new Map<string, Violation[]>()

  constructor(violations: readonly Violation[], keyOf: (violation: Violation) => string) {
    for (const violation of violations) {
      const key = keyOf(violation)
      const known = this.#byKey.get(key)
      if (known === undefined) this.#byKey.set(key, [violation])
      else known.push(violation)
    }
  }

  take(key: string, fits: (stored: Violation) => boolean = () => true): Violation | undefined {
    const candidates = this.#byKey.get(key)
    const at = candidates?.findIndex(fits) ?? -1
    return at < 0 ? undefined : candidates?.splice(at, 1)[0]
  }
}

function placeOf({ path, reason }: Violation): string {
  return JSON.stringify([reason, ...path])
}

/**
 * Returns a function that gives two violations the same key if they differ at most in the positions of list items. A
 * missing field counts as the same only in an equal parent.
 */
function contentKeys(object: unknown): (violation: Violation) => string {
  const texts = new Map<unknown, string>()
  return ({ path, reason }) => {
    const value = valueAt(object, reason === 'FieldValueRequired' ? path.slice(0, -1) : path)
    let text = texts.get(value)
    if (text === undefined) {
      text = canonical(value) ?? 'undefined'
      texts.set(value, text)
    }
    return JSON.stringify([reason, ...path.map(step => (typeof step === 'number' ? 0 : step))]) + text
  }
}

function isUnion(error: ErrorObject): boolean {
  return error.keyword === 'anyOf' || error.keyword === 'oneOf'
}

function isInsideUnion({ schemaPath }: ErrorObject, unions: ReadonlySet<string>): boolean {
  if (unions.size === 0) return false
  for (const match of schemaPath.matchAll(/\/(?:anyOf|oneOf)(?=\/\d)/g)) {
    if (unions.has(schemaPath.slice(0, match.index + match[0].length))) return true
  }
  return false
}

function violationOf(error: ErrorObject, object: unknown, show: ShowValue): Violation {
  const at = pathOf(error.instancePath, object)
  const value = valueAt(object, at)
  const params: Readonly<Record<string, unknown>> = error.params
  const make = (reason: ViolationReason, message: string, path: FieldPath = at): Violation => ({
    field: formatPath(path),
    path,
    reason,
    message,
  })
  const limit = String(params.limit)
  const is = `, is ${show(value)}`
  switch (error.keyword) {
    case 'required':
      return make('FieldValueRequired', 'is required', [...at, String(params.missingProperty)])
    case 'additionalProperties':
      return make('FieldValueForbidden', 'is not a field of the schema', [
        ...at,
        String(params.additionalProperty),
      ])
    case 'type':
      return make('FieldValueTypeInvalid', `must be ${typeName(params.type)}${is}`)
    case 'enum':
      return make('FieldValueNotSupported', `must be one of ${list(params.allowedValues)}${is}`)
    case 'maxLength':
      return make('FieldValueTooLong', `must have at most ${count(limit, 'character')}${isLong(value, show)}`)
    case 'minLength':
      return make('FieldValueInvalid', `must have at least ${count(limit, 'character')}${is}`)
    case 'maxItems':
      return make('FieldValueTooMany', `must have at most ${count(limit, 'item')}${isLong(value, show)}`)
    case 'minItems':
      return make('FieldValueInvalid', `must have at least ${count(limit, 'item')}${isLong(value, show)}`)
    case 'maxProperties':
      return make('FieldValueTooMany', `must have at most ${count(limit, 'field')}${isLong(value, show)}`)
    case 'minProperties':
      return make('FieldValueInvalid', `must have at least ${count(limit, 'field')}${isLong(value, show)}`)
    case 'uniqueItems':
      return make(
        'FieldValueInvalid',
        `must not have the same item twice, has at ${params.first} and ${params.second}`,
      )
    case listTypeKeyword:
      return make('FieldValueDuplicate', duplicateOf(params, value, show))
    case embeddedMetadataKeyword:
      return make('FieldValueInvalid', String(params.problem))
    case 'minimum':
      return make('FieldValueInvalid', `must be at least ${limit}${is}`)
    case 'maximum':
      return make('FieldValueInvalid', `must be at most ${limit}${is}`)
    case 'exclusiveMinimum':
      return make('FieldValueInvalid', `must be greater than ${limit}${is}`)
    case 'exclusiveMaximum':
      return make('FieldValueInvalid', `must be less than ${limit}${is}`)
    case 'multipleOf':
      return make('FieldValueInvalid', `must be a multiple of ${params.multipleOf}${is}`)
    case patternKeyword:
      return make('FieldValueInvalid', `must match the pattern ${params.pattern}${is}`)
    case 'format':
      return make(
        'FieldValueTypeInvalid',
        `must be in the format ${JSON.stringify(formatName(params.format))}${is}`,
      )
    case 'not':
      return make('FieldValueInvalid', `has a value that is ruled out${is}`)
    default:
      return make('FieldValueInvalid', `breaks the rule ${error.keyword}${is}`)
  }
}

function duplicateOf(
  { first, keys }: Readonly<Record<string, unknown>>,
  item: unknown,
  show: ShowValue,
): string {
  if (!Array.isArray(keys)) return `must not be in the list twice, is also at ${first}: ${show(item)}`
  const values = keys.map(key => `${key} ${show(valueAt(item, [String(key)]))}`)
  return `must not have the same keys as another item, the item at ${first} has ${values.join(' and ')} too`
}

function unionViolation(
  errors: readonly ErrorObject[],
  index: number,
  error: ErrorObject,
  object: unknown,
  show: ShowValue,
): Violation {
  const path = pathOf(error.instancePath, object)
  const passing: unknown = error.params.passingSchemas
  return {
    field: formatPath(path),
    path,
    reason: 'FieldValueInvalid',
    message: Array.isArray(passing)
      ? `must match exactly one of its alternatives, matches numbers ${passing.map(branch => Number(branch) + 1).join(' and ')}`
      : `must match ${error.keyword === 'oneOf' ? 'exactly' : 'at least'} one of its alternatives; ${closest(errors, index, error, object, show)}`,
  }
}

/** Describes the errors of the branch with the fewest errors. Branches of the value's type come first. */
function closest(
  errors: readonly ErrorObject[],
  index: number,
  union: ErrorObject,
  object: unknown,
  show: ShowValue,
): string {
  // ajv gives the errors of the branches right before the one of the union itself.
  const branches = new Map<string, ErrorObject[]>()
  const inside = `${union.schemaPath}/`
  for (let at = index - 1; at >= 0; at--) {
    const error = errors[at]
    if (!error?.schemaPath.startsWith(inside) || !error.instancePath.startsWith(union.instancePath)) break
    const branch = error.schemaPath.slice(inside.length).split('/', 1)[0] ?? ''
    const known = branches.get(branch)
    if (known === undefined) branches.set(branch, [error])
    else known.unshift(error)
  }
  const misfits = (branch: readonly ErrorObject[]) =>
    branch.some(error => error.keyword === 'type' && error.instancePath === union.instancePath)
  const all = [...branches].sort(([a], [b]) => Number(a) - Number(b)).map(([, branch]) => branch)
  if (all.length > 0 && all.every(misfits)) {
    const types = all
      .flat()
      .filter(error => error.keyword === 'type' && error.instancePath === union.instancePath)
    const value = show(valueAt(object, pathOf(union.instancePath, object)))
    return `it must be ${[...new Set(types.map(error => typeName(error.params.type)))].join(' or ')}, is ${value}`
  }
  const best = all.filter(branch => !misfits(branch)).sort((a, b) => a.length - b.length)[0]
  const told = best === undefined ? [] : violationsOf(best, object, show).slice(0, 3)
  if (told.length === 0) return 'it matches none'
  return `the closest one fails because ${told.map(violation => `${violation.field} ${violation.message}`).join(', and ')}`
}

/** Converts ajv's JSON pointer to a path. The object decides whether a digit is a list position. */
function pathOf(pointer: string, object: unknown): (string | number)[] {
  const path: (string | number)[] = []
  let value = object
  for (const token of pointer.split('/').slice(1)) {
    const name = token.replaceAll('~1', '/').replaceAll('~0', '~')
    const step = Array.isArray(value) ? Number(name) : name
    path.push(step)
    value = valueAt(value, [step])
  }
  return path
}

const typeNames: Readonly<Record<string, string>> = {
  object: 'an object',
  array: 'an array',
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
}

function typeName(type: unknown): string {
  const names: unknown[] = Array.isArray(type) ? type : [type]
  return names.map(name => typeNames[String(name)] ?? String(name)).join(' or ')
}

function count(limit: string, noun: string): string {
  return `${limit} ${noun}${limit === '1' ? '' : 's'}`
}

function isLong(value: unknown, show: ShowValue): string {
  if (typeof value === 'string')
    return `, has ${codePoints(value)}${show === showType ? '' : `: ${show(value)}`}`
  if (Array.isArray(value)) return `, has ${value.length}`
  return isRecord(value) ? `, has ${Object.keys(value).length}` : ''
}

/** Returns the length as maxLength counts it. */
function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count++
  return count
}

function list(values: unknown): string {
  if (!Array.isArray(values)) return 'the supported values'
  const shown = values.slice(0, 50).map(value => JSON.stringify(value))
  if (values.length > shown.length) shown.push(`${values.length - shown.length} more`)
  return shown.join(', ')
}

/** Describes a value in a few words. */
type ShowValue = (value: unknown) => string

/** Shows scalars. A text may be megabytes long, so it is cut before it is encoded. */
function showValue(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : showType(value)
}

/** Shows no scalar, for kinds with secrets. */
export function showType(value: unknown): string {
  if (value === undefined) return 'absent'
  if (typeof value === 'string') return value === '' ? 'empty' : 'a string'
  if (typeof value === 'boolean') return 'a boolean'
  if (typeof value === 'number') return 'a number'
  if (Array.isArray(value))
    return value.length === 0 ? 'an empty array' : `an array of ${count(String(value.length), 'item')}`
  return isRecord(value) ? 'an object' : 'null'
}
