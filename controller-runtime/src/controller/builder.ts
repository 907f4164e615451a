import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { InformerSelection } from '../cache/informer-pool.ts'
import { TokenBucket } from '../workqueue/token-bucket.ts'
import {
  type ControllerInput,
  type InputOptions,
  type MapToNames,
  mappedInput,
  type OwnsOptions,
  ownedInput,
  readingInput,
} from './inputs.ts'
import { compileSelectors } from './object-selection.ts'
import { changedBeyondStatus, type Filter, toPredicate, type UpdatePredicate } from './predicates.ts'
import type { Finalize, Reconcile, ReconcileContext } from './reconcile.ts'
import { runSource, type Source, type SourceRunOptions } from './source.ts'

/** Numbers that controllers work with. */
export const controllerDefaults = Object.freeze({
  /** Objects reconciled at once. Reconciles mostly wait for others' answers, so that several cost no more than one. */
  concurrency: 10,
  /** After which a run's signal is aborted and its worker freed: twice the patience of most HTTP clients. */
  timeoutMs: 60_000,
  /** How long a run waits for the cache to show the controller's own last write. As controller-runtime has it. */
  staleCacheTimeoutMs: 5_000,
  /** After which a run that gave up that wait is tried again. */
  staleCacheRequeueMs: 1_000,
  /** After which a run is tried again that a leader who may no longer act has put off. Most such processes end before. */
  fencedRequeueMs: 1_000,
  /** After which a controller whose caches are not filled says so: a kind that is not served is waited for without end. */
  syncWarningMs: 30_000,
  /** Attempts to take the finalizer away after a clean-up, each after reading again, before the clean-up counts as failed. */
  finalizerAttempts: 5,
  /** How long runs that outlived the drain get to heed the abort of their signals. */
  abortGraceMs: 1_000,
})

/** How failures are tried again. */
export interface RetryOptions {
  /**
   * Failures in a row after which an object is given up until it changes, an integer from 1. By default there is no
   * such number. `finalize` is tried without end all the same: an object that is given up could never go.
   */
  readonly maxAttempts?: number
  /** Delay after the first failure, in ms; each further one doubles it. Default `workQueueDefaults.backoffBaseMs`. */
  readonly backoffBaseMs?: number
  /** The longest delay, in ms. Default `workQueueDefaults.backoffMaxMs`. */
  readonly backoffMaxMs?: number
  /** Retries a second over all objects together, after a burst. By default there is no such bound. */
  readonly rate?: { readonly perSecond: number; readonly burst: number }
}

/** What a controller does, as `ControllerBuilder` puts it together. */
export interface ControllerDefinition<T extends ApiObject = ApiObject> {
  readonly model: Model<T>
  readonly name: string | undefined
  readonly concurrency: number
  readonly timeoutMs: number
  /** The name of the finalizer that the controller keeps on every object, where it has one. */
  readonly finalizer: string | undefined
  /** The kinds that it reads beside its own. */
  readonly inputs: readonly ControllerInput[]
  readonly retry: RetryOptions
  // Methods on purpose: a controller of a specific model is usable where any controller is expected.
  reconcile(object: T, context: ReconcileContext): ReturnType<Reconcile<ApiObject>>
  finalize(object: T, context: ReconcileContext): ReturnType<Finalize<ApiObject>>
  passesAdd(object: T): boolean
  passesUpdate(before: T, after: T): boolean
  /** Follows every source until the signal is aborted. */
  followSources(options: SourceRunOptions<T>, signal: AbortSignal): void
}

/** Collects what a controller does; each call answers the builder. */
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

  /**
   * Which events of its own objects wake the controller; by default all but updates of the status alone
   * (`changedBeyondStatus`). What the finalizer rests on, the start of a deletion and the deletion itself always count.
   * See `and`, `or`, `not`, `matchingLabels`, `generationChanged` and others.
   */
  filter(filter: Filter<T>): this {
    if (typeof filter !== 'function' && (typeof filter !== 'object' || filter === null)) {
      throw new TypeError('filter must be given a predicate or a function of two states')
    }
    this.#filter = filter
    return this
  }

  /** `filter` with a function. */
  filterUpdates(predicate: UpdatePredicate<T>): this {
    return this.filter(callable('filterUpdates', predicate))
  }

  /**
   * Wakes an object when one of its dependents is added, changes or goes: those that name it as an owner and controller
   * (`controller: true`), by group and kind. When a dependent changes hands, the owners of both states are woken. The
   * dependents can be read by `context.lister`.
   * @throws SelectorError where a selector does not parse.
   */
  owns<D extends ApiObject>(model: Model<D>, options: OwnsOptions<D> = {}): this {
    compileSelectors(model, options)
    this.#inputs.push(ownedInput(this.#model, model, options))
    return this
  }

  /**
   * Wakes the objects whose names `map` answers for an object of another kind that is added, changes or goes; of a
   * change both states are mapped, and each name counts once. A mapping that throws is logged, and others go on. The
   * objects can be read by `context.lister`.
   * @throws SelectorError where a selector does not parse.
   */
  watches<D extends ApiObject>(model: Model<D>, map: MapToNames<D>, options: InputOptions<D> = {}): this {
    compileSelectors(model, options)
    this.#inputs.push(mappedInput(model, callable('watches', map), options))
    return this
  }

  /**
   * Makes a kind readable by `context.lister`; its events wake nobody.
   * @throws SelectorError where a selector does not parse.
   */
  reads<D extends ApiObject>(model: Model<D>, selection: InformerSelection<D> = {}): this {
    compileSelectors(model, selection)
    this.#inputs.push(readingInput(model, selection))
    return this
  }

  /**
   * Wakes the objects whose names a source gives, from the start of the controller to its stop: see `Source`, and
   * `every` for a ready-made timer. A name of no object is no error.
   */
  source(source: Source<T>): this {
    const given: unknown = source
    const iterable = typeof given === 'object' && given !== null && Symbol.asyncIterator in given
    if (typeof given !== 'function' && !iterable) {
      throw new TypeError('source must be given an async iterable, or a function that answers one')
    }
    this.#sources.push(source)
    return this
  }

  /** How failures are tried again; by default without end, after 5 ms that double up to 1000 s. */
  retry(options: RetryOptions): this {
    const { maxAttempts, backoffBaseMs, backoffMaxMs } = options
    if (maxAttempts !== undefined && (!Number.isSafeInteger(maxAttempts) || maxAttempts < 1)) {
      throw new TypeError(`maxAttempts must be an integer from 1, is ${maxAttempts}`)
    }
    for (const [name, ms] of Object.entries({ backoffBaseMs, backoffMaxMs })) {
      if (ms !== undefined && !(ms > 0)) throw new TypeError(`${name} must be above 0, is ${ms}`)
    }
    // Refuses a rate that is none here, not when the controller is made.
    if (options.rate !== undefined) new TokenBucket(options.rate.perSecond, options.rate.burst)
    this.#retry = options
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
      reconcile: (object: T, context: ReconcileContext) => reconcile?.(object, context),
      finalize: (object: T, context: ReconcileContext) => finalize?.(object, context),
      passesAdd: (object: T) => filter.add?.(object) ?? true,
      passesUpdate: (before: T, after: T) => filter.update?.(before, after) ?? true,
      followSources: (options: SourceRunOptions<T>, signal: AbortSignal) => {
        for (const source of sources) void runSource(source, options, signal)
      },
    })
  }
}

function callable<F>(what: string, value: F): F {
  if (typeof value !== 'function') throw new TypeError(`${what} must be given a function`)
  return value
}
