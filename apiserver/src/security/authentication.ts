import { ApiError } from '@setpoint/controller-runtime/api'
import type { Access, CallerRequest, Identity } from './access.ts'
import type { AuthenticationCounts } from './authentication-counts.ts'
import { bearerTokenOf } from './bearer-token.ts'
import type { AuthenticatedToken, BearerTokens } from './bearer-tokens.ts'
import type { ClientCertificates } from './client-certificates.ts'

interface Parts {
  readonly certificates: ClientCertificates | undefined
  readonly tokens: BearerTokens
  readonly counts: AuthenticationCounts
}

/**
 * Authenticates callers by the first of these that they present and that is valid: a client certificate, then a bearer
 * token. In force as soon as one way to authenticate is configured.
 */
export class Authentication implements Access {
  readonly #certificates: ClientCertificates | undefined
  readonly #tokens: BearerTokens
  readonly #counts: AuthenticationCounts

  constructor({ certificates, tokens, counts }: Parts) {
    this.#certificates = certificates
    this.#tokens = tokens
    this.#counts = counts
  }

  identify({ headers, socket }: CallerRequest): Identity | Promise<Identity> {
    const presented = this.#certificates?.find(socket)
    if (presented !== undefined && 'identity' in presented) {
      this.#counts.count('certificate', 'success')
      return presented.identity
    }
    const token = bearerTokenOf(headers)
    if (token !== undefined) {
      const found = this.#tokens.authenticate(token)
      return found instanceof Promise ? found.then(identityOf) : found.identity
    }
    this.#counts.count(presented === undefined ? 'none' : 'certificate', 'failure')
    if (presented !== undefined) throw new ApiError('Unauthorized', presented.problem)
    throw new ApiError(
      'Unauthorized',
      this.#certificates === undefined
        ? 'a token is required: Authorization: Bearer <token>'
        : 'a client certificate or a token is required: Authorization: Bearer <token>',
    )
  }

  onRevoked({ credential }: Identity, revoked: () => void): () => void {
    return credential?.onRevoked(revoked) ?? (() => {})
  }
}

function identityOf({ identity }: AuthenticatedToken): Identity {
  return identity
}
