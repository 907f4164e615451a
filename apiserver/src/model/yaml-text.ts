import {
  CORE_SCHEMA,
  defineMappingTag,
  defineScalarTag,
  defineSequenceTag,
  floatCoreTag,
  intCoreTag,
  loadAll,
  NOT_RESOLVED,
  YAMLException,
} from 'js-yaml'
import { isExactDecimal } from './number-literal.ts'
import { positionAt, shorten, type TextPosition } from './text-position.ts'

/** A YAML text cannot be read; `position` is where, the message a clause that says why. */
export class YamlError extends Error {
  override readonly name = 'YamlError'
  readonly position: TextPosition | undefined

  constructor(problem: string, position?: TextPosition, options?: ErrorOptions) {
    super(problem, options)
    this.position = position
  }
}

/**
 * Reads a YAML 1.2 text of one document into a JSON value. Dates stay strings, `<<` is an ordinary key, and keys are
 * taken as written (`1.10: x` has the key "1.10").
 * @throws YamlError for broken YAML, keys that are not scalars or come twice, `__proto__` as a key, numbers that a double
 *   does not keep exactly (.nan and .inf too), unknown tags, aliases, and nesting deeper than `maxDepth` levels.
 */
export function readYaml(text: string, maxDepth: number): unknown {
  try {
    // The library counts the document as a level.
    const documents = loadAll(text, { schema, maxDepth: maxDepth + 1, maxAliases: 0 })
    if (documents.length !== 1) throw new YamlError(`expected one document, found ${documents.length}`)
    // A document that is one number has no collection around it that would have looked at the number.
    const [kept, problem] = take(documents[0])
    if (problem !== '') throw new YamlError(problem, positionAt(text, text.indexOf(literalOf(documents[0]))))
    return kept
  } catch (error) {
    if (error instanceof YamlError) throw error
    if (error instanceof YAMLException) {
      const { reason, mark } = error
      const position = mark && { line: mark.line + 1, column: mark.column + 1 }
      throw new YamlError(clearer(reason, maxDepth), position, { cause: error })
    }
    // The library says that other exceptions can come out of broken input.
    throw new YamlError('the text cannot be read as YAML', undefined, { cause: error })
  }
}

/** Returns a message that helps more than the library's reason. */
function clearer(reason: string, maxDepth: number): string {
  if (reason === 'deficient indentation')
    return 'the indentation is too small, or a bracket before it is not closed'
  if (reason === 'duplicated mapping key') return 'the field is given twice'
  if (reason.startsWith('aliases exceeded')) return 'aliases are not supported: repeat the value instead'
  return reason.startsWith('nesting exceeded') ? `nested deeper than ${maxDepth} levels` : reason
}

/**
 * A number together with its spelling, until it is known whether it is a key (the spelling counts) or a value (the
 * number does, if it is exact).
 */
class NumberScalar {
  readonly literal: string
  readonly value: number | undefined

  constructor(literal: string, value: number | undefined) {
    this.literal = literal
    this.value = value
  }
}

const decimal = /^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$/
const otherBase = /^([-+]?)(0[box][0-9a-fA-F]+)$/
const notFinite = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/

function readNumber(literal: string): NumberScalar | undefined {
  if (notFinite.test(literal)) return new NumberScalar(literal, undefined)
  const based = otherBase.exec(literal)
  if (based !== null) {
    const digits = based[2] ?? ''
    const value = Number(digits)
    if (Number.isNaN(value)) return undefined
    const exact = Number.isSafeInteger(value)
    return new NumberScalar(literal, exact ? signed(based[1] === '-', value) : undefined)
  }
  if (!decimal.test(literal)) return undefined
  return new NumberScalar(literal, isExactDecimal(literal) ? signed(false, Number(literal)) : undefined)
}

/** JSON has one zero: -0 would be written back as 0. */
function signed(negative: boolean, value: number): number {
  if (value === 0) return 0
  return negative ? -value : value
}

const intTag = defineScalarTag<NumberScalar>(intCoreTag.tagName, {
  implicit: true,
  implicitFirstChars: intCoreTag.implicitFirstChars,
  identify: () => false,
  resolve(source, isExplicit) {
    // Long runs of digits are no integers to the library, and would go on to be strings.
    const isInteger =
      /^[-+]?\d+$/.test(source) || intCoreTag.resolve(source, isExplicit, intCoreTag.tagName) !== NOT_RESOLVED
    return (isInteger ? readNumber(source) : undefined) ?? NOT_RESOLVED
  },
})

const floatTag = defineScalarTag<NumberScalar>(floatCoreTag.tagName, {
  implicit: true,
  implicitFirstChars: floatCoreTag.implicitFirstChars,
  identify: () => false,
  resolve(source) {
    if (!decimal.test(source) && !notFinite.test(source)) return NOT_RESOLVED
    return readNumber(source) ?? NOT_RESOLVED
  },
})

const mapTag = defineMappingTag<Record<string, unknown>>('tag:yaml.org,2002:map', {
  create: () => ({}),
  identify: () => false,
  has: (object, key) => Object.hasOwn(object, keyOf(key) ?? ''),
  keys: object => Object.keys(object),
  get: (object, key) => object[keyOf(key) ?? ''],
  addPair(object, key, value) {
    const name = keyOf(key)
    if (name === undefined) return 'a key must be a string, not a collection or null'
    if (name === '__proto__') return 'the field name __proto__ is not allowed'
    const [kept, problem] = take(value)
    object[name] = kept
    return problem
  },
})

const seqTag = defineSequenceTag<unknown[]>('tag:yaml.org,2002:seq', {
  create: () => [],
  identify: () => false,
  addItem(list, item) {
    const [kept, problem] = take(item)
    list.push(kept)
    return problem
  },
})

const schema = CORE_SCHEMA.withTags(intTag, floatTag, mapTag, seqTag)

function keyOf(key: unknown): string | undefined {
  if (key instanceof NumberScalar) return key.literal
  return typeof key === 'string' || typeof key === 'boolean' ? String(key) : undefined
}

function literalOf(value: unknown): string {
  return value instanceof NumberScalar ? value.literal : ''
}

/** A value as JSON has it, and what is wrong with it ('' for nothing). */
function take(value: unknown): [kept: unknown, problem: string] {
  if (!(value instanceof NumberScalar)) return [value, '']
  if (value.value !== undefined) return [value.value, '']
  const { literal } = value
  if (notFinite.test(literal)) return [null, `JSON has no number ${literal}`]
  return [null, inexactNumber(literal)]
}

/** Why a number is refused, as a clause. */
export function inexactNumber(literal: string): string {
  const value = Number(literal)
  const becomes = Number.isFinite(value) ? `it would become ${value}` : 'it is out of range'
  return `the number ${shorten(literal, 60)} cannot be kept exactly (${becomes}): give it as a string, or with fewer digits`
}
