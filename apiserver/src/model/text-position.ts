/** A place in a text, as people count: line and column from 1, the column in UTF-16 units as editors show it. */
export interface TextPosition {
  readonly line: number
  readonly column: number
}

/** The position of `offset` (UTF-16 units from the start of `text`; past the end means the end). */
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

/** `text` on one line and at most `length` characters, for quoting it in a message. */
export function shorten(text: string, length: number): string {
  // The cut comes first so that a megabyte is not rewritten to show a few words of it.
  const line = text.slice(0, length + 1).replace(/\s+/g, ' ')
  return text.length <= length ? line : `${line.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}
