import { Chain, type Chained } from './chain.ts'

/** An element that can stand in a lane; the links and the time are the lanes' own. */
export interface Laned extends Chained {
  priority: number
  /** Monotonic ms since which it stands in its lane. */
  lanedAt: number
}

interface Lane<E extends Laned> {
  readonly priority: number
  readonly elements: Chain<E>
}

/** When what is of low priority takes its turn all the same. */
export interface Ageing {
  /** An element that stands in its lane for this long, in ms, has aged. */
  readonly agedAfterMs: number
  /** Of this many elements that are taken while lower ones wait, one is the oldest, where that has aged. */
  readonly agedShare: number
}

/**
 * What is ready, highest priority first, first in first out within a priority.
 *
 *     lanes   priority 0      first ⇄ … ⇄ last
 *             priority -100   first ⇄ … ⇄ last
 *
 * Everything is O(1) but finding the lane, which is linear in the number of distinct priorities: two, in practice.
 *
 * Ageing: however much of higher priority keeps coming, every `agedShare`-th element taken is the one that has waited
 * longest of all, if that is `agedAfterMs` or more. So what is ready is taken after at most `agedAfterMs` and then
 * `agedShare` takings for it and each that was there before it; and what is of high priority never loses more than
 * that share, which it would if aged elements were raised: a start brings 100,000 that age together. It needs no timer,
 * since the first of a lane is the oldest of it.
 */
export class ReadyLanes<E extends Laned> {
  readonly #ageing: Ageing
  /** Highest priority first; no lane is empty. */
  readonly #lanes: Lane<E>[] = []
  #size = 0
  /** Takings, while there was more than one lane, since it was the oldest one's turn. */
  #passedOver = 0

  constructor(ageing: Ageing) {
    this.#ageing = ageing
  }

  get size(): number {
    return this.#size
  }

  /** Each priority with how many elements it has, highest first. */
  *sizes(): Generator<readonly [priority: number, size: number]> {
    for (const { priority, elements } of this.#lanes) yield [priority, elements.size]
  }

  /** Puts an element, which stands in no lane, at the end of its priority's lane. `now` is monotonic ms. */
  push(element: E, now: number): void {
    element.lanedAt = now
    this.#laneOf(element.priority).elements.push(element)
    this.#size++
  }

  /** Takes the oldest element of the highest priority, or an aged one when it is its turn. */
  shift(now: number): E | undefined {
    const element = this.#agedInTurn(now) ?? this.#lanes[0]?.elements.first
    if (element !== undefined) this.remove(element)
    return element
  }

  /** Takes out an element that stands in the lane of its present priority. */
  remove(element: E): void {
    let at = 0
    let lane = this.#lanes[0]
    while (lane !== undefined && lane.priority !== element.priority) lane = this.#lanes[++at]
    if (lane === undefined) return
    lane.elements.remove(element)
    if (lane.elements.size === 0) this.#lanes.splice(at, 1)
    this.#size--
  }

  clear(): void {
    this.#lanes.length = 0
    this.#size = 0
  }

  #agedInTurn(now: number): E | undefined {
    if (this.#lanes.length < 2) return undefined
    if (++this.#passedOver < this.#ageing.agedShare) return undefined
    let oldest: E | undefined
    for (const { elements } of this.#lanes) {
      const { first } = elements
      if (first !== undefined && (oldest === undefined || first.lanedAt < oldest.lanedAt)) oldest = first
    }
    if (oldest === undefined || now - oldest.lanedAt < this.#ageing.agedAfterMs) return undefined
    this.#passedOver = 0
    return oldest
  }

  #laneOf(priority: number): Lane<E> {
    let at = 0
    let found = this.#lanes[0]
    while (found !== undefined && found.priority > priority) found = this.#lanes[++at]
    if (found?.priority === priority) return found
    const lane: Lane<E> = { priority, elements: new Chain() }
    this.#lanes.splice(at, 0, lane)
    return lane
  }
}
