import { propertyOf, type SchemaProps, valuesOf } from './schema-props.ts'

/** A field that a path leads to. */
export interface SchemaField {
  /** The names on the way. */
  readonly steps: readonly string[]
  readonly schema: SchemaProps
}

const token = /'(?:[^'\\]|\\.)*'|[.[\]]|[^.[\]]+/sy

/**
 * Follows a path such as `.spec.limits['max.size']` through declared fields and maps, as Kubernetes does for the `fieldPath` of rules
 * and for selectable fields. It does not lead into lists.
 * @param options.brackets false if names in brackets are not allowed
 * @returns the field, or why the path does not lead to one
 */
export function followPath(
  path: string,
  schema: SchemaProps,
  { brackets = true }: { readonly brackets?: boolean } = {},
): SchemaField | string {
  const tokens = tokensOf(path)
  const steps: string[] = []
  let at: SchemaProps = schema
  for (let next = 0; next < tokens.length; ) {
    const opening = tokens[next++]
    let name: string | undefined
    if (opening === '.') name = tokens[next++]
    else if (opening !== '[') return `expected [ or . but got ${opening}`
    else {
      if (!brackets) return 'names in brackets are not allowed'
      const quoted = tokens[next++]
      if (quoted === undefined) return 'unexpected end of the path'
      if (!quoted.startsWith("'") || !quoted.endsWith("'") || quoted.length < 2)
        return `expected a name in single quotes but got ${quoted}`
      name = unquoted(quoted.slice(1, -1))
      if (name === undefined) return `${quoted} has an invalid escape`
      const closing = tokens[next++]
      if (closing === undefined) return 'unexpected end of the path'
      if (closing !== ']') return `expected ] but got ${closing}`
    }
    if (name === undefined) return 'unexpected end of the path'
    const below = at.properties !== undefined ? propertyOf(at, name) : valuesOf(at)
    if (below === undefined) return `does not refer to a declared field at ${JSON.stringify(name)}`
    steps.push(name)
    at = below
  }
  return { steps, schema: at }
}

function tokensOf(path: string): string[] {
  const tokens: string[] = []
  token.lastIndex = 0
  while (token.lastIndex < path.length) {
    const from = token.lastIndex
    const match = token.exec(path)
    if (match === null) {
      // A quote that is not closed.
      tokens.push(path.slice(from))
      break
    }
    tokens.push(match[0])
  }
  return tokens
}

const escapes: Readonly<Record<string, string>> = {
  a: '\x07',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
  "'": "'",
  '\\': '\\',
}

function unquoted(text: string): string | undefined {
  let isValid = true
  const result = text.replace(/\\(.)/gs, (_whole, character: string) => {
    const meant = escapes[character]
    if (meant === undefined) isValid = false
    return meant ?? ''
  })
  return isValid ? result : undefined
}
