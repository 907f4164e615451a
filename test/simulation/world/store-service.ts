import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoreCore } from './store-core.ts'
import type { StoreLink } from './store-link.ts'
import type { SeededRandom } from './world.ts'

export const serviceDefaults = Object.freeze({ minMs: 0.1, maxMs: 2 })

/** Something that is wrong with the store for a while, for one server or all. */
interface Trouble {
  readonly node: string | undefined
  readonly amount: number
  readonly until: number
}

/** The way to the store: how long calls and changes take, when it serves nobody, and what gets lost. */
export class StoreService {
  readonly #scheduler: Scheduler
  readonly #random: SeededRandom
  readonly #node: WorldNode
  readonly #links = new Set<StoreLink>()
  readonly #core: StoreCore
  #slow: Trouble[] = []
  #losing: Trouble[] = []
  #lagging: Trouble[] = []
  #awayUntil = 0
  #fullUntil = 0
  #arrivesBy = 0

  constructor(parts: { scheduler: Scheduler; random: SeededRandom; node: WorldNode; core: StoreCore }) {
    this.#scheduler = parts.scheduler
    this.#random = parts.random
    this.#node = parts.node
    this.#core = parts.core
  }

  get links(): ReadonlySet<StoreLink> {
    return this.#links
  }

  attach(link: StoreLink): void {
    this.#links.add(link)
  }

  detach(link: StoreLink): void {
    this.#links.delete(link)
  }

  committed(): void {
    for (const link of this.#links) link.committed(this.#core.current)
  }

  /** Runs `then` at the store once a call of a server has arrived and the store serves. */
  arrive(from: WorldNode, then: () => void): void {
    this.#scheduler.schedule(this.#node, this.#delay(from), () => this.#whenServing(then))
  }

  /** Runs `then` in the server once a response has arrived. */
  leave(to: WorldNode, then: () => void): void {
    this.#scheduler.schedule(to, this.#delay(to), then)
  }

  later(ms: number, then: () => void): void {
    this.#scheduler.schedule(this.#node, ms, () => this.#whenServing(then))
  }

  watchDelay(to: WorldNode): number {
    const { now } = this.#scheduler
    const ms = this.#delay(to) + (amountOf(this.#lagging, to.name, now) ?? 0)
    this.#arrivesBy = Math.max(this.#arrivesBy, now + ms)
    return ms
  }

  /** When all changes so far have arrived at every server. */
  get arrivesBy(): number {
    return this.#arrivesBy
  }

  losesResponse({ name }: WorldNode): boolean {
    const probability = amountOf(this.#losing, name, this.#scheduler.now)
    return probability !== undefined && this.#random.chance(probability)
  }

  slowDown(node: string | undefined, maxMs: number, forMs: number): void {
    this.#slow.push({ node, amount: maxMs, until: this.#scheduler.now + forMs })
  }

  lose(node: string | undefined, probability: number, forMs: number): void {
    this.#losing.push({ node, amount: probability, until: this.#scheduler.now + forMs })
  }

  lag(node: string, byMs: number, forMs: number): void {
    this.#lagging.push({ node, amount: byMs, until: this.#scheduler.now + forMs })
  }

  changeLeader(forMs: number): void {
    this.#awayUntil = Math.max(this.#awayUntil, this.#scheduler.now + forMs)
  }

  fill(forMs: number): void {
    const until = this.#scheduler.now + forMs
    this.#fullUntil = Math.max(this.#fullUntil, until)
    this.#core.isFull = true
    this.#scheduler.schedule(this.#node, forMs, () => {
      if (this.#fullUntil <= this.#scheduler.now) this.#core.isFull = false
    })
  }

  heal(): void {
    this.#slow = []
    this.#losing = []
    this.#lagging = []
    this.#awayUntil = 0
    this.#fullUntil = 0
    this.#core.isFull = false
  }

  #delay({ name }: WorldNode): number {
    const { minMs, maxMs } = serviceDefaults
    const slowest = amountOf(this.#slow, name, this.#scheduler.now) ?? maxMs
    const share = this.#random.next()
    return minMs + share * share * (slowest - minMs)
  }

  #whenServing(then: () => void): void {
    const ms = this.#awayUntil - this.#scheduler.now
    if (ms <= 0) then()
    else
      this.#scheduler.schedule(this.#node, Math.min(ms, 50) + this.#random.next(), () =>
        this.#whenServing(then),
      )
  }
}

function amountOf(troubles: readonly Trouble[], node: string, now: number): number | undefined {
  let most: number | undefined
  for (const each of troubles)
    if (each.until > now && (each.node === undefined || each.node === node))
      most = Math.max(most ?? 0, each.amount)
  return most
}
