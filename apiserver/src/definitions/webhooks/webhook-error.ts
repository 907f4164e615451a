/** A webhook could not be called, or its response is not one. The message is a clause that says why. */
export class WebhookCallError extends Error {
  override readonly name = 'WebhookCallError'
}

const networkProblems: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  ENOTFOUND: 'no such host',
  EAI_AGAIN: 'the host name could not be resolved',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'the network cannot be reached',
  ETIMEDOUT: 'the connection timed out',
}

/** The codes of OpenSSL for a certificate of an issuer that is not known, which Go words as follows. */
const unknownIssuer =
  /^(UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT.*|(DEPTH_ZERO_)?SELF_SIGNED_CERT.*)$/

/** Codes of Node and OpenSSL for a certificate that is not accepted. */
const certificateProblem = /CERT|SIGNATURE|ISSUER|SELF_SIGNED|TLS_/

/** Says in a few words why a request has failed. */
export function problemOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const text = networkProblems[code] ?? (error instanceof Error ? error.message : String(error))
  if (unknownIssuer.test(code))
    return 'tls: failed to verify certificate: x509: certificate signed by unknown authority'
  const shown = text.replace(/\s+/g, ' ').trim().slice(0, 200)
  return certificateProblem.test(code) ? `tls: failed to verify certificate: ${shown}` : shown
}
