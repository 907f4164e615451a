import type { WorldEvent } from './event-heap.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'

/** Milliseconds of one turn of a node's event loop. */
const turnMs = 0.02

const longestMs = 2 ** 31 - 1

/** What `setTimeout`, `setInterval` and `setImmediate` return in the world. */
export class WorldTimer {
  readonly #scheduler: Scheduler
  readonly #node: WorldNode
  readonly #callback: () => void
  readonly #ms: number
  readonly #repeats: boolean
  #event: WorldEvent | undefined

  constructor(
    scheduler: Scheduler,
    node: WorldNode,
    callback: () => void,
    { ms, repeats = false }: { ms: unknown; repeats?: boolean },
  ) {
    this.#scheduler = scheduler
    this.#node = node
    this.#callback = callback
    const asked = Number(ms)
    this.#ms = asked >= 1 && asked <= longestMs ? Math.trunc(asked) : 1
    this.#repeats = repeats
    this.refresh()
  }

  refresh(): this {
    this.close()
    this.#event = this.#scheduler.schedule(this.#node, this.#node.clock.durationOf(this.#ms), () => {
      this.#event = undefined
      if (this.#repeats) this.refresh()
      this.#callback()
    })
    return this
  }

  close(): this {
    if (this.#event !== undefined) this.#event.isCancelled = true
    this.#event = undefined
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/** A callback in the next turn of a node's event loop. All callbacks of a turn run one after another. */
export class WorldImmediate {
  readonly #event: WorldEvent

  constructor(scheduler: Scheduler, node: WorldNode, callback: () => void) {
    if (node.lastTurnAt <= scheduler.now) node.lastTurnAt = scheduler.now + turnMs
    this.#event = scheduler.scheduleAt(node, node.lastTurnAt, callback)
  }

  close(): void {
    this.#event.isCancelled = true
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  [Symbol.dispose](): void {
    this.close()
  }
}
