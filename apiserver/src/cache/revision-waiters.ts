import type { Revision } from '@setpoint/controller-runtime/api'

interface Waiter {
  readonly revision: Revision
  readonly resolve: () => void
}

/** Callers that wait until the caches have reached a revision. */
export class RevisionWaiters {
  #waiters: Waiter[] = []

  /** Resolves when `release` is called with this revision or a later one. @throws the signal's reason when aborted */
  wait(revision: Revision, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const waiter: Waiter = {
        revision,
        resolve: () => {
          signal.removeEventListener('abort', abandon)
          resolve()
        },
      }
      const abandon = () => {
        this.#waiters = this.#waiters.filter(other => other !== waiter)
        reject(signal.reason)
      }
      signal.addEventListener('abort', abandon, { once: true })
      this.#waiters.push(waiter)
    })
  }

  release(revision: Revision): void {
    if (this.#waiters.length === 0) return
    const reached = this.#waiters.filter(waiter => waiter.revision <= revision)
    if (reached.length === 0) return
    this.#waiters = this.#waiters.filter(waiter => waiter.revision > revision)
    for (const waiter of reached) waiter.resolve()
  }
}
