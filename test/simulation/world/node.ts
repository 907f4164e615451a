/**
 * A process of the world, or the store, or a client. Every event belongs to a node:
 *
 *     running ⇄ paused      its events wait until it goes on
 *     any     → dead        its events are dropped. A new start is another node with the same name.
 */
export class WorldNode {
  readonly name: string
  /** Orders nodes. */
  readonly id: number
  #isDead = false
  /** Events before this time wait for it. */
  pausedUntil = 0
  readonly clock: NodeClock
  /** When the last turn of its event loop was scheduled for. */
  lastTurnAt = 0

  constructor(name: string, id: number, now: number) {
    this.name = name
    this.id = id
    this.clock = new NodeClock(now)
  }

  get isDead(): boolean {
    return this.#isDead
  }

  die(): void {
    this.#isDead = true
  }
}

/** Wall time at the start of every world: 2025-01-01T00:00:00Z. */
export const epochMs = Date.UTC(2025, 0, 1)

/** The clocks of one node: right ones, until a fault changes them. */
export class NodeClock {
  /** The time of the world when the rate last changed, and what the monotonic clock showed then. */
  #since: number
  #shown = 0
  #rate = 1
  /** Wall time when the monotonic clock shows zero. */
  #wallAtZero: number

  constructor(now: number) {
    this.#since = now
    this.#wallAtZero = epochMs + now
  }

  monotonic(now: number): number {
    return this.#shown + (now - this.#since) * this.#rate
  }

  wall(now: number): number {
    return Math.floor(this.#wallAtZero + this.monotonic(now))
  }

  /** How long a timer of this node takes in the time of the world. */
  durationOf(ms: number): number {
    return ms / this.#rate
  }

  jump(ms: number): void {
    this.#wallAtZero += ms
  }

  set(now: number, rate: number): void {
    this.#shown = this.monotonic(now)
    this.#since = now
    this.#rate = rate
  }

  /** Corrects the wall clock, as a time service does at last. The monotonic clock never jumps. */
  correct(now: number): void {
    this.set(now, 1)
    this.#wallAtZero = epochMs + now - this.monotonic(now)
  }
}
