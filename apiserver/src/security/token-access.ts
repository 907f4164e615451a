import type { IncomingHttpHeaders } from 'node:http'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import type { Access, Identity } from './access.ts'
import { bearerTokenOf } from './bearer-token.ts'
import { FileWatch } from './file-watch.ts'
import { TokenList } from './token-list.ts'

/**
 * Callers show a token that stands, as its hash, in a file. The file is read again when it changes; while it is not what
 * it should be, the last good one stays in force, and the log says what is wrong.
 */
export class TokenAccess implements Access {
  #tokens: TokenList
  readonly #watched = new Map<string, { readonly identity: Identity; readonly revoked: Set<() => void> }>()
  readonly #file: FileWatch

  /** @throws TokenListError */
  constructor(options: { path: string; text: string; log: Logger; intervalMs?: number }) {
    const { path, text, log, intervalMs } = options
    this.#tokens = new TokenList(text)
    const failed = (error: unknown) =>
      log.error(
        { path, err: error },
        'the file of tokens cannot be used; what was read before stays in force',
      )
    this.#file = new FileWatch({
      paths: [path],
      known: [text],
      failed,
      ...(intervalMs !== undefined && { intervalMs }),
      changed: ([changed = '']) => {
        try {
          this.#use(new TokenList(changed))
          log.info({ path }, 'the file of tokens has been read again')
        } catch (error) {
          failed(error)
        }
      },
    })
  }

  /** Whoever reaches the server may ask whether it is alive. */
  checkCaller(): void {}

  identify(headers: IncomingHttpHeaders): Identity {
    const token = bearerTokenOf(headers)
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
    // Taken back between the question who it is and this one.
    if (!this.#tokens.knows(identity)) {
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

  #use(tokens: TokenList): void {
    this.#tokens = tokens
    for (const { identity, revoked } of [...this.#watched.values()]) {
      if (!tokens.knows(identity)) for (const each of [...revoked]) each()
    }
  }
}
