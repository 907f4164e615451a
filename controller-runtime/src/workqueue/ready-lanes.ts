/** An element that can stand in a lane; the links are the lanes' own. */
export interface Laned {
  priority: number
  before: this | undefined
  after: this | undefined
}

interface Lane<E> {
  readonly priority: number
  first: E | undefined
  last: E | undefined
}

/**
 * What is ready, highest priority first, first in first out within a priority.
 *
 *     lanes   priority 0      first ⇄ … ⇄ last
 *             priority -100   first ⇄ … ⇄ last
 *
 * Lists that run through the elements themselves: everything is O(1) but finding the lane, which is linear in the
 * number of distinct priorities (two, in practice), and a burst of 100,000 leaves no grown array behind.
 */
export class ReadyLanes<E extends Laned> {
  /** Highest priority first; no lane is empty. */
  readonly #lanes: Lane<E>[] = []
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Puts an element, which stands in no lane, at the end of its priority's lane. */
  push(element: E): void {
    const lane = this.#laneOf(element.priority)
    element.before = lane.last
    element.after = undefined
    if (lane.last === undefined) lane.first = element
    else lane.last.after = element
    lane.last = element
    this.#size++
  }

  /** Takes the oldest element of the highest priority. */
  shift(): E | undefined {
    const element = this.#lanes[0]?.first
    if (element !== undefined) this.remove(element)
    return element
  }

  /** Takes out an element that stands in the lane of its present priority. */
  remove(element: E): void {
    const at = this.#lanes.findIndex(lane => lane.priority === element.priority)
    const lane = this.#lanes[at]
    if (lane === undefined) return
    if (element.before === undefined) lane.first = element.after
    else element.before.after = element.after
    if (element.after === undefined) lane.last = element.before
    else element.after.before = element.before
    element.before = undefined
    element.after = undefined
    if (lane.first === undefined) this.#lanes.splice(at, 1)
    this.#size--
  }

  clear(): void {
    this.#lanes.length = 0
    this.#size = 0
  }

  #laneOf(priority: number): Lane<E> {
    const at = this.#lanes.findIndex(lane => lane.priority <= priority)
    const found = this.#lanes[at]
    if (found?.priority === priority) return found
    const lane: Lane<E> = { priority, first: undefined, last: undefined }
    this.#lanes.splice(at === -1 ? this.#lanes.length : at, 0, lane)
    return lane
  }
}
