import type { Clock } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log/index.ts'
import type { Identity } from './access.ts'
import { Revocations } from './revocations.ts'
import { warnIfReadableByAll } from './secret-file.ts'
import { TokenList } from './token-list.ts'
import type { WatchedFiles } from './watched-files.ts'

export const tokenFileDefaults = Object.freeze({
  /**
   * Milliseconds until tokens are rejected after the file becomes unreadable or invalid: time to fix a mistake, and the
   * longest that a token stays valid after a failed attempt to revoke it.
   */
  refuseAfterMs: 10 * 60_000,
})

interface TokenFileOptions {
  readonly path: string
  readonly text: string
  /** Reloads the file. */
  readonly files: WatchedFiles
  readonly log: Logger
  readonly clock?: Clock
}

/**
 * Authenticates callers by the token hashes of a file, and reloads the file when it changes. If the file becomes
 * unreadable or invalid, the loaded tokens stay valid for `refuseAfterMs`. After that, requests get 503 and open
 * watches end until the file is valid again. The failure is logged every minute.
 */
export class TokenFile {
  #tokens: TokenList
  readonly #revocations: Revocations
  /** By the credentials of the list. */
  readonly #identities = new Map<string, Identity>()
  #refuses = false

  /** @throws TokenListError */
  constructor({ path, text, files, log, clock }: TokenFileOptions) {
    this.#tokens = new TokenList(text)
    this.#revocations = new Revocations(clock)
    warnIfReadableByAll(path, log)
    files.follow('token-file', {
      paths: [path],
      known: [text],
      clock,
      failed: (error, failingMs) => {
        const failingSeconds = Math.round(failingMs / 1000)
        const fields = { path, failingSeconds, err: error }
        if (failingMs < tokenFileDefaults.refuseAfterMs) {
          log.error(fields, 'failed to load the token file; its tokens are rejected after 10 minutes')
        } else {
          log.error(fields, 'failed to load the token file for 10 minutes; rejecting all tokens')
          this.#refuses = true
          this.#revocations.recheck()
        }
      },
      recovered: () => {
        this.#refuses = false
      },
      changed: ([changed = '']) => {
        this.#tokens = new TokenList(changed)
        this.#identities.clear()
        this.#revocations.recheck()
        log.info({ path }, 'reloaded the token file')
      },
    })
  }

  /** Returns the caller, or undefined if the file does not have the token. @throws ApiError 503 */
  find(token: string): Identity | undefined {
    if (this.#refuses)
      throw new ApiError(
        'ServiceUnavailable',
        'cannot check the token: the token file is unreadable or invalid',
      )
    const found = this.#tokens.find(token)
    if (found === undefined) return undefined
    const { user, credential } = found
    let identity = this.#identities.get(credential)
    if (identity === undefined) {
      const isValid = () => !this.#refuses && this.#tokens.knows(credential)
      identity = Object.freeze({ user, credential: this.#revocations.credential({ isValid }) })
      this.#identities.set(credential, identity)
    }
    return identity
  }
}
