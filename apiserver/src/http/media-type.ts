import { MIMEType } from 'node:util'

/** A media type: its essence in lower case, and its parameters by lower-case name. */
export interface MediaType {
  readonly type: string
  readonly parameters: ReadonlyMap<string, string>
}

const json: MediaType = Object.freeze({ type: 'application/json', parameters: new Map() })

/** Parses a Content-Type header. Returns undefined for a missing or malformed one. */
export function parseMediaType(header: string | undefined): MediaType | undefined {
  if (header === undefined) return undefined
  // Most requests have exactly this header.
  if (header === json.type) return json
  try {
    const { essence, params } = new MIMEType(header)
    return { type: essence, parameters: new Map(params) }
  } catch {
    return undefined
  }
}
