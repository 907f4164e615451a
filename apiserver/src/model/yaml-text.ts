import { shorten } from '@setpoint/controller-runtime/internal'
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
import { positionAt, type TextPosition } from './text-position.ts'

/** A YAML text cannot be read. The message is a clause with the problem. */
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
 * @throws YamlError for malformed YAML, keys that are duplicate, `__proto__` or not scalars, numbers that a double cannot
 *   keep exactly (including .nan and .inf), unknown tags, aliases, and nesting deeper than `maxDepth` levels
 */
export function readYaml(text: string, maxDepth: number): unknown {
  try {
    // The library counts the document as a level.
    const documents = loadAll(text, { schema, maxDepth: maxDepth + 1, maxAliases: 0 })
    if (documents.length !== 1) throw new YamlError(`expected one document, found ${documents.length}`)
    // Collections check the numbers in them. A document that is a number has no collection.
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
    // According to the library, malformed input can cause other exceptions.
    throw new YamlError('the text cannot be read as YAML', undefined, { cause: error })
  }
}

/** Returns a message that is clearer than the library's reason. */
function clearer(reason: string, maxDepth: number): string {
  if (reason === 'deficient indentation')
    return 'the indentation is too small, or a bracket before it is not closed'
  if (reason === 'duplicated mapping key') return 'the field is given twice'
  if (reason.startsWith('aliases exceeded')) return 'aliases are not supported: repeat the value instead'
  return reason.startsWith('nesting exceeded') ? `nested deeper than ${maxDepth} levels` : reason
}

/** A number and its spelling. As a key the spelling counts; as a value the number counts, if it is exact. */
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

/** Applies the sign. -0 becomes 0, as in JSON. */
function signed(negative: boolean, value: number): number {
  if (value === 0) return 0
  return negative ? -value : value
}

const intTag = defineScalarTag<NumberScalar>(intCoreTag.tagName, {
  implicit: true,
  implicitFirstChars: intCoreTag.implicitFirstChars,
  identify: () => false,
  resolve(source, isExplicit) {
    // The library would read a long run of digits as a string.
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

/** Returns the JSON value and its problem; '' means no problem. */
function take(value: unknown): [kept: unknown, problem: string] {
  if (!(value instanceof NumberScalar)) return [value, '']
  if (value.value !== undefined) return [value.value, '']
  const { literal } = value
  if (notFinite.test(literal)) return [null, `JSON has no number ${literal}`]
  return [null, inexactNumber(literal)]
}

/** Returns the reason for rejecting a number, as a clause. */
export function inexactNumber(literal: string): string {
  const value = Number(literal)
  const becomes = Number.isFinite(value) ? `it would become ${value}` : 'it is out of range'
  return `the number ${shorten(literal, 60)} cannot be kept exactly (${becomes}): give it as a string, or with fewer digits`
}
