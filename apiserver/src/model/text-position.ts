import { objectLimits } from './object-limits.ts'

/** A place in a text. Line and column count from 1; columns are UTF-16 units, as in editors. */
export interface TextPosition {
  readonly line: number
  readonly column: number
}

/** Returns the position of `offset`, in UTF-16 units. An offset past the end means the end. */
export function positionAt(text: string, offset: number): TextPosition {
  const end = Math.min(offset, text.length)
  let line = 1
  let lineStart = 0
  for (let at = text.indexOf('\n'); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) {
    line++
    lineStart = at + 1
  }
  return { line, column: end - lineStart + 1 }
}

/** Returns `text` on one line with at most `length` characters, to quote it in a message. */
export function shorten(text: string, length: number): string {
  // Cuts first: the text may have megabytes.
  const line = text.slice(0, length + 1).replace(/\s+/g, ' ')
  return text.length <= length ? line : `${line.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Returns a value of a request as JSON, cut, to quote it in a message. */
export function quote(value: unknown): string {
  const length = objectLimits.echoedCharacters
  if (typeof value === 'string') return JSON.stringify(shorten(value, length))
  return shorten(JSON.stringify(value) ?? 'undefined', length)
}
