import { refuseBareName } from '../api/bare-name.ts'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import { groupResource } from '../api/group-resource.ts'
import type { IndexDeclaration } from '../api/index-spec.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import { refuseNonModel } from '../api/refuse-non-model.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { asFrozen, deepFreeze } from '../freeze.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { settledWithin } from '../settled-within.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { Watcher, type WatcherEvent, type WatcherOptions } from '../watch/watcher.ts'
import { Yielder } from '../yielder.ts'
import { Delivery, type HandlerLag, type InformerHandler } from './delivery.ts'
import { type Change, Store } from './store.ts'
import { applyTransform, type TransformOption } from './transform.ts'

export const informerDefaults = Object.freeze({
  /** Pause before restarting after an unexpected error, in ms. */
  restartMs: 1_000,
})

export interface InformerOptions<T extends ApiObject = ApiObject>
  extends SelectorOptions,
    TransformOption<T> {
  /** For the objects of one namespace, `client.inNamespace('team-a')`. Keys have the namespace then too. */
  readonly client: Client
  /** Told of failures that last, and of handlers that throw. Default: silent. */
  readonly log?: Logger
  readonly clock?: Clock
  /** For the underlying watcher. */
  readonly watcher?: Pick<WatcherOptions, 'random' | 'backoffBaseMs' | 'backoffMaxMs' | 'healthyAfterMs'>
}

const informerKeys: KeysOf<InformerOptions> = {
  client: true,
  log: true,
  clock: true,
  watcher: true,
  labelSelector: true,
  fieldSelector: true,
  transform: true,
}

/** A handler that was added to an informer. */
export interface HandlerRegistration {
  /** Resolves when the handler has seen all initial objects, or is removed. Never rejects. */
  readonly synced: Promise<void>
  /** How far the handler is behind, for metrics. Always 0 for a synchronous handler. */
  readonly lag: HandlerLag
  /** Removes the handler: no further calls. May be called from within the handler. */
  remove(): void
}

/** Read access to an informer's objects. Each call reads one state of the store. Objects are frozen. */
export interface Lister<T extends ApiObject = ApiObject> {
  /**
   * @param key the name, or `<namespace>/<name>` for a namespaced kind
   * @throws TypeError for a name alone of a namespaced kind
   */
  get(key: ObjectKey): DeepReadonly<T> | undefined
  /** Returns all objects. @throws TypeError for an argument: the lister of `admit` has options, this one has none. */
  list(): readonly DeepReadonly<T>[]
  /**
   * Returns the objects with the given value in an index: one of the model, a default one (such as `metadata.labels`
   * with values `key=value`), or one added to this cache.
   * @throws TypeError if there is no such index.
   */
  byIndex(index: string, value: string): readonly DeepReadonly<T>[]
}

/**
 * A local copy of a model's objects that follows the server and notifies handlers of changes.
 *
 * Guarantees
 * - The copy equals the server's state at one version, and versions only rise, unless the server's history was replaced
 *   (`replaced` of the watcher).
 * - The copy changes before handlers run. Objects deleted while disconnected are reported as deleted.
 * - Handlers: see `Delivery`. A handler that is added late sees all existing objects first, then every change.
 * - It runs until it is stopped, whatever fails.
 *
 * Caveats
 * - It lags behind the server: by milliseconds, or for as long as the server cannot be reached. See `version`.
 */
export class Informer<T extends ApiObject = ApiObject> implements Lister<T> {
  readonly model: Model<T>
  /** Resolves when the first list is complete. @throws AbortError if the informer is stopped first. */
  readonly synced: Promise<void>
  readonly #log: Logger
  readonly #clock: Clock
  readonly #yielder: Yielder
  readonly #watcher: Watcher<T>
  readonly #transform: TransformOption<T>
  readonly #store: Store<T>
  readonly #deliveries = new Set<Delivery<T>>()
  readonly #waiting = new Set<() => void>()
  readonly #stopping = new AbortController()
  #running: Promise<void> | undefined
  #version: string | undefined
  #listedAt = Number.NEGATIVE_INFINITY
  #resolveSynced: () => void = () => {}
  #rejectSynced: (reason: unknown) => void = () => {}

  /**
   * @throws TypeError for an unknown option, since a misspelled selector would select every object, and without a
   * client or model.
   */
  constructor(model: Model<T>, options: InformerOptions<T>) {
    refuseUnknownKeys(options, informerKeys, 'the options of the informer')
    const { client, labelSelector, fieldSelector } = options
    refuseNonModel(model)
    if (typeof client?.watch !== 'function')
      throw new TypeError('an informer needs a client: new Informer(model, { client })')
    this.model = model
    this.#log = (options.log ?? silentLogger).child({ informer: groupResource(model) })
    this.#clock = options.clock ?? systemClock
    this.#yielder = new Yielder(this.#clock)
    this.#transform = options
    this.#store = new Store(model)
    this.#watcher = new Watcher(client, model, {
      ...options.watcher,
      labelSelector,
      fieldSelector,
      clock: this.#clock,
      log: options.log,
    })
    this.synced = new Promise((resolve, reject) => {
      this.#resolveSynced = resolve
      this.#rejectSynced = reject
    })
    // Not every caller awaits it.
    this.synced.catch(() => {})
  }

  /** True once the first list is complete. */
  get hasSynced(): boolean {
    return this.#version !== undefined
  }

  /** The version of the copy; undefined until the first list is complete. */
  get version(): string | undefined {
    return this.#version
  }

  /** Monotonic ms of the last list request: the copy contains all writes acknowledged before it. */
  get listedAt(): number {
    return this.#listedAt
  }

  get size(): number {
    return this.#store.size
  }

  get(key: ObjectKey): DeepReadonly<T> | undefined {
    const object = this.#store.get(key)
    if (object === undefined) refuseBareName(this.model, key)
    return asFrozen(object)
  }

  list(...given: readonly undefined[]): readonly DeepReadonly<T>[] {
    if (given.some(each => each !== undefined))
      throw new TypeError(
        `list of a cache of ${this.model.plural} takes no options: use byIndex, such as byIndex('metadata.namespace', namespace)`,
      )
    return asFrozen(this.#store.list())
  }

  byIndex(index: string, value: string): readonly DeepReadonly<T>[] {
    return asFrozen(this.#store.byIndex(index, value))
  }

  /**
   * Adds an index to this cache, at any time. It is built at its first use. Adding the same index again has no effect.
   * @throws TypeError if another index has that name.
   */
  addIndex(index: IndexDeclaration<T>): void {
    this.#store.addIndex(index)
  }

  /**
   * Adds the missing indexes of another declaration of the kind. Returns false, and adds none, if another index has the
   * name of one of them.
   */
  addIndexesOf({ indexes }: Pick<Model<T>, 'indexes'>): boolean {
    return this.#store.addIndexes(indexes)
  }

  /** Adds a handler, at any time. */
  addHandler(handler: InformerHandler<T>): HandlerRegistration {
    const delivery = new Delivery(handler, this.#clock, this.#log)
    this.#deliveries.add(delivery)
    if (this.hasSynced) delivery.begin(this.#store.list())
    return {
      synced: delivery.synced,
      get lag() {
        return delivery.lag
      },
      remove: () => {
        this.#deliveries.delete(delivery)
        delivery.remove()
      },
    }
  }

  /** Starts to follow the server. Further calls have no effect. */
  start(): void {
    this.#running ??= this.#run(this.#stopping.signal)
  }

  /** Stops the watch and all handlers. The copy stays readable. A stopped informer cannot be restarted. */
  async stop(): Promise<void> {
    const reason = new DOMException(`informer of ${this.model.plural} stopped`, 'AbortError')
    this.#stopping.abort(reason)
    this.#rejectSynced(reason)
    for (const delivery of this.#deliveries) delivery.remove()
    this.#deliveries.clear()
    this.#running ??= Promise.resolve()
    await this.#running
  }

  /**
   * Waits up to `timeoutMs` for `condition`, which is checked now and after each change and bookmark. Returns true if
   * it held in time.
   * @throws the signal's reason when aborted.
   */
  async waitUntil(condition: () => boolean, timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    if (condition()) return true
    let hasHeld = false
    let check = () => {}
    const held = new Promise<void>(resolve => {
      check = () => {
        if (!condition()) return
        hasHeld = true
        resolve()
      }
    })
    this.#waiting.add(check)
    try {
      await unlessAborted(settledWithin(this.#clock, held, timeoutMs, signal), signal)
    } finally {
      this.#waiting.delete(check)
    }
    return hasHeld || condition()
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const event of this.#watcher.events(signal)) await this.#take(event)
      } catch (error) {
        if (signal.aborted) return
        this.#log.error({ err: error }, 'informer failed, restarting')
        await sleep(this.#clock, informerDefaults.restartMs, signal).catch(() => {})
      }
    }
  }

  async #take(event: WatcherEvent<T>): Promise<void> {
    switch (event.type) {
      case 'replaced': {
        const objects: T[] = []
        for (const object of event.objects) {
          objects.push(this.#keep(object))
          await this.#yielder.pause()
        }
        if (!this.#stopping.signal.aborted) this.#replace(objects, event.version, event.askedAt)
        return
      }
      case 'applied':
        this.#change(this.#store.put(this.#keep(event.object)), event.version)
        return
      case 'deleted':
        this.#change(this.#store.delete(this.#keep(event.object)), event.version)
        return
      case 'bookmark':
        this.#change(undefined, event.version)
    }
  }

  /** Returns the object as it is cached: transformed and frozen. */
  #keep(object: T): T {
    const { metadata } = object
    // Shares equal strings: saves a tenth of the memory of a small object.
    object.apiVersion = this.model.apiVersion
    object.kind = this.model.kind
    if (metadata.resourceVersion === metadata.version) metadata.resourceVersion = metadata.version
    deepFreeze(object)
    try {
      const kept = applyTransform(this.#transform, object)
      deepFreeze(kept)
      return kept
    } catch (error) {
      this.#log.error(
        { err: error, object: objectKey(object.metadata) },
        'transform failed, caching the object unchanged',
      )
      return object
    }
  }

  #replace(objects: readonly T[], version: string, askedAt: number): void {
    const first = !this.hasSynced
    const changes = this.#store.replace(objects)
    this.#version = version
    this.#listedAt = askedAt
    this.#resolveSynced()
    for (const delivery of [...this.#deliveries]) {
      if (first) delivery.begin(objects)
      else for (const change of changes) delivery.notify(change)
    }
    this.#wake()
  }

  #change(change: Change<T> | undefined, version: string): void {
    this.#version = version
    if (change !== undefined) {
      for (const delivery of [...this.#deliveries]) delivery.notify(change)
    }
    this.#wake()
  }

  #wake(): void {
    for (const check of [...this.#waiting]) check()
  }
}
