import { isRecord } from '@setpoint/controller-runtime/api'

/** The field that a path leads to. */
interface SchemaField {
  /** The names on the way. */
  readonly steps: readonly string[]
  readonly schema: Readonly<Record<string, unknown>>
}

const token = /'(?:[^'\\]|\\.)*'|[.[\]]|[^.[\]]+/sy

/**
 * Follows a path such as `.limits['max.size']` through declared fields and maps, as Kubernetes does for the `fieldPath`
 * of rules and for selectable fields. It does not lead into lists.
 * @param options.brackets false if names in brackets are not allowed
 * @returns the field, or a clause that says why the path leads to none
 */
export function followPath(
  path: string,
  schema: unknown,
  { brackets = true }: { readonly brackets?: boolean } = {},
): SchemaField | string {
  const malformed = `must be a path such as ${brackets ? ".limits['max.size']" : '.spec.color'}, is ${JSON.stringify(path)}`
  const names = namesIn(path, brackets)
  if (names === undefined) return malformed
  let at: Readonly<Record<string, unknown>> = isRecord(schema) ? schema : {}
  for (const name of names) {
    const { properties, additionalProperties } = at
    const below = isRecord(properties)
      ? Object.hasOwn(properties, name) && properties[name]
      : additionalProperties
    if (isRecord(below)) at = below
    else if (additionalProperties !== undefined && !isRecord(properties)) at = {}
    else return `leads to ${JSON.stringify(name)}, which the schema does not declare`
  }
  return { steps: names, schema: at }
}

/** Returns undefined for a malformed path. */
function namesIn(path: string, brackets: boolean): string[] | undefined {
  const tokens = tokensOf(path)
  const names: string[] = []
  for (let next = 0; next < tokens.length; ) {
    const opening = tokens[next++]
    if (opening !== '.' && (opening !== '[' || !brackets)) return undefined
    const given = tokens[next++]
    const name = opening === '.' ? given : unquoted(given)
    if (name === undefined || (opening === '[' && tokens[next++] !== ']')) return undefined
    names.push(name)
  }
  return names
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

/** Returns the name in single quotes, or undefined for another text. */
function unquoted(text = ''): string | undefined {
  if (!/^'.*'$/s.test(text) || text.length < 2) return undefined
  let isValid = true
  const name = text.slice(1, -1).replace(/\\(.)/gs, (_whole, character: string) => {
    const meant = escapes[character]
    if (meant === undefined) isValid = false
    return meant ?? ''
  })
  return isValid ? name : undefined
}
