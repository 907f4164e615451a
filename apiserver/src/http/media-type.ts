/** A media type: its essence in lower case, and its parameters by lower-case name. */
export interface MediaType {
  readonly type: string
  readonly parameters: ReadonlyMap<string, string>
}

const json: MediaType = Object.freeze({ type: 'application/json', parameters: new Map() })

const token = "[!#$%&'*+\\-.^_`|~A-Za-z0-9]+"
/** Kubernetes has an `@` in the name of its older protobuf form of OpenAPI documents, although tokens have none. */
const subtype = token.replace('[', '[@')
const essencePattern = new RegExp(`^[\\t ]*(${token}/${subtype})[\\t ]*(?=;|$)`)
/** A parameter, with a quoted or a plain value, and what else is there before the next semicolon. */
const parameterPattern = new RegExp(`;[\\t ]*(?:(${token})=(?:"((?:[^"\\\\]|\\\\.)*)"|([^;]*)))?[^;]*`, 'g')

/**
 * Parses a Content-Type header. Returns undefined for a missing or malformed one. As in browsers, malformed parameters
 * are left out, and the first of several with the same name counts. Node's `MIMEType` takes quadratic time for blanks.
 */
export function parseMediaType(header: string | undefined): MediaType | undefined {
  if (header === undefined) return undefined
  // Most requests have exactly this header.
  if (header === json.type) return json
  const [start, type] = essencePattern.exec(header) ?? []
  if (start === undefined || type === undefined) return undefined
  const parameters = new Map<string, string>()
  for (const [, name, quoted, plain = ''] of header.slice(start.length).matchAll(parameterPattern)) {
    const value = quoted === undefined ? plain.trimEnd() : quoted.replace(/\\(.)/g, '$1')
    const key = name?.toLowerCase()
    if (key !== undefined && (quoted !== undefined || value !== '') && !parameters.has(key))
      parameters.set(key, value)
  }
  return { type: type.toLowerCase(), parameters }
}
