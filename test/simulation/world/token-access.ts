import { ApiError } from '@setpoint/controller-runtime/api'
import {
  type Access,
  type CallerRequest,
  type Identity,
  LocalAccess,
  systemGroups,
} from '../../../apiserver/src/security/index.ts'
import type { WorldToken } from './world.ts'

/** How one server knows its callers: by tokens. Callers without one may do everything. */
export class TokenAccess implements Access {
  readonly #local = new LocalAccess()
  readonly #known = new Map<string, KnownToken>()

  constructor(tokens: readonly WorldToken[]) {
    this.set(tokens)
  }

  /** Takes other tokens. Connections with a token that is gone, or now another user's, hear of it. */
  set(tokens: readonly WorldToken[]): void {
    for (const [token, known] of this.#known) {
      if (tokens.some(each => each.token === token && known.isOf(each))) continue
      this.#known.delete(token)
      known.revoke()
    }
    for (const each of tokens)
      if (!this.#known.has(each.token)) this.#known.set(each.token, new KnownToken(each))
  }

  identify({ headers: { authorization } }: CallerRequest): Identity {
    if (authorization === undefined) return this.#local.identify()
    const known = this.#known.get(authorization.replace(/^Bearer /, ''))
    if (known === undefined) throw new ApiError('Unauthorized', 'the token is invalid')
    return known.identity
  }

  onRevoked(identity: Identity, revoked: () => void): () => void {
    return identity.credential?.onRevoked(revoked) ?? (() => {})
  }
}

class KnownToken {
  readonly identity: Identity
  readonly #token: WorldToken
  readonly #listeners = new Set<() => void>()
  #isRevoked = false

  constructor(token: WorldToken) {
    this.#token = token
    const { user: name, groups = [] } = token
    this.identity = Object.freeze({
      user: Object.freeze({ name, groups: Object.freeze([...groups, systemGroups.authenticated]) }),
      credential: { onRevoked: (revoked: () => void) => this.#listen(revoked) },
    })
  }

  isOf({ user, groups = [] }: WorldToken): boolean {
    return user === this.#token.user && groups.join() === (this.#token.groups ?? []).join()
  }

  revoke(): void {
    this.#isRevoked = true
    for (const revoked of [...this.#listeners]) revoked()
  }

  #listen(revoked: () => void): () => void {
    if (this.#isRevoked) revoked()
    else this.#listeners.add(revoked)
    return () => void this.#listeners.delete(revoked)
  }
}
