import { FairQueue } from './fair-queue.ts'
import { Semaphore, type SemaphoreRequest } from './semaphore.ts'
import { afterOtherTurns, type Work, type WorkOwner, workDefaults } from './work.ts'

export const fairSchedulerDefaults = Object.freeze({
  /**
   * Entries that all work together may handle in one turn of the event loop, give or take a stride. That takes one to four
   * milliseconds, depending on the processor's cache. After three quarters of them, the turns of `workDefaults.turns` come first.
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
interface Task extends SemaphoreRequest {
  /** Handles up to so many entries. Returns whether there is more to do. */
  step(entries: number): boolean
}

/**
 * Shares the process between long work and everything else, and between the callers of long work. Work that needs
 * little is done at once while the turn of the event loop has entries left. The rest goes on in later turns, callers
 * round-robin.
 *
 *     run ──little to do──▶ done
 *      └──▶ waiting for the semaphore ──▶ running ──▶ done, or aborted by its signal
 */
export class FairScheduler {
  readonly #entries: number
  /** Entries that may still be handled in this turn of the event loop. */
  #left: number
  readonly #semaphore = new Semaphore('long lists', {
    holders: fairSchedulerDefaults.atOnce,
    holdersPerCaller: fairSchedulerDefaults.atOncePerCaller,
    weight: fairSchedulerDefaults.held,
    weightPerCaller: fairSchedulerDefaults.heldPerCaller,
    waiting: fairSchedulerDefaults.waiting,
    waitingPerCaller: fairSchedulerDefaults.waitingPerCaller,
  })
  readonly #running = new FairQueue<Task>()
  #scheduled = false

  constructor(entries: number = fairSchedulerDefaults.entries) {
    this.#entries = entries
    this.#left = entries
  }

  /** Pieces of work under way or waiting. */
  get size(): number {
    return this.#running.size + this.#semaphore.waiting
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
      if (this.#left > 0) {
        this.#schedule(() => this.#renew(), 1)
        if (!step(this.#left)) return
      }
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
          this.#running.push(caller, task)
          this.#schedule()
        },
      }
      const abort = () => {
        this.#semaphore.withdraw(task)
        if (this.#running.delete(caller, task)) this.#semaphore.release(task)
        reject(signal?.reason)
      }
      try {
        this.#semaphore.request(task)
        signal?.addEventListener('abort', abort, { once: true })
      } catch (error) {
        reject(error)
      }
    })
  }

  #schedule(then = () => this.#turn(), turns: number = workDefaults.turns): void {
    if (this.#scheduled) return
    this.#scheduled = true
    afterOtherTurns(then, turns)
  }

  /** Gives the next turn all entries again if this one has left a quarter. Otherwise leaves turns to others first. */
  #renew(): void {
    this.#scheduled = false
    if (this.#running.size === 0 && this.#left > this.#entries / 4) this.#left = this.#entries
    else this.#schedule()
  }

  #turn(): void {
    this.#left = this.#entries
    while (this.#left > 0) {
      const task = this.#running.shift()
      if (task === undefined) break
      if (task.step(Math.min(this.#left, workDefaults.stride))) this.#running.push(task.caller, task)
      else this.#semaphore.release(task)
    }
    this.#scheduled = false
    if (this.#running.size > 0) this.#schedule()
  }
}
