import { FairQueue } from './fair-queue.ts'
import { type PlaceRequest, Places } from './places.ts'
import { type Work, type WorkOwner, workDefaults } from './work.ts'

export const turnDefaults = Object.freeze({
  /**
   * Entries that all work together may handle between two turns of the event loop, give or take a stride. That takes
   * one to four milliseconds, depending on the processor's cache.
   */
  entries: 4096,
  /** Pieces of work under way, in all and of one caller. Later ones wait. */
  atOnce: 16,
  atOncePerCaller: 4,
  /** Entries that the work under way may hold, in all and for one caller: some 100 bytes each. */
  held: 2_000_000,
  heldPerCaller: 1_000_000,
  /** Pieces of work that wait, in all and of one caller. One more is refused with 429. */
  waiting: 1_000,
  waitingPerCaller: 500,
})

/** A piece of work that could not be completed at once. */
interface Task extends PlaceRequest {
  /** Handles up to so many entries. Returns whether there is more to do. */
  step(entries: number): boolean
}

/**
 * Shares the process between long work and everything else, and between the callers of long work. Work that needs
 * little is done at once while the turn has entries left; the rest goes on by turns, one caller after another.
 *
 *     run ──little to do──▶ done
 *      └──▶ waiting for a place ──▶ taking turns ──▶ done, or aborted by its signal
 */
export class Turns {
  readonly #entries: number
  /** Entries that may still be handled in this turn of the event loop. */
  #left: number
  readonly #places = new Places('long lists', {
    holders: turnDefaults.atOnce,
    holdersPerCaller: turnDefaults.atOncePerCaller,
    weight: turnDefaults.held,
    weightPerCaller: turnDefaults.heldPerCaller,
    waiting: turnDefaults.waiting,
    waitingPerCaller: turnDefaults.waitingPerCaller,
  })
  readonly #taking = new FairQueue<Task>()
  #scheduled = false

  constructor(entries: number = turnDefaults.entries) {
    this.#entries = entries
    this.#left = entries
  }

  /** Pieces of work under way or waiting. */
  get size(): number {
    return this.#taking.size + this.#places.waiting
  }

  /**
   * Does the work.
   * @param held entries that the work may hold at a time
   * @throws ApiError 429 when too much waits; the reason of the owner's signal; what the work throws.
   */
  run<T>(work: Work<T>, held: number, owner: WorkOwner): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const step = (entries: number): boolean => {
        let handled = 0
        try {
          while (handled < entries) {
            const { done, value } = work.next()
            if (done) {
              resolve(value)
              return false
            }
            handled += value
          }
          return true
        } catch (error) {
          reject(error)
          return false
        } finally {
          this.#left -= handled
        }
      }
      if (this.#left > 0 && !step(this.#left)) return
      const { caller, signal } = owner
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const task: Task = {
        caller,
        weight: held,
        step: entries => {
          if (step(entries)) return true
          signal?.removeEventListener('abort', abort)
          return false
        },
        admitted: () => {
          this.#taking.push(caller, task)
          this.#schedule()
        },
      }
      const abort = () => {
        this.#places.withdraw(task)
        if (this.#taking.delete(caller, task)) this.#places.release(task)
        reject(signal?.reason)
      }
      try {
        this.#places.request(task)
        signal?.addEventListener('abort', abort, { once: true })
      } catch (error) {
        reject(error)
      }
    })
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#turn())
  }

  #turn(): void {
    this.#left = this.#entries
    while (this.#left > 0) {
      const task = this.#taking.shift()
      if (task === undefined) break
      if (task.step(Math.min(this.#left, workDefaults.stride))) this.#taking.push(task.caller, task)
      else this.#places.release(task)
    }
    this.#scheduled = false
    if (this.#taking.size > 0) this.#schedule()
  }
}
