import { isRecord } from '@setpoint/controller-runtime/api'
import { visit } from 'jsonc-parser'
import { type FieldPath, formatPath } from './field-path.ts'
import { isExactDecimal } from './number-literal.ts'

/** Properties of a JSON text that `JSON.parse` does not report. Places are offsets into the text. */
interface JsonFindings {
  /** The first bracket past the maximum depth. */
  readonly tooDeep?: number
  /** The number of literals that are so long that each is checked for what a double keeps of it. */
  readonly longNumbers: number
  /** The range of the first number that a double cannot represent, among the first `maxLongNumbers`. */
  readonly inexact?: readonly [start: number, end: number]
  /** True if a number starts with "-0", so it may have been read as negative zero. */
  readonly minusZero: boolean
  /** The parts of the value, as `countParts` counts them, duplicate fields included. */
  readonly parts: number
  /** The commas between list items and between fields. `countValues` is larger if there are any. */
  readonly commas: number
}

const quote = 0x22
const plus = 0x2b
const minus = 0x2d
const dot = 0x2e
const zero = 0x30
const nine = 0x39
const comma = 0x2c
const colon = 0x3a
const upperE = 0x45
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const lowerE = 0x65
const openBrace = 0x7b
const closeBrace = 0x7d

/** Literals up to this length hold at most 15 digits and are always kept, unless the exponent is long. */
const safeLength = 15

/** Digits of an exponent, with its sign, that keep such a literal in the range of a double. */
const safeExponentLength = 2

/**
 * Scans a JSON text once, without recursion, and skips strings. For a text that is not JSON only the depth is
 * meaningful: it bounds the recursion of a parser.
 */
export function inspectJson(text: string, maxDepth: number, maxLongNumbers: number): JsonFindings {
  let depth = 0
  let parts = 0
  let commas = 0
  let longNumbers = 0
  // True between a field's name and its value.
  let isOfField = false
  let minusZero = false
  let inexact: readonly [number, number] | undefined
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) {
      const end = endOfString(text, at)
      if (end < 0) break
      at = end
    } else if (code === colon) {
      parts++
      isOfField = true
    } else if (code === comma) {
      commas++
      isOfField = false
    } else if (code === openBrace || code === openBracket) {
      if (depth > 0 && !isOfField) parts++
      isOfField = false
      if (++depth > maxDepth) return { tooDeep: at, minusZero, parts, commas, longNumbers, inexact }
    } else if (code === closeBrace || code === closeBracket) {
      depth--
    } else if (code === minus || (code >= zero && code <= nine)) {
      const start = at
      let exponentStart = -1
      for (let next = text.charCodeAt(at + 1); isOfNumber(next); next = text.charCodeAt(++at + 1)) {
        if (next === lowerE || next === upperE) exponentStart = at + 2
      }
      if (code === minus && text.charCodeAt(start + 1) === zero) minusZero = true
      const end = at + 1
      const hasLongExponent = exponentStart >= 0 && end - exponentStart > safeExponentLength
      if (hasLongExponent || end - start > safeLength) {
        const isChecked = inexact === undefined && ++longNumbers <= maxLongNumbers
        if (isChecked && !isExactDecimal(text.slice(start, end))) inexact = [start, end]
      }
    }
  }
  return { minusZero, parts, commas, longNumbers, inexact }
}

function isOfNumber(code: number): boolean {
  return (
    (code >= zero && code <= nine) ||
    code === dot ||
    code === lowerE ||
    code === upperE ||
    code === plus ||
    code === minus
  )
}

/** Returns the offset of the closing quote of the string at `start`, or -1. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1
    while (text.charCodeAt(before) === backslash) before--
    if ((end - before) % 2 === 1) return end
  }
  return -1
}

/** The first error in a text that is not JSON. */
interface JsonSyntaxError {
  /** UTF-16 units from the start. */
  readonly offset: number
  readonly length: number
  /** The problem, as a clause. */
  readonly problem: string
}

/**
 * Returns the first syntax error of a text, or undefined if it is JSON. Recurses into brackets, so the depth must be
 * bounded.
 */
export function findJsonError(text: string): JsonSyntaxError | undefined {
  let first: JsonSyntaxError | undefined
  let isNameNext = false
  const open: ('object' | 'array')[] = []
  try {
    visit(
      text,
      {
        onObjectBegin() {
          open.push('object')
          isNameNext = true
        },
        onArrayBegin() {
          open.push('array')
          isNameNext = false
        },
        onObjectEnd() {
          open.pop()
        },
        onArrayEnd() {
          open.pop()
        },
        onSeparator(character) {
          isNameNext = character === ',' && open.at(-1) === 'object'
        },
        onError(error, offset, length) {
          // The parser reports a field name without quotes as a missing value.
          const code = error === invalidSymbol && isNameNext ? nameExpected : error
          first = { offset, length, problem: problems[code] ?? 'is not valid JSON' }
          throw new Found()
        },
      },
      // jsonc-parser's own default allows comments and an empty text.
      { disallowComments: true, allowTrailingComma: false, allowEmptyContent: false },
    )
  } catch (error) {
    if (!(error instanceof Found)) throw error
  }
  return first
}

/** Ends the visit at the first error. Later errors of the recovering parser mislead. */
class Found extends Error {}

const invalidSymbol = 1
const nameExpected = 3

const problems: { readonly [code: number]: string } = {
  1: 'expected a value: an object, an array, a string in double quotes, a number, true, false or null',
  2: 'the number is malformed',
  3: 'expected a field name in double quotes',
  4: 'expected a value',
  5: "expected ':' after the field name",
  6: "expected ',' or the closing bracket",
  7: "expected ',' or '}'",
  8: "expected ',' or ']'",
  9: 'expected nothing after the end of the document',
  10: 'comments are not allowed in JSON',
  11: 'comments are not allowed in JSON',
  12: 'the string is not closed on its line (a line break in it is written \\n)',
  13: 'the number breaks off: expected a digit',
  14: 'the escape is malformed: expected \\u and four hexadecimal digits',
  15: 'the escape is not one of JSON: \\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX',
  16: 'control characters in a string must be written as escapes, such as \\n',
}

/**
 * Counts the parts of a JSON value: the fields of all objects, and the items of lists that are objects or lists. The
 * work on a value grows with them. Other items cost little. Recurses, so the depth must be bounded.
 */
export function countParts(value: unknown): number {
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object' && item !== null) count += 1 + countParts(item)
  } else if (isRecord(value)) {
    // Allocates nothing, unlike Object.values. A decoded object inherits no enumerable field.
    for (const key in value) {
      count++
      const item = value[key]
      if (typeof item === 'object') count += countParts(item)
    }
  }
  return count
}

/** Counts the list items and the fields of all objects in a JSON value. Recurses, so the depth must be bounded. */
export function countValues(value: unknown): number {
  let count = 0
  if (Array.isArray(value)) {
    count += value.length
    for (const item of value) if (typeof item === 'object') count += countValues(item)
  } else if (isRecord(value)) {
    for (const key in value) {
      count++
      const item = value[key]
      if (typeof item === 'object') count += countValues(item)
    }
  }
  return count
}

/**
 * Returns the paths of fields that a JSON text has more than once in the same object, in order, at most `limit`.
 * Recurses into brackets, so the text must have been decoded before.
 */
export function duplicateJsonFields(text: string, limit: number): string[] {
  const duplicates = new Set<string>()
  const open: Set<string>[] = []
  visit(text, {
    onObjectBegin() {
      open.push(new Set())
    },
    onObjectProperty(name, _offset, _length, _line, _column, pathOfParent) {
      const seen = open.at(-1)
      if (seen?.has(name) && duplicates.size < limit) {
        const parent: FieldPath = pathOfParent()
        duplicates.add(formatPath([...parent, name]))
      }
      seen?.add(name)
    },
    onObjectEnd() {
      open.pop()
    },
  })
  return [...duplicates]
}
