import { isDeepStrictEqual } from 'node:util'
import {
  type Client,
  type Clock,
  isConflict,
  isNotFound,
  type Logger,
  type MergePatch,
} from '@setpoint/controller-runtime'
import { Subscription, type SubscriptionObject, type SubscriptionStatus } from './subscription.ts'

/** When the status is written, in ms. */
export const progressDefaults = Object.freeze({
  /** After settled deliveries: how much a crash repeats. */
  soonMs: 1_000,
  /** After bookmarks and repeated failures. Stores keep changes for five minutes. */
  laterMs: 60_000,
  /** After a failed write. */
  retryMs: 5_000,
})

export type StatusPatch = MergePatch<SubscriptionStatus>

interface ProgressOptions {
  readonly client: Client
  /** As it is stored now. */
  readonly subscription: SubscriptionObject
  readonly snapshot: () => StatusPatch
  /** The subscription does not exist any more. */
  readonly onGone: () => void
  /** Another process has written its progress. */
  readonly onSuperseded: () => void
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Writes the progress of a subscription into its status.
 *
 * A write conflicts if the object has changed. It is then repeated, unless another process has written the progress:
 * two processes can believe for a moment that they lead, and a late write must not undo a replay.
 */
export class Progress {
  readonly #options: ProgressOptions
  #object: SubscriptionObject
  #written: StatusPatch | undefined
  #dueAt: number | undefined
  #cancelTimer: () => void = () => {}
  #writing: Promise<void> = Promise.resolve()
  #closed = false

  constructor(options: ProgressOptions) {
    this.#options = options
    this.#object = options.subscription
  }

  soon(): void {
    this.#schedule(progressDefaults.soonMs)
  }

  later(): void {
    this.#schedule(progressDefaults.laterMs)
  }

  /** Writes now. @throws ApiError or TransportError */
  flush(): Promise<void> {
    const written = this.#writing.then(() => this.#write())
    this.#writing = written.catch(() => {})
    return written
  }

  /** Writes no more by itself. */
  close(): void {
    this.#closed = true
    this.#cancelTimer()
  }

  #schedule(delayMs: number): void {
    const { clock, log } = this.#options
    const dueAt = clock.monotonic() + delayMs
    if (this.#closed || (this.#dueAt !== undefined && this.#dueAt <= dueAt)) return
    this.#cancelTimer()
    this.#dueAt = dueAt
    this.#cancelTimer = clock.setTimeout(() => {
      this.#dueAt = undefined
      this.flush().catch((error: unknown) => {
        log.warn({ err: error }, 'failed to write the progress of a subscription, retrying')
        this.#schedule(progressDefaults.retryMs)
      })
    }, delayMs)
  }

  async #write(): Promise<void> {
    const { client, snapshot, onGone, onSuperseded } = this.#options
    const status = snapshot()
    if (isDeepStrictEqual(status, this.#written)) return
    for (;;) {
      const { name, uid, version } = this.#object.metadata
      try {
        this.#object = await client.patchStatus(Subscription, this.#object, status, { version })
        this.#written = status
        return
      } catch (error) {
        if (isNotFound(error)) {
          onGone()
          return
        }
        if (!isConflict(error)) throw error
      }
      const live = await client.getIfExists(Subscription, name)
      if (live === undefined || live.metadata.uid !== uid) {
        onGone()
        return
      }
      if (!hasSameProgress(live, this.#object)) {
        onSuperseded()
        return
      }
      this.#object = live
    }
  }
}

function hasSameProgress(left: SubscriptionObject, right: SubscriptionObject): boolean {
  return (
    isDeepStrictEqual(left.status?.cursors, right.status?.cursors) &&
    isDeepStrictEqual(left.status?.replayed, right.status?.replayed)
  )
}
