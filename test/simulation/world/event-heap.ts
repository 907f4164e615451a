import type { WorldNode } from './node.ts'

/** Something that happens at a time, in a node. */
export interface WorldEvent {
  at: number
  /** Orders events of the same time: at random between nodes, but those of one node alike. */
  rank: number
  /** Orders the events of one node at the same time. */
  sequence: number
  readonly node: WorldNode
  readonly run: () => void
  isCancelled: boolean
  /** True if its node stood still at its time. */
  isPostponed: boolean
}

/** The events to come, as a binary heap. */
export class EventHeap {
  readonly #events: WorldEvent[] = []

  get size(): number {
    return this.#events.length
  }

  get first(): WorldEvent | undefined {
    return this.#events[0]
  }

  count(isCounted: (event: WorldEvent) => boolean): number {
    return this.#events.filter(isCounted).length
  }

  push(event: WorldEvent): void {
    const events = this.#events
    let at = events.length
    events.push(event)
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = events[above]
      if (parent === undefined || !isBefore(event, parent)) break
      events[at] = parent
      at = above
    }
    events[at] = event
  }

  pop(): WorldEvent | undefined {
    const events = this.#events
    const [first] = events
    const last = events.pop()
    if (first === undefined || last === undefined || events.length === 0) return first
    let at = 0
    for (;;) {
      const left = events[2 * at + 1]
      const right = events[2 * at + 2]
      if (left === undefined) break
      const isRight = right !== undefined && isBefore(right, left)
      const child = isRight ? right : left
      if (!isBefore(child, last)) break
      events[at] = child
      at = 2 * at + (isRight ? 2 : 1)
    }
    events[at] = last
    return first
  }
}

function isBefore(a: WorldEvent, b: WorldEvent): boolean {
  if (a.at !== b.at) return a.at < b.at
  if (a.rank !== b.rank) return a.rank < b.rank
  return a.sequence < b.sequence
}
