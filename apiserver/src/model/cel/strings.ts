import type { Budget } from './budget.ts'
import { CelEvaluationError } from './errors.ts'
import { formatText } from './format.ts'
import { type OverloadTable, overload } from './overloads.ts'
import { hasMatch, matchesOf } from './patterns.ts'
import { bool, type CelType, int, listOf, string } from './types.ts'

/** Positions count code points, as in CEL. */
const surrogates = /[\ud800-\udfff]/

/** Returns the characters of a text. A text without surrogates is its own list of characters. */
function charactersOf(text: string): ArrayLike<string> & { readonly length: number } {
  return surrogates.test(text) ? Array.from(text) : text
}

/** Converts a position in UTF-16 units to one in code points. */
function position(text: string, units: number): bigint {
  return BigInt(units < 0 || !surrogates.test(text) ? units : Array.from(text.slice(0, units)).length)
}

/** Converts a position in code points to one in UTF-16 units. @throws CelEvaluationError if it is outside the text */
function units(text: string, at: bigint): number {
  const characters = charactersOf(text)
  const index = Number(at)
  if (index < 0 || index > characters.length) throw new CelEvaluationError(`index out of range: ${at}`)
  if (typeof characters === 'string') return index
  return Array.from(characters).slice(0, index).join('').length
}

function substring(text: string, from: bigint, to: bigint | undefined): string {
  const start = units(text, from)
  const end = to === undefined ? text.length : units(text, to)
  if (end < start) throw new CelEvaluationError(`invalid substring range: ${from} to ${to}`)
  return text.slice(start, end)
}

function charAt(text: string, at: bigint): string {
  const start = units(text, at)
  const code = text.codePointAt(start)
  return code === undefined ? '' : String.fromCodePoint(code)
}

function replaceTexts(text: string, from: string, to: string, limit: bigint, budget: Budget): string {
  if (from === '') return insertBetween(Array.from(text), to, limit, budget)
  const parts = split(text, from, limit < 0n ? -1n : limit + 1n)
  // Before the text is made: it may be much longer than its parts.
  budget.spend((parts.length * (to.length + 1)) >> 6)
  return parts.join(to)
}

/** An empty text is before each character and after the last. */
function insertBetween(characters: readonly string[], to: string, limit: bigint, budget: Budget): string {
  budget.spend((characters.length >> 3) + (((characters.length + 1) * (to.length + 1)) >> 6))
  const isReplaced = (at: number) => limit < 0n || BigInt(at) < limit
  const parts = characters.map((character, at) => (isReplaced(at) ? to + character : character))
  return parts.join('') + (isReplaced(characters.length) ? to : '')
}

function split(text: string, separator: string, limit: bigint): string[] {
  if (limit === 0n) return []
  const parts = separator === '' ? Array.from(text) : text.split(separator)
  if (limit < 0n || BigInt(parts.length) <= limit) return parts
  const count = Number(limit) - 1
  return [...parts.slice(0, count), parts.slice(count).join(separator)]
}

const texts: CelType = listOf(string)

export const stringFunctions: OverloadTable = {
  startsWith: [overload(['string', 'string'], bool, ([text, part]) => text.startsWith(part))],
  endsWith: [overload(['string', 'string'], bool, ([text, part]) => text.endsWith(part))],
  contains: [overload(['string', 'string'], bool, ([text, part]) => text.includes(part))],
  matches: [
    overload(['string', 'string'], bool, ([text, pattern], budget) => hasMatch(pattern, text, budget)),
  ],
  find: [
    overload(['string', 'string'], string, ([text, pattern], budget) => {
      const [first = ''] = matchesOf(pattern, text, 1, budget)
      return first
    }),
  ],
  findAll: [
    overload(['string', 'string'], texts, ([text, pattern], budget) =>
      matchesOf(pattern, text, Number.POSITIVE_INFINITY, budget),
    ),
    overload(['string', 'string', 'int'], texts, ([text, pattern, limit], budget) =>
      matchesOf(pattern, text, limit < 0n ? Number.POSITIVE_INFINITY : Number(limit), budget),
    ),
  ],
  charAt: [overload(['string', 'int'], string, ([text, at]) => charAt(text, at))],
  indexOf: [
    overload(['string', 'string'], int, ([text, part]) => position(text, text.indexOf(part))),
    overload(['string', 'string', 'int'], int, ([text, part, from]) =>
      position(text, text.indexOf(part, units(text, from))),
    ),
  ],
  lastIndexOf: [
    overload(['string', 'string'], int, ([text, part]) => position(text, text.lastIndexOf(part))),
    overload(['string', 'string', 'int'], int, ([text, part, from]) =>
      position(text, text.lastIndexOf(part, units(text, from))),
    ),
  ],
  lowerAscii: [overload(['string'], string, ([text]) => text.replace(/[A-Z]+/g, part => part.toLowerCase()))],
  upperAscii: [overload(['string'], string, ([text]) => text.replace(/[a-z]+/g, part => part.toUpperCase()))],
  replace: [
    overload(['string', 'string', 'string'], string, ([text, from, to], budget) =>
      replaceTexts(text, from, to, -1n, budget),
    ),
    overload(['string', 'string', 'string', 'int'], string, ([text, from, to, limit], budget) =>
      replaceTexts(text, from, to, limit, budget),
    ),
  ],
  split: [
    overload(['string', 'string'], texts, ([text, separator]) => split(text, separator, -1n)),
    overload(['string', 'string', 'int'], texts, ([text, separator, limit]) => split(text, separator, limit)),
  ],
  substring: [
    overload(['string', 'int'], string, ([text, from]) => substring(text, from, undefined)),
    overload(['string', 'int', 'int'], string, ([text, from, to]) => substring(text, from, to)),
  ],
  trim: [overload(['string'], string, ([text]) => text.trim())],
  format: [
    overload(['string', 'list'], string, ([template, values], budget) =>
      formatText(template, values, budget),
    ),
  ],
}
