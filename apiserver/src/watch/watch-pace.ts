import { afterOtherTurns, FairQueue } from '../cache/index.ts'

export const paceDefaults = Object.freeze({
  /** Entries that all subscriptions together look at in one turn of the event loop: a few milliseconds. */
  entries: 4_096,
  /**
   * Bytes written to clients that cost as much as one entry: they are encoded, and the kernel copies them at once. So
   * 512 KiB in one turn, about a millisecond.
   */
  bytesOfEntry: 128,
})

/**
 * Shares the event loop between subscriptions that look for initial events or old changes, one caller after another.
 * A subscription goes on while entries are left, and otherwise waits for a later turn.
 */
export class WatchPace {
  readonly #waiting = new FairQueue<() => void>()
  #left: number = paceDefaults.entries
  #scheduled = false

  get isSpent(): boolean {
    return this.#left <= 0
  }

  spend(entries: number): void {
    this.#left -= entries
  }

  spendBytes(bytes: number): void {
    this.#left -= bytes / paceDefaults.bytesOfEntry
  }

  /** Calls back in a turn that has entries left, unless `cancel` comes first. */
  wait(caller: string, goOn: () => void): void {
    this.#waiting.push(caller, goOn)
    this.#schedule()
  }

  cancel(caller: string, goOn: () => void): void {
    this.#waiting.delete(caller, goOn)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    afterOtherTurns(() => this.#next())
  }

  #next(): void {
    this.#scheduled = false
    this.#left = paceDefaults.entries
    while (!this.isSpent) {
      const goOn = this.#waiting.shift()
      if (goOn === undefined) return
      goOn()
    }
    if (this.#waiting.size > 0) this.#schedule()
  }
}
