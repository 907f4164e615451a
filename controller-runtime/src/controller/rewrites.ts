import type { ObjectKey } from '../api/object-key.ts'

export const rewritesDefaults = Object.freeze({
  /** Runs in a row. A reconciler that reaches its goal in steps needs fewer. */
  runs: 10,
  /** Objects whose runs are counted, those that were changed last. Most are changed once and then rest. */
  objects: 10_000,
})

/** The runs of one object that each began with what the one before had written. */
interface Chain {
  /** What the last one has written. */
  readonly version: string
  readonly runs: number
}

/** One run, with the versions of its own object. */
interface EndedRun {
  readonly key: ObjectKey
  /** Whether an update of the object has caused the run. */
  readonly isUpdate: boolean
  readonly before: string
  /** Undefined if the run has not written its own object. */
  readonly after: string | undefined
}

/** Notices a reconciler that changes its own object in every run, so that each run causes the next one without end. */
export class Rewrites {
  readonly #chains = new Map<ObjectKey, Chain>()
  #isTold = false

  /** Returns true for the run that makes a chain too long, once. */
  ended({ key, isUpdate, before, after }: EndedRun): boolean {
    // A write that changes nothing keeps the version.
    if (after === undefined || after === before) {
      this.#chains.delete(key)
      return false
    }
    const chain = this.#chains.get(key)
    const runs = isUpdate && chain?.version === before ? chain.runs + 1 : 1
    // At the end of the order.
    this.#chains.delete(key)
    this.#chains.set(key, { version: after, runs })
    const [oldest] = this.#chains.keys()
    if (oldest !== undefined && this.#chains.size > rewritesDefaults.objects) this.#chains.delete(oldest)
    if (this.#isTold || runs < rewritesDefaults.runs) return false
    this.#isTold = true
    return true
  }
}
