import { type Clock, systemClock } from '@setpoint/controller-runtime'
import type { CancelTimer } from '@setpoint/controller-runtime/internal'
import type { Credential } from './access.ts'

/** How long a credential is valid. */
interface Validity {
  /** Milliseconds since the epoch. */
  readonly expiresAt?: number
  /** Returns false once the credential is invalid for a reason other than its expiry. */
  isValid(): boolean
}

interface Watched {
  readonly validity: Validity
  revoke(): void
}

/** The credentials of one way to authenticate, and the open watches that end with them. */
export class Revocations {
  readonly #clock: Clock
  readonly #watched = new Set<Watched>()

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  credential(validity: Validity): Credential {
    return { onRevoked: revoked => this.#watch(validity, revoked) }
  }

  /** Revokes the credentials that have become invalid. */
  recheck(): void {
    for (const watched of [...this.#watched]) if (!watched.validity.isValid()) watched.revoke()
  }

  #watch(validity: Validity, revoked: () => void): () => void {
    const { expiresAt } = validity
    const leftMs = expiresAt === undefined ? undefined : expiresAt - this.#clock.now()
    if (!validity.isValid() || (leftMs !== undefined && leftMs <= 0)) {
      revoked()
      return () => {}
    }
    let cancel: CancelTimer = () => {}
    const stop = () => {
      this.#watched.delete(watched)
      cancel()
    }
    const revoke = () => {
      stop()
      revoked()
    }
    const watched = { validity, revoke }
    this.#watched.add(watched)
    if (leftMs !== undefined) cancel = this.#clock.setTimeout(revoke, leftMs, { unref: true })
    return stop
  }
}
