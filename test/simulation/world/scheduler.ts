import { EventHeap, type WorldEvent } from './event-heap.ts'
import { WorldNode } from './node.ts'

/** Taken before anything replaces it. */
const realTurn = globalThis.setImmediate

/**
 * The time of the world. Runs one event after another; what an event resolves runs before the next one. So everything
 * that happens meanwhile belongs to the node of that event, which `current` tells.
 */
export class Scheduler {
  readonly #heap = new EventHeap()
  readonly #seed: number
  #now = 0
  #sequence = 0
  #nodes = 0
  #current: WorldNode | undefined
  #isRunning = false
  #error: unknown
  events = 0
  /** Digests the order and time of all events. */
  #digest = 0

  constructor(seed: number) {
    this.#seed = Math.imul(seed | 0, 0x85ebca6b)
  }

  /** Milliseconds since the start. */
  get now(): number {
    return this.#now
  }

  /** The node whose event runs; undefined between two advances. */
  get current(): WorldNode | undefined {
    return this.#current
  }

  get digest(): number {
    return this.#digest >>> 0
  }

  get pending(): number {
    return this.#heap.size
  }

  /** Returns how many events a node waits for. */
  eventsOf(node: WorldNode): number {
    return this.#heap.count(event => event.node === node && !event.isCancelled)
  }

  node(name: string): WorldNode {
    return new WorldNode(name, ++this.#nodes, this.#now)
  }

  /** Runs `run` in a node after `delayMs`. */
  schedule(node: WorldNode, delayMs: number, run: () => void): WorldEvent {
    return this.scheduleAt(node, this.#now + Math.max(0, delayMs), run)
  }

  /**
   * Runs `run` in a node at a time. What must happen in order needs times that rise: a delay that is added to the present
   * time is rounded.
   */
  scheduleAt(node: WorldNode, at: number, run: () => void): WorldEvent {
    const time = Math.max(at, this.#now)
    const event = {
      at: time,
      rank: this.#rankOf(node, time),
      sequence: ++this.#sequence,
      node,
      run,
      isCancelled: false,
      isPostponed: false,
    }
    this.#heap.push(event)
    return event
  }

  /** Runs `work` at once as an event of a node. What it resolves runs in the next step. */
  enter<T>(node: WorldNode, work: () => T): T {
    const before = this.#current
    this.#current = node
    try {
      return work()
    } finally {
      this.#current = before
    }
  }

  /** Ends the present `advance` with an error. */
  fail(error: unknown): void {
    this.#error ??= error
  }

  /** Runs all events up to a time. @throws the error given to `fail` */
  async advanceTo(until: number): Promise<void> {
    if (this.#isRunning) throw new Error('time passes already: await the other advance first')
    this.#isRunning = true
    try {
      // What was begun before belongs to nobody.
      await settled()
      for (let next = this.#heap.first; next !== undefined && next.at <= until; next = this.#heap.first) {
        this.#heap.pop()
        if (this.#hasRun(next)) {
          await settled()
          this.#current = undefined
        }
        if (this.#error !== undefined) throw this.#error
      }
      this.#now = Math.max(this.#now, until)
    } finally {
      this.#current = undefined
      this.#isRunning = false
      this.#error = undefined
    }
  }

  /** Runs the next event, if there is one. Returns false if there is none. */
  async step(): Promise<boolean> {
    const next = this.#heap.first
    if (next === undefined) return false
    await this.advanceTo(next.at)
    return true
  }

  #rankOf(node: WorldNode, at: number): number {
    return Math.imul(node.id ^ Math.imul(Math.floor(at * 1000), 0x9e3779b1) ^ this.#seed, 0xc2b2ae35)
  }

  #hasRun(event: WorldEvent): boolean {
    const { node, at } = event
    if (event.isCancelled || node.isDead) return false
    if (node.pausedUntil > at) {
      event.at = node.pausedUntil
      event.rank = this.#rankOf(node, event.at)
      // A longer pause must not change the order.
      if (!event.isPostponed) event.sequence = ++this.#sequence
      event.isPostponed = true
      this.#heap.push(event)
      return false
    }
    this.#now = at
    this.events++
    this.#digest = Math.imul(this.#digest ^ Math.floor(at * 1e6) ^ (node.id << 24), 0x01000193)
    this.#current = node
    event.run()
    return true
  }
}

/** Resolves once all microtasks and `process.nextTick` callbacks have run. */
function settled(): Promise<void> {
  return new Promise(resolve => realTurn(resolve))
}
