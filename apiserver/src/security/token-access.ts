import type { Clock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log/index.ts'
import type { Access, CallerRequest, Identity } from './access.ts'
import { bearerTokenOf } from './bearer-token.ts'
import { FileWatch } from './file-watch.ts'
import { warnIfReadableByAll } from './secret-file.ts'
import { TokenList } from './token-list.ts'

export const tokenAccessDefaults = Object.freeze({
  /**
   * Milliseconds until tokens are rejected after the file becomes unreadable or invalid: time to fix a mistake, and the
   * longest that a token stays valid after a failed attempt to revoke it.
   */
  refuseAfterMs: 10 * 60_000,
})

/**
 * Authenticates callers by the token hashes of a file, and reloads the file when it changes. If the file becomes
 * unreadable or invalid, the loaded tokens stay valid for `refuseAfterMs`. After that, requests get 503 and open watches
 * end until the file is valid again. The failure is logged every minute.
 */
export class TokenAccess implements Access {
  #tokens: TokenList
  readonly #watched = new Map<string, { readonly identity: Identity; readonly revoked: Set<() => void> }>()
  readonly #file: FileWatch
  #refuses = false

  /** @throws TokenListError */
  constructor({ path, text, log, clock }: { path: string; text: string; log: Logger; clock?: Clock }) {
    this.#tokens = new TokenList(text)
    warnIfReadableByAll(path, log)
    this.#file = new FileWatch({
      paths: [path],
      known: [text],
      ...(clock && { clock }),
      failed: (error, failingMs) => {
        const failingSeconds = Math.round(failingMs / 1000)
        const fields = { path, failingSeconds, err: error }
        if (failingMs < tokenAccessDefaults.refuseAfterMs) {
          log.error(fields, 'failed to load the token file; its tokens are rejected after 10 minutes')
        } else {
          log.error(fields, 'failed to load the token file for 10 minutes; rejecting all tokens')
          this.#refuse()
        }
      },
      recovered: () => {
        this.#refuses = false
        log.info({ path }, 'loaded the token file after a failure')
      },
      changed: ([changed = '']) => {
        this.#use(new TokenList(changed))
        log.info({ path }, 'reloaded the token file')
      },
    })
  }

  /** Seconds since the token file became unreadable or invalid; 0 if it is valid. */
  get failingSeconds(): number {
    return this.#file.failingMs / 1000
  }

  identify({ headers }: CallerRequest): Identity {
    const token = bearerTokenOf(headers)
    if (token !== undefined && this.#refuses)
      throw new ApiError(
        'ServiceUnavailable',
        'cannot check the token: the token file is unreadable or invalid',
      )
    const identity = token === undefined ? undefined : this.#tokens.find(token)
    if (identity !== undefined) return identity
    throw new ApiError(
      'Unauthorized',
      token === undefined ? 'a token is required: Authorization: Bearer <token>' : 'the token is invalid',
    )
  }

  onRevoked(identity: Identity, revoked: () => void): () => void {
    const { credential } = identity
    if (credential === undefined) return () => {}
    // Revoked since `identify`.
    if (this.#refuses || !this.#tokens.knows(identity)) {
      revoked()
      return () => {}
    }
    const watched = this.#watched.get(credential) ?? { identity, revoked: new Set() }
    this.#watched.set(credential, watched)
    watched.revoked.add(revoked)
    return () => {
      watched.revoked.delete(revoked)
      if (watched.revoked.size === 0) this.#watched.delete(credential)
    }
  }

  close(): void {
    this.#file.close()
  }

  #refuse(): void {
    this.#refuses = true
    for (const { revoked } of [...this.#watched.values()]) for (const each of [...revoked]) each()
  }

  #use(tokens: TokenList): void {
    this.#tokens = tokens
    for (const { identity, revoked } of [...this.#watched.values()]) {
      if (!tokens.knows(identity)) for (const each of [...revoked]) each()
    }
  }
}
