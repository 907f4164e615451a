/** One document of a YAML text, not yet read. */
export interface DocumentText {
  /** Includes blank lines and comments. */
  readonly text: string
  /** The part's first line in the whole text, from 1. */
  readonly firstLine: number
  /** The document's first line, from 1: its `---`, or else its first line with content. */
  readonly line: number
}

/**
 * Splits a YAML text at its document markers and skips empty documents. YAML forbids `---` and `...` at the start of a
 * line inside a scalar, so this needs no parser, and a malformed document cannot hide the next.
 */
export function splitDocuments(text: string): DocumentText[] {
  const parts: DocumentText[] = []
  const lines = text.split(/\r\n|\r|\n/)
  let firstLine = 1
  let line: number | undefined
  let hasContent = false
  const close = (end: number) => {
    if (hasContent && line !== undefined)
      parts.push({ text: `${lines.slice(firstLine - 1, end).join('\n')}\n`, firstLine, line })
    firstLine = end + 1
    line = undefined
    hasContent = false
  }
  for (const [index, content] of lines.entries()) {
    const number = index + 1
    if (/^---(?:\s|$)/.test(content)) {
      // Directives before the marker belong to the document after it.
      if (hasContent || line !== undefined) close(index)
      line = number
      hasContent = !isBlank(content.slice(3))
    } else if (/^\.\.\.(?:\s|$)/.test(content)) {
      close(number)
    } else if (!isBlank(content) && !(line === undefined && content.startsWith('%'))) {
      line ??= number
      hasContent = true
    }
  }
  close(lines.length)
  return parts
}

function isBlank(content: string): boolean {
  return /^\s*(?:#.*)?$/.test(content)
}
