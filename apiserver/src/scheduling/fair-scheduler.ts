import { Semaphore, type SemaphoreRequest } from './semaphore.ts'
import { type Work, type WorkOwner, workDefaults } from './work.ts'
import { WorkTurns, workTurnsDefaults } from './work-turns.ts'

export const fairSchedulerDefaults = Object.freeze({
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

/**
 * Shares the process between long work and everything else, and between the callers of long work. Work that needs
 * little is done at once while the turn of the event loop has entries left. The rest goes on in later turns, callers
 * round-robin.
 *
 *     run ──little to do──▶ done
 *      └──▶ waiting for the semaphore ──▶ running ──▶ done, or aborted by its signal
 */
export class FairScheduler {
  readonly #turns: WorkTurns
  readonly #semaphore = new Semaphore('long lists', {
    holders: fairSchedulerDefaults.atOnce,
    holdersPerCaller: fairSchedulerDefaults.atOncePerCaller,
    weight: fairSchedulerDefaults.held,
    weightPerCaller: fairSchedulerDefaults.heldPerCaller,
    waiting: fairSchedulerDefaults.waiting,
    waitingPerCaller: fairSchedulerDefaults.waitingPerCaller,
  })

  /** @param entries handled in one turn of the event loop */
  constructor(entries: number = workTurnsDefaults.entries) {
    this.#turns = new WorkTurns(entries)
  }

  /** Pieces of work under way or waiting. */
  get size(): number {
    return this.#turns.waiting + this.#semaphore.waiting
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
          this.#turns.spend(handled)
        }
      }
      if (!this.#turns.isSpent && !step(this.#turns.left)) return
      const { caller, signal } = owner
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const goOn = () => {
        if (step(Math.min(this.#turns.left, workDefaults.stride))) {
          this.#turns.wait(caller, goOn)
          return
        }
        signal?.removeEventListener('abort', abort)
        this.#semaphore.release(request)
      }
      const request: SemaphoreRequest = {
        caller,
        weight: held,
        admitted: () => this.#turns.wait(caller, goOn),
      }
      const abort = () => {
        this.#semaphore.withdraw(request)
        if (this.#turns.cancel(caller, goOn)) this.#semaphore.release(request)
        reject(signal?.reason)
      }
      try {
        this.#semaphore.request(request)
        signal?.addEventListener('abort', abort, { once: true })
      } catch (error) {
        reject(error)
      }
    })
  }
}
