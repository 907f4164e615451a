import type { DeepReadonly } from '../api/deep-readonly.ts'
import { shownNumber } from '../api/echo.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { InformerSelection } from '../cache/informer-pool.ts'
import { TokenBucket } from '../workqueue/token-bucket.ts'
import {
  type ControllerInput,
  type InputOptions,
  inputKeys,
  type MapToNames,
  mappedInput,
  type OwnsOptions,
  ownedInput,
  ownsKeys,
  readingInput,
  selectionKeys,
} from './inputs.ts'
import { compileSelectors } from './object-selection.ts'
import { changedBeyondStatus, type Filter, toPredicate, type UpdatePredicate } from './predicates.ts'
import type { Finalize, Reconcile, ReconcileContext } from './reconcile.ts'
import { runSource, type Source, type SourceRunOptions } from './source.ts'

export const controllerDefaults = Object.freeze({
  /** Objects reconciled concurrently. Most reconcilers wait for I/O, so several cost no more than one. */
  concurrency: 10,
  /** Timeout of a run in ms: its signal is aborted and its worker freed. Twice the timeout of most HTTP clients. */
  timeoutMs: 60_000,
  /** How long a run waits for the cache to show the controller's own last write. As in controller-runtime. */
  staleCacheTimeoutMs: 5_000,
  /** Delay before a run whose cache was stale is retried. */
  staleCacheRequeueMs: 1_000,
  /** Delay before a run is retried that the leadership guard refused. Most such processes exit earlier. */
  notLeaderRequeueMs: 1_000,
  /** Warns if the caches have not synced after this long. A kind that is not served is awaited indefinitely. */
  syncWarningMs: 30_000,
  /** Attempts to remove the finalizer after a clean-up, before the clean-up counts as failed. */
  finalizerAttempts: 5,
  /** Time for runs that outlive the drain to react to the abort. */
  abortGraceMs: 1_000,
})

/** How failed runs are retried. */
export interface RetryOptions {
  /**
   * Most consecutive failures. Then the object is not retried until it changes. An integer from 1; default: unlimited.
   * It does not apply to `finalize`, since the object could never be removed.
   */
  readonly maxAttempts?: number
  /**
   * Delay after the first failure in ms; each further failure doubles it. Default `workQueueDefaults.backoffBaseMs`.
   */
  readonly backoffBaseMs?: number
  /** Longest delay in ms. Default `workQueueDefaults.backoffMaxMs`. */
  readonly backoffMaxMs?: number
  /** Retries per second over all objects, after a burst. Default: unlimited. */
  readonly rate?: { readonly perSecond: number; readonly burst: number }
}

const retryKeys: KeysOf<RetryOptions> = {
  maxAttempts: true,
  backoffBaseMs: true,
  backoffMaxMs: true,
  rate: true,
}
const rateKeys: KeysOf<RetryOptions['rate'] & object> = { perSecond: true, burst: true }

/** What a controller does; the result of a `ControllerBuilder`. */
export interface ControllerDefinition<T extends ApiObject = ApiObject> {
  readonly model: Model<T>
  readonly name: string | undefined
  readonly concurrency: number
  readonly timeoutMs: number
  /** The finalizer that the controller keeps on every object, if any. */
  readonly finalizer: string | undefined
  /** The other kinds that it reads. */
  readonly inputs: readonly ControllerInput[]
  readonly retry: RetryOptions
  // Methods for bivariance: a controller of a specific model is usable as a controller of any model.
  reconcile(object: DeepReadonly<T>, context: ReconcileContext): ReturnType<Reconcile<ApiObject>>
  finalize(object: DeepReadonly<T>, context: ReconcileContext): ReturnType<Finalize<ApiObject>>
  passesAdd(object: DeepReadonly<T>): boolean
  passesUpdate(before: DeepReadonly<T>, after: DeepReadonly<T>): boolean
  /** Follows every source until the signal is aborted. */
  followSources(options: SourceRunOptions<T>, signal: AbortSignal): void
}

/** Builds a `ControllerDefinition`; each method returns the builder. */
export class ControllerBuilder<T extends ApiObject = ApiObject> {
  readonly #model: Model<T>
  #name: string | undefined
  #reconcile: Reconcile<T> | undefined
  #finalizer: string | undefined
  #finalize: Finalize<T> | undefined
  #filter: Filter<T> = changedBeyondStatus
  #retry: RetryOptions = {}
  readonly #inputs: ControllerInput[] = []
  readonly #sources: Source<T>[] = []
  #concurrency: number = controllerDefaults.concurrency
  #timeoutMs: number = controllerDefaults.timeoutMs

  constructor(model: Model<T>) {
    this.#model = model
  }

  /** Sets the function that reconciles an object. With `finalize`, it is not called for deleting objects. */
  reconcile(reconcile: Reconcile<T>): this {
    this.#reconcile = callable('reconcile', reconcile)
    return this
  }

  /**
   * Sets the function that runs before an object is removed. `finalizer` has the form `<domain>/<name>` and must be
   * unique to this controller. It is added before the first reconcile and removed once `finalize` has succeeded.
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

  /**
   * Filters the events of the controller's own objects. Default: all except updates of only the status
   * (`changedBeyondStatus`). The start of a deletion and the deletion itself always pass. See `and`, `or`, `not`,
   * `matchingLabels`, `generationChanged` and others.
   */
  filter(filter: Filter<T>): this {
    if (typeof filter !== 'function' && (typeof filter !== 'object' || filter === null)) {
      throw new TypeError('filter must be given a predicate or a function of two states')
    }
    this.#filter = filter
    return this
  }

  /** Same as `filter` with a function. */
  filterUpdates(predicate: UpdatePredicate<T>): this {
    return this.filter(callable('filterUpdates', predicate))
  }

  /**
   * Reconciles the owner when a dependent is added, changes or is deleted. By default the owner is the controller
   * reference (`controller: true`), matched by group and kind. If the reference changes, both owners are reconciled.
   * `context.lister` reads the dependents.
   * @throws SelectorError if a selector is invalid; TypeError for an unknown option.
   */
  owns<D extends ApiObject>(model: Model<D>, options: OwnsOptions<D> = {}): this {
    refuseUnknownKeys(options, ownsKeys, `owns of ${model.kind}`)
    compileSelectors(model, options)
    this.#inputs.push(ownedInput(this.#model, model, options))
    return this
  }

  /**
   * Reconciles the objects whose names `map` returns for an object of another kind that is added, changes or is
   * deleted. For an update, both states are mapped; an update of only the status counts if the option `filter` asks for
   * it, for example with `anyChange`. If `map` throws or rejects, the error is logged. `context.lister` reads other
   * objects.
   * @throws SelectorError if a selector is invalid; TypeError for an unknown option.
   */
  watches<D extends ApiObject>(model: Model<D>, map: MapToNames<D>, options: InputOptions<D> = {}): this {
    refuseUnknownKeys(options, inputKeys, `watches of ${model.kind}`)
    compileSelectors(model, options)
    const { filter = changedBeyondStatus } = options
    this.#inputs.push(mappedInput(this.#model, model, callable('watches', map), { ...options, filter }))
    return this
  }

  /**
   * Makes a kind readable by `context.lister`. Its events trigger no reconcile.
   * @throws SelectorError if a selector is invalid; TypeError for an unknown option.
   */
  reads<D extends ApiObject>(model: Model<D>, selection: InformerSelection<D> = {}): this {
    refuseUnknownKeys(selection, selectionKeys, `reads of ${model.kind}`)
    compileSelectors(model, selection)
    this.#inputs.push(readingInput(model, selection))
    return this
  }

  /**
   * Reconciles the objects whose names a source yields while the controller runs: see `Source`, and `every` for a
   * timer. Names of missing objects are ignored.
   */
  source(source: Source<T>): this {
    const given: unknown = source
    const iterable = typeof given === 'object' && given !== null && Symbol.asyncIterator in given
    if (typeof given !== 'function' && !iterable) {
      throw new TypeError('source must be given an async iterable, or a function that returns one')
    }
    this.#sources.push(source)
    return this
  }

  /** Sets how failures are retried. Default: without limit, after 5 ms that double up to 1000 s. */
  retry(options: RetryOptions): this {
    refuseUnknownKeys(options, retryKeys, 'retry')
    if (options.rate !== undefined) refuseUnknownKeys(options.rate, rateKeys, 'rate of retry')
    const { maxAttempts, backoffBaseMs, backoffMaxMs } = options
    if (maxAttempts !== undefined && (!Number.isSafeInteger(maxAttempts) || maxAttempts < 1)) {
      throw new TypeError(`maxAttempts must be an integer from 1, is ${shownNumber(maxAttempts)}`)
    }
    for (const [name, ms] of Object.entries({ backoffBaseMs, backoffMaxMs })) {
      if (ms !== undefined && !isAboveZero(ms))
        throw new TypeError(`${name} must be a number above 0, is ${shownNumber(ms)}`)
    }
    // Throws here rather than in the controller if the rate is invalid.
    if (options.rate !== undefined) new TokenBucket(options.rate.perSecond, options.rate.burst)
    this.#retry = options
    return this
  }

  /**
   * Sets how many objects are reconciled concurrently; an integer from 1. One object is never reconciled twice at once.
   */
  concurrency(count: number): this {
    if (!Number.isSafeInteger(count) || count < 1) {
      throw new TypeError(`concurrency must be an integer from 1, is ${count}`)
    }
    this.#concurrency = count
    return this
  }

  /**
   * Sets the timeout of a run in ms; Infinity for none. On timeout its signal is aborted, the run counts as failed, and
   * its worker is freed. The object stays locked until the run settles.
   */
  timeoutMs(ms: number): this {
    if (!isAboveZero(ms)) throw new TypeError(`timeoutMs must be a number above 0, is ${shownNumber(ms)}`)
    this.#timeoutMs = ms
    return this
  }

  /** Sets the controller's name in logs and metrics. Default: the model's plural and group. */
  named(name: string): this {
    if (typeof name !== 'string' || name === '') throw new TypeError('the controller name must not be empty')
    this.#name = name
    return this
  }

  /** @throws TypeError if there is neither reconcile nor finalize. */
  build(): ControllerDefinition<T> {
    const reconcile = this.#reconcile
    const finalize = this.#finalize
    if (reconcile === undefined && finalize === undefined) {
      throw new TypeError(`the controller of ${this.#model.plural} has neither reconcile nor finalize`)
    }
    const filter = toPredicate(this.#filter)
    const sources = Object.freeze([...this.#sources])
    return Object.freeze({
      model: this.#model,
      name: this.#name,
      concurrency: this.#concurrency,
      timeoutMs: this.#timeoutMs,
      finalizer: this.#finalizer,
      inputs: Object.freeze([...this.#inputs]),
      retry: this.#retry,
      reconcile: (object: DeepReadonly<T>, context: ReconcileContext) => reconcile?.(object, context),
      finalize: (object: DeepReadonly<T>, context: ReconcileContext) => finalize?.(object, context),
      passesAdd: (object: DeepReadonly<T>) => filter.add?.(object) ?? true,
      passesUpdate: (before: DeepReadonly<T>, after: DeepReadonly<T>) =>
        filter.update?.(before, after) ?? true,
      followSources: (options: SourceRunOptions<T>, signal: AbortSignal) => {
        for (const source of sources) void runSource(source, options, signal)
      },
    })
  }
}

function callable<F>(method: string, value: F): F {
  if (typeof value !== 'function') throw new TypeError(`${method} must be given a function`)
  return value
}

/** Plain JavaScript may pass a text. */
function isAboveZero(value: unknown): value is number {
  return typeof value === 'number' && value > 0
}
