import { FairQueue } from './fair-queue.ts'
import { workDefaults } from './work.ts'

export const workTurnsDefaults = Object.freeze({
  /**
   * Entries that all work together may handle in one turn of the event loop, give or take a step. That takes one to
   * four milliseconds, depending on the processor's cache. After three quarters of them, the turns of
   * `workDefaults.turns` come first.
   */
  entries: 4_096,
})

/**
 * Work that is counted in entries, so many in a turn of the event loop. Work goes on while the turn has entries left.
 * The rest waits for a later turn, where callers take turns. The waiting have no bound of their own: each belongs to a
 * list or a watch, and these are bounded.
 */
export class WorkTurns {
  readonly #entries: number
  readonly #waiting = new FairQueue<() => void>()
  #left: number
  #isScheduled = false

  constructor(entries: number = workTurnsDefaults.entries) {
    this.#entries = entries
    this.#left = entries
  }

  /** The number of those that wait. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** Entries left in this turn: at most 0 once they are spent. */
  get left(): number {
    return this.#left
  }

  get isSpent(): boolean {
    return this.#left <= 0
  }

  spend(entries: number): void {
    this.#left -= entries
    this.#schedule(this.#renew, 1)
  }

  /** Calls back in a turn that has entries left, unless `cancel` comes first. */
  wait(caller: string, goOn: () => void): void {
    this.#waiting.push(caller, goOn)
    this.#schedule()
  }

  /** Returns false if it does not wait. */
  cancel(caller: string, goOn: () => void): boolean {
    return this.#waiting.delete(caller, goOn)
  }

  #schedule(then: () => void = this.#next, turns: number = workDefaults.turns): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    afterTurns(then, turns)
  }

  /** Gives the next turn all entries again if this one has left a quarter. Otherwise leaves turns to others first. */
  readonly #renew = () => {
    this.#isScheduled = false
    if (this.#waiting.size === 0 && this.#left > this.#entries / 4) this.#left = this.#entries
    else this.#schedule()
  }

  readonly #next = () => {
    this.#left = this.#entries
    while (!this.isSpent) {
      const goOn = this.#waiting.shift()
      if (goOn === undefined) break
      goOn()
    }
    this.#isScheduled = false
    if (this.#waiting.size > 0) this.#schedule()
  }
}

function afterTurns(callback: () => void, turns: number): void {
  setImmediate(() => {
    if (turns > 1) afterTurns(callback, turns - 1)
    else callback()
  })
}
