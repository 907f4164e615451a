import { unlessAborted } from '@setpoint/controller-runtime'
import type { Delivery } from './delivery.ts'

/** Bounds of the deliveries of one subscription that were read and are not settled. */
export const backlogDefaults = Object.freeze({
  /** Deliveries. */
  deliveries: 1_000,
  /** Characters of their bodies. A single larger one is let through. */
  characters: 4 * 1024 * 1024,
})

interface Entry {
  readonly delivery: Delivery
  /** Monotonic time. */
  readonly since: number
}

/**
 * The pending deliveries of a subscription.
 *
 * Guarantees
 * - Deliveries of one key are worked on one after another, in the order of `add`.
 * - Different keys do not wait for each other.
 * - `oldestOf` a feed is the earliest added delivery that is not settled.
 */
export class Backlog {
  readonly #work: (delivery: Delivery) => Promise<void>
  readonly #onChange: () => void
  /** By feed, in the order of `add`. */
  readonly #feeds = new Map<string, Set<Entry>>()
  /** The end of the work on each key. */
  readonly #tails = new Map<string, Promise<void>>()
  readonly #waiting: (() => void)[] = []
  #size = 0
  #characters = 0

  /**
   * @param work settles one delivery; rejects only if the subscription's work is to end
   * @param onChange called when a delivery was added or settled
   */
  constructor(work: (delivery: Delivery) => Promise<void>, onChange: () => void = () => {}) {
    this.#work = work
    this.#onChange = onChange
  }

  get size(): number {
    return this.#size
  }

  /** The monotonic time when the oldest pending delivery was added. */
  get oldestSince(): number | undefined {
    const times: number[] = []
    for (const [first] of this.#feeds.values()) if (first !== undefined) times.push(first.since)
    return times.length === 0 ? undefined : Math.min(...times)
  }

  /** Returns the oldest pending delivery of a feed. */
  oldestOf(feed: string): Delivery | undefined {
    const [first] = this.#feeds.get(feed) ?? []
    return first?.delivery
  }

  /** Adds a delivery once there is room. @throws the signal's reason if it is aborted */
  async add(feed: string, delivery: Delivery, now: number, signal: AbortSignal): Promise<void> {
    const { deliveries, characters } = backlogDefaults
    signal.throwIfAborted()
    await this.#until(() => this.#size < deliveries && this.#characters < characters, signal)
    const entries = this.#feeds.get(feed) ?? new Set()
    this.#feeds.set(feed, entries)
    const entry = { delivery, since: now }
    entries.add(entry)
    this.#size++
    this.#characters += delivery.body.length
    // If the work on one delivery is aborted, that on the later ones of its key does not begin.
    const tail = (this.#tails.get(delivery.key) ?? Promise.resolve()).then(async () => {
      await this.#work(delivery)
      entries.delete(entry)
      this.#size--
      this.#characters -= delivery.body.length
      if (this.#tails.get(delivery.key) === tail) this.#tails.delete(delivery.key)
      this.#onChange()
      this.#wake()
    })
    tail.catch(() => {})
    this.#tails.set(delivery.key, tail)
    this.#onChange()
  }

  /** Resolves when no delivery of a feed is pending. @throws the signal's reason if it is aborted */
  whenSettled(feed: string, signal: AbortSignal): Promise<void> {
    return this.#until(() => (this.#feeds.get(feed)?.size ?? 0) === 0, signal)
  }

  /** Resolves when no work is in progress, after it was aborted. */
  async stopped(): Promise<void> {
    await Promise.allSettled(this.#tails.values())
  }

  async #until(condition: () => boolean, signal: AbortSignal): Promise<void> {
    while (!condition()) {
      const change = new Promise<void>(resolve => {
        this.#waiting.push(resolve)
      })
      await unlessAborted(change, signal)
    }
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
