import { type Clock, sleep } from '@setpoint/controller-runtime'
import type { ObjectKey } from '@setpoint/controller-runtime/api'
import type { ServedModel } from '../model/index.ts'
import { ObjectTurns, type Turn } from './object-turns.ts'
import { outpaced } from './refusals.ts'
import type { WriteOptions } from './write-options.ts'

export const attemptDefaults = Object.freeze({
  /** Milliseconds for the attempts at one write, as in Kubernetes. */
  writeMs: 34_000,
  /** Upper bounds of the first and of the longest random pause, in milliseconds: some transactions of etcd. */
  pauseMs: 5,
  longestPauseMs: 50,
  /** Milliseconds for which the turns at an object follow each other without a pause. */
  streakMs: 100,
  /** Writes that wait for their turn: as many as requests of one class may wait. One more is refused with 429. */
  waiting: 10_000,
})

/** What the writes of one server share. */
export class Contention {
  readonly clock: Clock
  /** By the store's key of the object. */
  readonly turns = new ObjectTurns()
  /** Returns a number from 0 to 1. */
  readonly random: () => number

  constructor(clock: Clock, random: () => number = Math.random) {
    this.clock = clock
    this.random = random
  }

  /** Begins the attempts at a write. Their time starts now. */
  begin(served: ServedModel, key: ObjectKey, options: Pick<WriteOptions, 'whenGone'>): WriteAttempts {
    return new WriteAttempts(this, served, key, options)
  }
}

/**
 * The attempts at one write. A lost comparison means that another write came first, so the write is attempted again
 * until its time ends:
 *
 *     begun ──▶ attempts ──lost──▶ takes a turn ──▶ attempts ──lost──▶ pauses ──▶ attempts ...
 *       └──────the turn is held────────▶┘
 *
 *     Each wait ends with 429 when the time is over, and with the reason of the caller's signal when the caller has left.
 *
 * The writes of one server take turns at a contended object, in order, so they do not make each other lose. Other
 * servers do not take part. One that is farther from the store would lose again and again to turns that follow each
 * other at once, so there is a pause after a streak of them.
 */
export class WriteAttempts {
  readonly #contention: Contention
  readonly #served: ServedModel
  readonly #key: ObjectKey
  readonly #whenGone: WriteOptions['whenGone']
  readonly #endsAt: number
  #pauses = 0
  #turn: Turn | undefined

  constructor(
    contention: Contention,
    served: ServedModel,
    key: ObjectKey,
    { whenGone }: Pick<WriteOptions, 'whenGone'>,
  ) {
    this.#contention = contention
    this.#served = served
    this.#key = key
    this.#whenGone = whenGone
    this.#endsAt = contention.clock.monotonic() + attemptDefaults.writeMs
  }

  /** Returns true if writes of this server take turns at the object. */
  get isContended(): boolean {
    return this.#contention.turns.isHeld(this.#storeKey)
  }

  /**
   * Waits until the write may be attempted again: takes a turn the first time, and then pauses.
   * @throws ApiError 429; the reason of the caller's signal
   */
  async again(): Promise<void> {
    if (this.#turn === undefined) await this.#takeTurn()
    else await this.pause()
  }

  /** Waits for a random time, which grows from one call to the next. @throws as `again` */
  async pause(): Promise<void> {
    const { pauseMs, longestPauseMs } = attemptDefaults
    await this.#sleep(Math.min(longestPauseMs, pauseMs * 2 ** this.#pauses))
    this.#pauses++
  }

  /** Passes the turn on, if the write has it. */
  end(): void {
    if (this.#turn !== undefined) this.#contention.turns.pass(this.#storeKey)
    this.#turn = undefined
  }

  async #takeTurn(): Promise<void> {
    const { clock, turns } = this.#contention
    if (this.isContended && turns.waiting >= attemptDefaults.waiting) throw this.#outpaced()
    const turn = await this.#inTime(signal => turns.take(this.#storeKey, clock.monotonic(), signal))
    this.#turn = turn
    if (clock.monotonic() - turn.since < attemptDefaults.streakMs) return
    await this.#sleep(attemptDefaults.longestPauseMs)
    turn.since = clock.monotonic()
  }

  /** Sleeps for a random time. */
  #sleep(longestMs: number): Promise<void> {
    const { clock, random } = this.#contention
    return this.#inTime(signal => sleep(clock, random() * longestMs, signal))
  }

  async #inTime<T>(wait: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { clock } = this.#contention
    const leftMs = this.#endsAt - clock.monotonic()
    if (leftMs <= 0) throw this.#outpaced()
    const gone = this.#whenGone?.()
    gone?.throwIfAborted()
    const ended = new AbortController()
    const leave = () => ended.abort(gone?.reason)
    gone?.addEventListener('abort', leave)
    const cancel = clock.setTimeout(() => ended.abort(this.#outpaced()), leftMs, { unref: true })
    try {
      return await wait(ended.signal)
    } finally {
      cancel()
      gone?.removeEventListener('abort', leave)
    }
  }

  get #storeKey(): string {
    return this.#served.keyOf(this.#key)
  }

  #outpaced() {
    return outpaced(this.#served, this.#key)
  }
}
