import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { changedBeyondStatus, type UpdatePredicate } from './predicates.ts'
import type { Finalize, Reconcile, ReconcileContext } from './reconcile.ts'

export const controllerDefaults = Object.freeze({
  /** Objects reconciled at once. Reconciles mostly wait for others' answers, so that several cost no more than one. */
  concurrency: 10,
  /** After which a run's signal is aborted and its worker freed: twice the patience of most HTTP clients. */
  timeoutMs: 60_000,
  /** How long a run waits for the cache to show the controller's own last write. As controller-runtime has it. */
  staleCacheTimeoutMs: 5_000,
  /** After which a run that gave up that wait is tried again. */
  staleCacheRequeueMs: 1_000,
  /** Attempts to take the finalizer away after a clean-up, each after reading again, before the clean-up counts as failed. */
  finalizerAttempts: 5,
  /** How long runs that outlived the drain get to heed the abort of their signals. */
  abortGraceMs: 1_000,
})

/** What a controller does, as `ControllerBuilder` puts it together. */
export interface ControllerDefinition<T extends ApiObject = ApiObject> {
  readonly model: Model<T>
  readonly name: string | undefined
  readonly concurrency: number
  readonly timeoutMs: number
  /** The name of the finalizer that the controller keeps on every object, where it has one. */
  readonly finalizer: string | undefined
  // Methods on purpose: a controller of a specific model is usable where any controller is expected.
  reconcile(object: T, context: ReconcileContext): ReturnType<Reconcile<ApiObject>>
  finalize(object: T, context: ReconcileContext): ReturnType<Finalize<ApiObject>>
  passes(before: T, after: T): boolean
}

/** Collects what a controller does; each call answers the builder. */
export class ControllerBuilder<T extends ApiObject = ApiObject> {
  readonly #model: Model<T>
  #name: string | undefined
  #reconcile: Reconcile<T> | undefined
  #finalizer: string | undefined
  #finalize: Finalize<T> | undefined
  #passes: UpdatePredicate<T> = changedBeyondStatus
  #concurrency: number = controllerDefaults.concurrency
  #timeoutMs: number = controllerDefaults.timeoutMs

  constructor(model: Model<T>) {
    this.#model = model
  }

  /** What to do for an object that is there. With `finalize` declared it is not called for deleting objects. */
  reconcile(reconcile: Reconcile<T>): this {
    this.#reconcile = callable('reconcile', reconcile)
    return this
  }

  /**
   * What to do before an object goes. `finalizer` is of the form `<domain>/<name>` and belongs to this controller
   * alone: it is stored before the first reconcile of an object, and taken away once `finalize` has succeeded.
   */
  finalize(finalizer: string, finalize: Finalize<T>): this {
    if (typeof finalizer !== 'string' || !/^[^/\s]+\/[^/\s]+$/.test(finalizer) || finalizer.length > 253) {
      throw new TypeError(
        `finalizer ${JSON.stringify(finalizer)} must be of the form <domain>/<name>, at most 253 characters`,
      )
    }
    this.#finalizer = finalizer
    this.#finalize = callable('finalize', finalize)
    return this
  }

  /** Which updates wake the controller; by default all but those of the status alone (`changedBeyondStatus`). */
  filterUpdates(predicate: UpdatePredicate<T>): this {
    this.#passes = callable('filterUpdates', predicate)
    return this
  }

  /** Objects reconciled at once; an integer from 1. One object is never reconciled twice at once. */
  concurrency(count: number): this {
    if (!Number.isSafeInteger(count) || count < 1) {
      throw new TypeError(`concurrency must be an integer from 1, is ${count}`)
    }
    this.#concurrency = count
    return this
  }

  /**
   * How long one run may take, in ms (Infinity: any time). Then its signal is aborted, the run counts as failed and
   * others get its place. The object itself stays locked until the run really settles.
   */
  timeoutMs(ms: number): this {
    if (typeof ms !== 'number' || !(ms > 0)) throw new TypeError(`timeoutMs must be above 0, is ${ms}`)
    this.#timeoutMs = ms
    return this
  }

  /** The controller's name in logs and metrics; by default the model's plural and group. */
  named(name: string): this {
    if (typeof name !== 'string' || name === '')
      throw new TypeError('the name of a controller must not be empty')
    this.#name = name
    return this
  }

  /** @throws TypeError when there is nothing to do. */
  build(): ControllerDefinition<T> {
    const reconcile = this.#reconcile
    const finalize = this.#finalize
    if (reconcile === undefined && finalize === undefined) {
      throw new TypeError(`the controller of ${this.#model.plural} has neither reconcile nor finalize`)
    }
    const passes = this.#passes
    return Object.freeze({
      model: this.#model,
      name: this.#name,
      concurrency: this.#concurrency,
      timeoutMs: this.#timeoutMs,
      finalizer: this.#finalizer,
      reconcile: (object: T, context: ReconcileContext) => reconcile?.(object, context),
      finalize: (object: T, context: ReconcileContext) => finalize?.(object, context),
      passes: (before: T, after: T) => passes(before, after),
    })
  }
}

function callable<F>(what: string, value: F): F {
  if (typeof value !== 'function') throw new TypeError(`${what} must be given a function`)
  return value
}
