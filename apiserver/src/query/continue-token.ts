import { ApiError, type ObjectKey, parseRevision, type Revision } from '@setpoint/controller-runtime/api'

/** Where a list with `limit` continues: after an object's key, in the state of the first page. */
interface ContinueToken {
  readonly version: Revision
  readonly after: ObjectKey
}

/** Raised when the content changes, so a token of another server version is rejected and not misread. */
const tokenFormat = 1

/** Name and namespace have at most 253 characters each, so no token of this server is longer. */
const maxTokenLength = 1024

/** Opaque to clients: base64url of JSON `{v, version, after}`. */
export function encodeContinue({ version, after }: ContinueToken): string {
  return Buffer.from(JSON.stringify({ v: tokenFormat, version: String(version), after })).toString(
    'base64url',
  )
}

/** @throws ApiError 400 for anything that `encodeContinue` did not make. */
export function decodeContinue(text: string): ContinueToken {
  const token = parseToken(text)
  if (token === undefined) {
    throw new ApiError('BadRequest', 'continue: the token is not valid')
  }
  return token
}

function parseToken(text: string): ContinueToken | undefined {
  if (text.length > maxTokenLength || !/^[A-Za-z0-9_-]+$/.test(text)) return undefined
  try {
    const token: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    if (typeof token !== 'object' || token === null) return undefined
    if (!('v' in token && 'version' in token && 'after' in token)) return undefined
    const { v, version, after } = token
    if (v !== tokenFormat || typeof version !== 'string' || typeof after !== 'string') return undefined
    return { version: parseRevision(version), after }
  } catch {
    return undefined
  }
}
