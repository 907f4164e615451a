import { type Linked, LinkedList } from './linked-list.ts'

/** An element of the ready queue, which sets links and time. */
interface ReadyElement extends Linked {
  priority: number
  /** Monotonic ms since when it is queued. */
  queuedAt: number
}

interface Level<E extends ReadyElement> {
  readonly priority: number
  readonly elements: LinkedList<E>
}

/** When elements of low priority are taken before those of higher priority. */
export interface Ageing {
  /** An element has aged after waiting this long, in ms. */
  readonly agedAfterMs: number
  /** While lower priorities wait, one of this many elements taken is the oldest, if it has aged. */
  readonly agedShare: number
}

/**
 * Ready elements, highest priority first, first in first out within a priority.
 *
 *     levels   priority 0      first ⇄ … ⇄ last
 *              priority -100   first ⇄ … ⇄ last
 *
 * All operations are O(1), except finding the level: linear in the number of priorities, usually two.
 *
 * Aging prevents starvation: every `agedShare`-th element taken is the oldest of all, if it has waited `agedAfterMs`.
 * Raising the priority of aged elements instead would let 100,000 of them, all from one start, delay live changes.
 * It needs no timer, since the first element of a level is its oldest.
 */
export class ReadyQueue<E extends ReadyElement> {
  readonly #ageing: Ageing
  /** Highest priority first; no level is empty. */
  readonly #levels: Level<E>[] = []
  #size = 0
  /** Elements taken, while there was more than one level, since the last aged one. */
  #passedOver = 0

  constructor(ageing: Ageing) {
    this.#ageing = ageing
  }

  get size(): number {
    return this.#size
  }

  /** Yields the size of each priority, highest first. */
  *sizes(): Generator<readonly [priority: number, size: number]> {
    for (const { priority, elements } of this.#levels) yield [priority, elements.size]
  }

  /** Appends an element that is not queued. `now` is monotonic ms. */
  push(element: E, now: number): void {
    element.queuedAt = now
    this.#levelOf(element.priority).elements.push(element)
    this.#size++
  }

  /** Takes the oldest element of the highest priority, or an aged one if it is due. */
  shift(now: number): E | undefined {
    const element = this.#agedInTurn(now) ?? this.#levels[0]?.elements.first
    if (element !== undefined) this.remove(element)
    return element
  }

  /** Removes a queued element. Its priority must not have changed since `push`. */
  remove(element: E): void {
    let at = 0
    let level = this.#levels[0]
    while (level !== undefined && level.priority !== element.priority) level = this.#levels[++at]
    if (level === undefined) return
    level.elements.remove(element)
    if (level.elements.size === 0) this.#levels.splice(at, 1)
    this.#size--
  }

  clear(): void {
    this.#levels.length = 0
    this.#size = 0
  }

  #agedInTurn(now: number): E | undefined {
    if (this.#levels.length < 2) return undefined
    if (++this.#passedOver < this.#ageing.agedShare) return undefined
    let oldest: E | undefined
    for (const { elements } of this.#levels) {
      const { first } = elements
      if (first !== undefined && (oldest === undefined || first.queuedAt < oldest.queuedAt)) oldest = first
    }
    if (oldest === undefined || now - oldest.queuedAt < this.#ageing.agedAfterMs) return undefined
    this.#passedOver = 0
    return oldest
  }

  #levelOf(priority: number): Level<E> {
    let at = 0
    let found = this.#levels[0]
    while (found !== undefined && found.priority > priority) found = this.#levels[++at]
    if (found?.priority === priority) return found
    const level: Level<E> = { priority, elements: new LinkedList() }
    this.#levels.splice(at, 0, level)
    return level
  }
}
