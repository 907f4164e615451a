import type { DeepReadonly } from '../api/deep-readonly.ts'
import { groupResource } from '../api/group-resource.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import type { HandlerRegistration, Informer, Lister } from '../cache/informer.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { ControllerRecorder } from '../metrics/index.ts'
import { controllerDefaults } from './builder.ts'
import type { AttachedInput, ControllerInput, InformerSource, InputSink } from './inputs.ts'
import { type CaughtUp, OwnWrites } from './own-writes.ts'
import { StaleCacheError } from './reconcile.ts'

interface CachesOptions {
  readonly client: Client
  readonly clock: Clock
  readonly recorder: ControllerRecorder
}

/** A cache that a controller reads, and the controller's own writes to that kind. */
interface Reading<T extends ApiObject = ApiObject> {
  readonly informer: Informer<T>
  readonly writes: OwnWrites<T>
  readonly listen: AttachedInput['listen']
}

/** All caches that a controller reads, its own kind's first, with the controller's own writes. */
export class ControllerCaches<T extends ApiObject = ApiObject> {
  /** The cache of the controller's own kind. */
  readonly own: Informer<T>
  readonly #ownWrites: OwnWrites<T>
  readonly #readings: readonly Reading[]
  readonly #options: CachesOptions

  /** Acquires the informers without starting them. */
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

  /** Kinds whose caches have not synced yet. */
  get unfilled(): readonly string[] {
    return this.#readings.flatMap(({ informer }) =>
      informer.hasSynced ? [] : [groupResource(informer.model)],
    )
  }

  /** Resolves when every cache has synced. @throws AbortError if one of them is stopped first. */
  async filled(): Promise<void> {
    await Promise.all(this.#readings.map(({ informer }) => informer.synced))
  }

  /** Starts to report the events of the other kinds. */
  listen(sink: InputSink): HandlerRegistration[] {
    return this.#readings.flatMap(({ informer, writes, listen }) => [
      ...(listen === undefined ? [] : [listen(sink)]),
      ...(writes === this.#ownWrites ? [] : [forgetShown(informer, writes)]),
    ])
  }

  /** An object of the own kind has changed in its cache. */
  observed(key: ObjectKey): void {
    this.#ownWrites.observed(key)
  }

  wrote(model: Model, object: ApiObject, removed: boolean): void {
    for (const { writes } of this.#readings) writes.wrote(model, object, removed)
  }

  uncertain(model: Model, key: ObjectKey): void {
    for (const { writes } of this.#readings) writes.uncertain(model, key)
  }

  /** Whether there are own writes to the own kind that the cache may not show yet. */
  get isBehind(): boolean {
    return this.#ownWrites.size > 0
  }

  /** @throws StaleCacheError if the cache does not show the last write of that object in time. */
  async showsObject(key: ObjectKey, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    this.#requireCaughtUp(
      this.own,
      await this.#ownWrites.caughtUp(key, client, controllerDefaults.staleCacheTimeoutMs, signal),
    )
  }

  /** Returns the cache of a kind as it is. @throws TypeError if the controller does not read that kind. */
  lister<R extends ApiObject>(model: Model<R>): Lister<R> {
    return this.#readingOf(model).informer
  }

  /** Returns the cache of a kind once it shows the controller's writes so far. @throws StaleCacheError, TypeError. */
  async caughtUpLister<R extends ApiObject>(model: Model<R>, signal: AbortSignal): Promise<Lister<R>> {
    const { informer, writes } = this.#readingOf(model)
    if (writes.size > 0) {
      const { client } = this.#options
      const timeoutMs = controllerDefaults.staleCacheTimeoutMs
      this.#requireCaughtUp(informer, await writes.caughtUp(undefined, client, timeoutMs, signal))
    }
    return informer
  }

  #requireCaughtUp({ model }: Informer, caughtUp: CaughtUp): void {
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
      `the controller does not read ${groupResource(model)}: declare it with owns, watches or reads`,
    )
  }
}

/** All declarations of a kind have the same object type. */
function isOf<R extends ApiObject>(reading: Reading, model: Model<R>): reading is Reading<R> {
  const { group, plural } = reading.informer.model
  return group === model.group && plural === model.plural
}

/** Forgets writes once the cache shows them. */
function forgetShown<R extends ApiObject>(informer: Informer<R>, writes: OwnWrites<R>): HandlerRegistration {
  const forget = ({ metadata }: DeepReadonly<ApiObject>) => writes.observed(objectKey(metadata))
  return informer.addHandler({ onAdd: forget, onUpdate: (_before, after) => forget(after), onDelete: forget })
}
