import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { HandlerRegistration, Informer, Lister } from '../cache/informer.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { ControllerRecorder } from '../metrics/index.ts'
import { controllerDefaults } from './builder.ts'
import type { AttachedInput, ControllerInput, InformerSource, InputSink } from './inputs.ts'
import { type CaughtUp, OwnWrites } from './own-writes.ts'
import { StaleCacheError } from './reconcile.ts'

export interface CachesOptions {
  readonly client: Client
  readonly clock: Clock
  readonly recorder: ControllerRecorder
}

/** One cache that a controller reads, and what it has written of its kind. */
interface Reading<T extends ApiObject = ApiObject> {
  readonly informer: Informer<T>
  readonly writes: OwnWrites<T>
  readonly listen: AttachedInput['listen']
}

/**
 * Every cache that a controller reads, its own kind's first, held against what the controller itself has written.
 */
export class ControllerCaches<T extends ApiObject = ApiObject> {
  /** Of the controller's own kind. */
  readonly own: Informer<T>
  readonly #ownWrites: OwnWrites<T>
  readonly #readings: readonly Reading[]
  readonly #options: CachesOptions

  /** Takes the informers, which are not started here. */
  constructor(
    model: Model<T>,
    inputs: readonly ControllerInput[],
    informers: InformerSource,
    options: CachesOptions,
  ) {
    this.#options = options
    const reading = <R extends ApiObject>(
      informer: Informer<R>,
      selectors: SelectorOptions,
      listen: AttachedInput['listen'],
    ): Reading<R> => ({ informer, writes: new OwnWrites(informer, selectors, options.clock), listen })
    const own = reading(informers.informer(model), {}, undefined)
    this.own = own.informer
    this.#ownWrites = own.writes
    this.#readings = [
      own,
      ...inputs.map(input => {
        const { informer, listen } = input.attach(informers)
        return reading(informer, input.selection, listen)
      }),
    ]
  }

  /** Kinds whose caches are not filled yet. */
  get unfilled(): readonly string[] {
    return this.#readings.flatMap(({ informer }) =>
      informer.hasSynced ? [] : [`${informer.model.plural}.${informer.model.group}`],
    )
  }

  /** Resolves when every cache is filled. @throws AbortError when one of them is stopped before. */
  async filled(): Promise<void> {
    await Promise.all(this.#readings.map(({ informer }) => informer.synced))
  }

  /** Begins to tell of the events of the other kinds. */
  listen(sink: InputSink): HandlerRegistration[] {
    return this.#readings.flatMap(({ informer, writes, listen }) => [
      ...(listen === undefined ? [] : [listen(sink)]),
      ...(writes === this.#ownWrites ? [] : [settleWith(informer, writes)]),
    ])
  }

  /** An object of the own kind has changed in its cache. */
  settle(name: string): void {
    this.#ownWrites.settle(name)
  }

  wrote(model: Model, object: ApiObject, removed: boolean): void {
    for (const { writes } of this.#readings) writes.wrote(model, object, removed)
  }

  uncertain(model: Model, name: string): void {
    for (const { writes } of this.#readings) writes.uncertain(model, name)
  }

  /** Whether the controller has written anything of its own kind that the cache may not show. */
  get isBehind(): boolean {
    return this.#ownWrites.size > 0
  }

  /** @throws StaleCacheError when the cache does not show the last write of that object in time. */
  async showsObject(name: string, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    this.#judge(
      this.own,
      await this.#ownWrites.caughtUp(name, client, controllerDefaults.staleCacheTimeoutMs, signal),
    )
  }

  /** The cache of a kind as it is. @throws TypeError for one that the controller does not read. */
  lister<R extends ApiObject>(model: Model<R>): Lister<R> {
    return this.#readingOf(model).informer
  }

  /** The cache of a kind once it shows what the controller has written of it by now. @throws as above */
  async caughtUpLister<R extends ApiObject>(model: Model<R>, signal: AbortSignal): Promise<Lister<R>> {
    const { informer, writes } = this.#readingOf(model)
    if (writes.size > 0) {
      const { client } = this.#options
      const timeoutMs = controllerDefaults.staleCacheTimeoutMs
      this.#judge(informer, await writes.caughtUp(undefined, client, timeoutMs, signal))
    }
    return informer
  }

  #judge({ model }: Informer, caughtUp: CaughtUp): void {
    const { recorder } = this.#options
    if (caughtUp !== 'already') recorder.staleReadsWaited++
    if (caughtUp !== 'timedOut') return
    recorder.staleReadsTimedOut++
    throw new StaleCacheError(
      `the cache of ${model.plural} did not show the controller's own writes within ${controllerDefaults.staleCacheTimeoutMs} ms`,
    )
  }

  #readingOf<R extends ApiObject>(model: Model<R>): Reading<R> {
    for (const reading of this.#readings) if (isOf(reading, model)) return reading
    throw new TypeError(
      `the controller does not read ${model.plural}.${model.group}: declare it with owns, watches or reads`,
    )
  }
}

/** Objects of one kind have one type, whichever declaration of the model names it. */
function isOf<R extends ApiObject>(reading: Reading, model: Model<R>): reading is Reading<R> {
  const { group, plural } = reading.informer.model
  return group === model.group && plural === model.plural
}

/** What the cache shows need not be remembered. */
function settleWith<R extends ApiObject>(informer: Informer<R>, writes: OwnWrites<R>): HandlerRegistration {
  const settle = ({ metadata: { name } }: R) => writes.settle(name)
  return informer.addHandler({ onAdd: settle, onUpdate: (_before, after) => settle(after), onDelete: settle })
}
