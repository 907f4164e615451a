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
