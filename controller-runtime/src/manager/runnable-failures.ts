import { errorMessage } from '../api/error-message.ts'
import type { RunnableObserver } from '../runnable.ts'

/** A runnable or schedule of a plugin that does not work at present. */
export interface RunnableFailure {
  /** `runnable <name>` or `schedule <name>` */
  readonly source: string
  /** What has failed, and the latest error. */
  readonly message: string
}

/** The runnables and schedules of one plugin that fail in this process: at most two entries for each. */
export class RunnableFailures {
  readonly #changed: () => void
  readonly #failures = new Map<RunnableObserver, RunnableFailure>()

  /** @param changed called after each change */
  constructor(changed: () => void) {
    this.#changed = changed
  }

  get all(): readonly RunnableFailure[] {
    return [...this.#failures.values()]
  }

  /** Returns an observer that keeps the latest error until the work succeeds. @param what what has failed */
  observe(source: string, what: string): RunnableObserver {
    const observer: RunnableObserver = {
      failed: error => {
        this.#failures.set(observer, { source, message: `${what}: ${errorMessage(error)}` })
        this.#changed()
      },
      recovered: () => {
        if (this.#failures.delete(observer)) this.#changed()
      },
    }
    return observer
  }
}
