import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { LRUCache } from 'lru-cache'
import type { Identity } from './access.ts'

export const verifiedTokenDefaults = Object.freeze({
  /** Tokens kept: about 1 KiB each. Past it the token that was unused longest is verified again. */
  tokens: 10_000,
})

/** A token whose signature and claims are valid. */
export interface VerifiedToken {
  readonly identity: Identity
  /** The audiences that the token is for. Default: this API. */
  readonly audiences?: readonly string[]
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
  /**
   * Confirms, at each use, that what the token depends on still exists. Throws or rejects with ApiError 401 or 503, and
   * returns a promise only if it must wait.
   */
  readonly confirm?: () => void | Promise<void>
}

/**
 * Verified tokens by their hashes, until they expire. A token that several requests send at once is verified once.
 * Rejected tokens are not kept, so they cannot displace valid ones.
 */
export class VerifiedTokens {
  readonly #clock: Clock
  readonly #known = new LRUCache<string, VerifiedToken>({ max: verifiedTokenDefaults.tokens })
  readonly #underWay = new Map<string, Promise<VerifiedToken>>()
  readonly counts = { hit: 0, miss: 0 }

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  /** Number of tokens kept. */
  get size(): number {
    return this.#known.size
  }

  /** Returns a token that has been verified before, or verifies it. Rejects as `verify` does. */
  get(token: string, verify: () => Promise<VerifiedToken>): VerifiedToken | Promise<VerifiedToken> {
    const hash = createHash('sha256').update(token).digest('base64')
    const known = this.#known.get(hash)
    if (known !== undefined && known.expiresAt > this.#clock.now()) {
      this.counts.hit++
      return known
    }
    this.#known.delete(hash)
    this.counts.miss++
    let verifying = this.#underWay.get(hash)
    if (verifying === undefined) {
      verifying = verify()
        .then(verified => {
          this.#known.set(hash, verified)
          return verified
        })
        .finally(() => this.#underWay.delete(hash))
      this.#underWay.set(hash, verifying)
    }
    return verifying
  }
}
