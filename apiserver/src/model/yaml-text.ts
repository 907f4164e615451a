import { shorten } from '@setpoint/controller-runtime/internal'
import {
  CORE_SCHEMA,
  constructFromEvents,
  defineMappingTag,
  defineScalarTag,
  defineSequenceTag,
  EVENT_ID,
  type Event,
  floatCoreTag,
  getScalarValue,
  intCoreTag,
  NOT_RESOLVED,
  parseEvents,
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

/** A key that a map has already. */
export interface DuplicateKey {
  readonly key: string
  readonly position: TextPosition
}

interface YamlDocument {
  readonly value: unknown
  /** In the order of the text. */
  readonly duplicates: readonly DuplicateKey[]
}

/**
 * Reads a YAML 1.2 text of one document into a JSON value. Dates stay strings, `<<` is an ordinary key, and keys are
 * taken as written (`1.10: x` has the key "1.10"). Of duplicate keys the last one counts.
 * @param maxDuplicates those that are returned at most
 * @throws YamlError for malformed YAML, keys that are `__proto__` or not scalars, numbers that a double cannot keep
 * exactly
 *   (including .nan and .inf), unknown tags, aliases, and nesting deeper than `maxDepth` levels
 */
export function readYaml(text: string, maxDepth: number, maxDuplicates: number): YamlDocument {
  try {
    // The library counts the document as a level.
    const events = parseEvents(text, { maxDepth: maxDepth + 1 })
    const { documents, hasDuplicates } = documentsOf(events, text)
    if (documents.length !== 1) throw new YamlError(`expected one document, found ${documents.length}`)
    // Collections check the numbers in them. A document that is a number has no collection.
    const [kept, problem] = take(documents[0])
    if (problem !== '') throw new YamlError(problem, positionAt(text, text.indexOf(literalOf(documents[0]))))
    return { value: kept, duplicates: hasDuplicates ? duplicatesIn(events, text, maxDuplicates) : [] }
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

/** @throws YAMLException */
function documentsOf(
  events: Event[],
  source: string,
): { readonly documents: readonly unknown[]; readonly hasDuplicates: boolean } {
  const options = { source, schema, maxAliases: 0 }
  try {
    return { documents: constructFromEvents(events, options), hasDuplicates: false }
  } catch (error) {
    if (!(error instanceof YAMLException) || error.reason !== 'duplicated mapping key') throw error
    // The library stops at the first one.
    return { documents: constructFromEvents(events, { ...options, json: true }), hasDuplicates: true }
  }
}

/** Finds the duplicate keys in the events of a text whose keys are scalars. */
function duplicatesIn(events: readonly Event[], text: string, most: number): DuplicateKey[] {
  const found: DuplicateKey[] = []
  /** The open collections. Sequences and documents have no keys. */
  const open: { readonly keys: Set<string> | undefined; isKeyNext: boolean }[] = []
  let line = 1
  let lineStart = 0
  const positionOf = (offset: number): TextPosition => {
    for (
      let end = text.indexOf('\n', lineStart);
      end >= 0 && end < offset;
      end = text.indexOf('\n', lineStart)
    ) {
      line++
      lineStart = end + 1
    }
    return { line, column: offset - lineStart + 1 }
  }
  for (const event of events) {
    if (found.length === most) break
    const parent = open.at(-1)
    if (event.type === EVENT_ID.POP) open.pop()
    else if (event.type === EVENT_ID.SCALAR && parent?.keys !== undefined && parent.isKeyNext) {
      const key = getScalarValue(text, event)
      if (parent.keys.has(key)) found.push({ key, position: positionOf(event.valueStart) })
      parent.keys.add(key)
      parent.isKeyNext = false
    } else {
      if (parent !== undefined) parent.isKeyNext = true
      if (event.type === EVENT_ID.MAPPING) open.push({ keys: new Set(), isKeyNext: true })
      else if (event.type !== EVENT_ID.SCALAR) open.push({ keys: undefined, isKeyNext: false })
    }
  }
  return found
}

/** Returns a message that is clearer than the library's reason. */
function clearer(reason: string, maxDepth: number): string {
  if (reason === 'deficient indentation')
    return 'the indentation is too small, or a bracket before it is not closed'
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
