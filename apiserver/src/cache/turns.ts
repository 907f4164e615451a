import { ApiError } from '@setpoint/controller-runtime/api'
import type { Work } from './work.ts'

export const turnDefaults = Object.freeze({
  /**
   * Entries that all work together may handle between two turns of the event loop, give or take a stride: one to four
   * milliseconds as the processor's cache helps or not, so that who waits for a socket hardly notices.
   */
  entries: 4096,
  /** Pieces of work that take turns; each may hold as much memory as its kind has objects. Later ones wait for one to end. */
  atOnce: 8,
  /** Pieces of work that wait; one more is refused (429). */
  waiting: 1000,
})

/** Handles up to so many entries. Answers whether there is more to do. */
type Task = (entries: number) => boolean

/**
 * Lets the long work of many readers share the process with everything else that it does. Work that needs little is
 * done at once; the rest goes on by turns.
 *
 *     run ──little to do──▶ done
 *      └──▶ waiting ──▶ taking turns ──▶ done, or given up by its signal
 */
export class Turns {
  readonly #entries: number
  /** Entries that may still be handled in this turn of the event loop. */
  #left: number
  readonly #taking: Task[] = []
  readonly #waiting: Task[] = []
  #scheduled = false

  constructor(entries: number = turnDefaults.entries) {
    this.#entries = entries
    this.#left = entries
  }

  /**
   * @param signal gives the work up between two of its steps, and rejects with its reason
   * @throws ApiError 429 when too much is waiting; what the work throws.
   */
  run<T>(work: Work<T>, signal?: AbortSignal): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const task = (entries: number): boolean => {
        let handled = 0
        try {
          while (handled < entries) {
            signal?.throwIfAborted()
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
      if (this.#left > 0 && !task(this.#left)) return
      if (this.#waiting.length >= turnDefaults.waiting) {
        reject(new ApiError('TooManyRequests', 'too many long lists at once', { retryAfterSeconds: 1 }))
        return
      }
      this.#waiting.push(task)
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.#turn())
  }

  #turn(): void {
    this.#scheduled = false
    this.#left = this.#entries
    while (this.#left > 0) {
      const next = this.#taking.length < turnDefaults.atOnce ? this.#waiting.shift() : undefined
      if (next !== undefined) this.#taking.push(next)
      const task = this.#taking.shift()
      if (task === undefined) return
      if (task(this.#left)) this.#taking.push(task)
    }
    if (this.#taking.length > 0 || this.#waiting.length > 0) this.#schedule()
  }
}
