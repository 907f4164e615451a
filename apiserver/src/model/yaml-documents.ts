/** One document of a YAML text, not yet read. */
export interface DocumentText {
  /** From the first line of the part, blank ones and comments included. */
  readonly text: string
  /** Line of the whole text on which the part starts, from 1. */
  readonly firstLine: number
  /** Line on which the document starts: its `---`, or its first line with content where it has none. */
  readonly line: number
}

/**
 * Cuts a YAML text at the document markers; documents without content are left out. YAML forbids `---` and `...` at the start of a line inside any scalar, so no parser
 * is needed to find them, and a broken document cannot swallow the next.
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
      // Directives stand before the marker and belong to the document after it.
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
