import { errorMessage, isRecord } from '@setpoint/controller-runtime/api'
import type { TransportResponse } from '@setpoint/controller-runtime/internal'

/** Says why a server did not tell something: a lack of rights must not look like health. */
export function refusalOf(url: string, path: string, { status, body }: TransportResponse): string {
  let message: unknown
  try {
    const parsed: unknown = JSON.parse(body)
    message = isRecord(parsed) ? parsed.message : undefined
  } catch {
    // Of a proxy, perhaps.
  }
  const reason = typeof message === 'string' ? `: ${message}` : ''
  const remedy = status === 401 ? '; give a valid token with --server-token-file' : ''
  return `${url} responded to ${path} with ${status}${reason}${remedy}`
}

/** Returns why a server did not respond, with the flag that may help. */
export function failureOf(error: unknown): string {
  return `${errorMessage(error)}${remedyOf(error)}`
}

function remedyOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  if (untrusted.has(code))
    return '; give the CA certificates that have signed its certificate with --server-ca'
  if (elsewhere.has(code)) return '; if it has another address, give that with --server'
  return ''
}

/** Codes of OpenSSL, as Node.js reports them, for a certificate of an authority that is not known. */
const untrusted: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
])

/** Codes for an address, a port, a name or a scheme (http or https) that is not that of the server. */
const elsewhere: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPROTO',
  'ERR_SSL_WRONG_VERSION_NUMBER',
  'ERR_SSL_PACKET_LENGTH_TOO_LONG',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'ETIMEDOUT',
])
