/**
 * Returns the names of the fields that lead to a line of YAML in block style, the line's own last; '-' is an element of a
 * list. A line without a name has '' there.
 */
export function pathAtLine(lines: readonly string[], line: number): string[] {
  const [own, ...parents] = partsOf(lines[line] ?? '').reverse()
  if (own === undefined) return []
  const path = [own, ...parents]
  let { indent } = path.at(-1) ?? own
  for (let at = line - 1; at >= 0 && indent > 0; at--) {
    const text = lines[at] ?? ''
    if (text.trim() === '' || text.trimStart().startsWith('#')) continue
    for (const part of partsOf(text).reverse()) {
      const isList = path.at(-1)?.name === '-'
      if (part.indent < indent || (isList && part.name !== '-' && part.indent === indent)) {
        path.push(part)
        indent = part.indent
      }
    }
  }
  return path.reverse().map(({ name }) => name)
}

interface Part {
  readonly name: string
  readonly indent: number
}

/** Splits `  - name: value` into the element and the field. */
function partsOf(text: string): Part[] {
  const parts: Part[] = []
  let rest = text.replace(/^\s*/, '')
  let indent = text.length - rest.length
  while (rest.startsWith('- ') || rest === '-') {
    parts.push({ name: '-', indent })
    const next = rest.replace(/^-\s*/, '')
    indent += rest.length - next.length
    rest = next
  }
  const name = /^(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^\s:#"'][^:]*?))\s*:(?:\s|$)/.exec(rest)
  parts.push({ name: name?.[1] ?? name?.[2] ?? name?.[3] ?? rest.trim().replace(/:.*/, ''), indent })
  return parts
}

/** Returns the line of a field that the server names: `spec.urls[0].port`. The nearest parent's if it is not in the text. */
export function lineOfField(lines: readonly string[], field: string): number {
  const wanted = [...field.matchAll(/\[(\d+)\]|\["?([^"\]]*)"?\]|([^.[\]]+)/g)].map(([, index, key, name]) =>
    index !== undefined ? Number(index) : (key ?? name ?? ''),
  )
  let from = 0
  let indent = 0
  let found = 0
  for (const step of wanted) {
    const at = findChild(lines, from, indent, step)
    if (at === undefined) return found
    found = at.line
    from = at.line + (typeof step === 'number' ? 0 : 1)
    indent = at.indent
  }
  return found
}

function findChild(
  lines: readonly string[],
  from: number,
  least: number,
  step: string | number,
): { line: number; indent: number } | undefined {
  let own: number | undefined
  let count = 0
  for (let line = from; line < lines.length; line++) {
    const text = lines[line] ?? ''
    if (text.trim() === '') continue
    const parts = partsOf(text)
    for (const { name, indent } of parts) {
      if (indent < least && line > from) return undefined
      if (typeof step === 'number') {
        if (name !== '-' || (own !== undefined && indent !== own)) continue
        own ??= indent
        if (count++ === step) return { line, indent: indent + 1 }
      } else if (name !== '-' && indent >= least) {
        own ??= indent
        if (indent === own && name === step) return { line, indent: indent + 1 }
      }
    }
  }
  return undefined
}
