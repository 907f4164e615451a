import type { IncomingHttpHeaders } from 'node:http'
import type { Clock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import type { Access, Identity } from './access.ts'
import { bearerTokenOf } from './bearer-token.ts'
import { FileWatch } from './file-watch.ts'
import { warnIfReadableByAll } from './secret-file.ts'
import { TokenList } from './token-list.ts'

export const tokenAccessDefaults = Object.freeze({
  /**
   * Milliseconds after which the tokens of a file that cannot be read or used are refused: long enough to repair a
   * mistake, and a bound for how long a token outlives an attempt to revoke it.
   */
  refuseAfterMs: 10 * 60_000,
})

/**
 * Identifies callers by tokens whose hashes are in a file. The file is read again when it changes. While it cannot be
 * read or used, the tokens read before stay valid for `refuseAfterMs`, and the log reports the failure every minute.
 * Then every token is refused with 503, and open watches end, until the file can be used again.
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
          log.error(fields, 'failed to read the token file; the tokens read before stay valid for 10 minutes')
        } else {
          log.error(fields, 'failed to read the token file for 10 minutes; every token is refused')
          this.#refuse()
        }
      },
      recovered: () => {
        this.#refuses = false
        log.info({ path }, 'the token file can be used again')
      },
      changed: ([changed = '']) => {
        this.#use(new TokenList(changed))
        log.info({ path }, 'read the token file again')
      },
    })
  }

  /** Seconds since the token file could last be used; 0 if it can. */
  get failingSeconds(): number {
    return this.#file.failingMs / 1000
  }

  /** Every caller may ask whether the server is alive. */
  checkCaller(): void {}

  identify(headers: IncomingHttpHeaders): Identity {
    const token = bearerTokenOf(headers)
    if (token !== undefined && this.#refuses)
      throw new ApiError('ServiceUnavailable', 'tokens cannot be checked: the token file cannot be read')
    const identity = token === undefined ? undefined : this.#tokens.find(token)
    if (identity !== undefined) return identity
    throw new ApiError(
      'Unauthorized',
      token === undefined ? 'a token is needed: Authorization: Bearer <token>' : 'the token is not valid',
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
