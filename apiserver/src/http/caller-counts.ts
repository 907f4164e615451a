import { type Clock, systemClock } from '@setpoint/controller-runtime'
import { anonymousUser } from '../security/index.ts'

export const callerCountDefaults = Object.freeze({
  /** Callers that are counted one by one in a window: some 100 bytes each. Further ones are counted together. */
  callers: 1_000,
  /** Milliseconds of a window. */
  windowMs: 60_000,
  /** Callers that are shown. */
  shown: 100,
})

/** The requests of a caller. */
export interface CallerTally {
  requests: number
  /** Those that got 429. */
  refused: number
  /** Milliseconds until their responses were ready, and of these, waiting for a turn. */
  ms: number
  queueMs: number
}

interface Window {
  readonly since: number
  readonly tallies: Map<string | undefined, CallerTally>
}

/** Counts the requests of the last minute or two by caller. */
export class CallerCounts {
  readonly #clock: Clock
  #previous: Window
  #current: Window

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
    this.#current = this.#open()
    this.#previous = this.#current
  }

  /** @param payer see `payerOf`; undefined for a caller that was not authenticated */
  count(
    payer: string = anonymousUser.name,
    {
      ms,
      queueMs,
      code,
    }: { readonly ms: number; readonly queueMs: number; readonly code: number | undefined },
  ): void {
    this.#turnOver()
    const { tallies } = this.#current
    const key = tallies.has(payer) || tallies.size < callerCountDefaults.callers ? payer : undefined
    const tally = tallies.get(key) ?? noRequests()
    tallies.set(key, tally)
    tally.requests++
    if (code === 429) tally.refused++
    tally.ms += ms
    tally.queueMs += queueMs
  }

  /** Returns the callers whose requests took longest, over how many seconds, and the sum of all others. */
  largest(): {
    readonly seconds: number
    readonly callers: readonly ({ readonly caller: string } & CallerTally)[]
    readonly others: CallerTally
  } {
    this.#turnOver()
    const sums = new Map<string | undefined, CallerTally>()
    for (const { tallies } of new Set([this.#previous, this.#current]))
      for (const [caller, tally] of tallies) sums.set(caller, added(sums.get(caller), tally))
    const all = Array.from(sums, ([caller, tally]) => ({ caller, ...tally })).sort((a, b) => b.ms - a.ms)
    const callers: ({ caller: string } & CallerTally)[] = []
    let others = noRequests()
    for (const { caller, ...tally } of all) {
      if (caller !== undefined && callers.length < callerCountDefaults.shown)
        callers.push({ caller, ...tally })
      else others = added(others, tally)
    }
    return { seconds: (this.#clock.monotonic() - this.#previous.since) / 1000, callers, others }
  }

  /** Opens a new window if the current one is over. */
  #turnOver(): void {
    const { windowMs } = callerCountDefaults
    const age = this.#clock.monotonic() - this.#current.since
    if (age < windowMs) return
    const opened = this.#open()
    this.#previous = age < 2 * windowMs ? this.#current : opened
    this.#current = opened
  }

  #open(): Window {
    return { since: this.#clock.monotonic(), tallies: new Map() }
  }
}

function noRequests(): CallerTally {
  return { requests: 0, refused: 0, ms: 0, queueMs: 0 }
}

function added(sum = noRequests(), { requests, refused, ms, queueMs }: CallerTally): CallerTally {
  return {
    requests: sum.requests + requests,
    refused: sum.refused + refused,
    ms: sum.ms + ms,
    queueMs: sum.queueMs + queueMs,
  }
}
