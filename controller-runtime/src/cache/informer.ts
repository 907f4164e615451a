import type { IndexDeclaration } from '../api/index-spec.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { Breather } from '../breather.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { deepFreeze } from '../freeze.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { Watcher, type WatcherEvent, type WatcherOptions } from '../watch/watcher.ts'
import { Delivery, type HandlerLag, type InformerHandler } from './delivery.ts'
import { type Change, Store } from './store.ts'
import { applyTransform, type TransformOption } from './transform.ts'

/** Numbers that informers work with. */
export const informerDefaults = Object.freeze({
  /** Pause before the informer begins anew after a fault of its own, which should not happen: no busy loop then. */
  restartMs: 1_000,
})

/** What an informer follows, and how. */
export interface InformerOptions<T extends ApiObject = ApiObject>
  extends SelectorOptions,
    TransformOption<T> {
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** For the watcher beneath. */
  readonly watcher?: Pick<WatcherOptions, 'random' | 'backoffBaseMs' | 'backoffMaxMs' | 'healthyAfterMs'>
}

/** A handler's place in an informer. */
export interface HandlerRegistration {
  /** Resolves when the handler has been told everything that was there at its beginning, or is removed. Never rejects. */
  readonly synced: Promise<void>
  /** How far it is behind, for metrics. A handler that answers no promise is never behind. */
  readonly lag: HandlerLag
  /** No more is told, from now on; also from within the handler. */
  remove(): void
}

/** Read access to an informer's objects. Every answer comes from one state of the store; objects are frozen. */
export interface Lister<T extends ApiObject = ApiObject> {
  get(name: string): T | undefined
  list(): readonly T[]
  /**
   * Objects that have the value in an index: one of the model's, one that every model has (`metadata.labels` with
   * values `key=value`, ...), or one that was added here.
   * @throws TypeError when there is no such index.
   */
  byIndex(index: string, value: string): readonly T[]
}

/**
 * A local copy of a model's objects that follows the server, and tells handlers what changes.
 *
 * Guarantees
 * - The copy is a state that the server had at one version, and versions only rise, but for one case: a server whose
 *   whole history was replaced (`replaced` of the watcher).
 * - The copy is changed before handlers run. What was deleted while the server could not be reached is told as deleted.
 * - Handlers: see `Delivery`. One that is added late is told everything that is there, then what follows: no gap,
 *   nothing twice.
 * - It goes on until it is stopped, whatever fails.
 *
 * Caveats
 * - It is behind the server, by milliseconds or, while the server cannot be reached, by any time. `version` says where
 *   it is.
 */
export class Informer<T extends ApiObject = ApiObject> implements Lister<T> {
  readonly model: Model<T>
  /** Resolves when the copy is complete for the first time. @throws AbortError when the informer is stopped before. */
  readonly synced: Promise<void>
  readonly #log: Logger
  readonly #clock: Clock
  readonly #breather: Breather
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

  constructor(model: Model<T>, options: InformerOptions<T>) {
    const { client, labelSelector, fieldSelector } = options
    this.model = model
    this.#log = (options.log ?? silentLogger).child({ informer: `${model.plural}.${model.group}` })
    this.#clock = options.clock ?? systemClock
    this.#breather = new Breather(this.#clock)
    this.#transform = options
    this.#store = new Store(model)
    this.#watcher = new Watcher(client, model, {
      ...options.watcher,
      ...(labelSelector !== undefined && { labelSelector }),
      ...(fieldSelector !== undefined && { fieldSelector }),
      clock: this.#clock,
      ...(options.log && { log: options.log }),
    })
    this.synced = new Promise((resolve, reject) => {
      this.#resolveSynced = resolve
      this.#rejectSynced = reject
    })
    // Nobody has to wait for it.
    this.synced.catch(() => {})
  }

  /** Whether the copy is, or was once, complete. */
  get hasSynced(): boolean {
    return this.#version !== undefined
  }

  /** The version that the copy has reached; undefined before it is complete. */
  get version(): string | undefined {
    return this.#version
  }

  /** Monotonic ms at which the server was last asked for everything: writes acknowledged before that are in the copy. */
  get listedAt(): number {
    return this.#listedAt
  }

  get size(): number {
    return this.#store.size
  }

  get(name: string): T | undefined {
    return this.#store.get(name)
  }

  list(): readonly T[] {
    return this.#store.list()
  }

  byIndex(index: string, value: string): readonly T[] {
    return this.#store.byIndex(index, value)
  }

  /**
   * Adds an index that only this cache has, before the start or at any time after it. It costs nothing until it is
   * asked. Adding the same one again changes nothing.
   * @throws TypeError when there is another index of that name.
   */
  addIndex(index: IndexDeclaration<T>): void {
    this.#store.addIndex(index)
  }

  /** Adds a handler, before the start or at any time after it. */
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

  /** Begins to follow the server; calling it again changes nothing. */
  start(): void {
    this.#running ??= this.#run(this.#stopping.signal)
  }

  /** Ends the watch and all deliveries. What was copied stays readable. A stopped informer cannot start again. */
  async stop(): Promise<void> {
    const reason = new DOMException(`the informer of ${this.model.plural} is stopped`, 'AbortError')
    this.#stopping.abort(reason)
    this.#rejectSynced(reason)
    for (const delivery of this.#deliveries) delivery.remove()
    this.#deliveries.clear()
    this.#running ??= Promise.resolve()
    await this.#running
  }

  /**
   * Waits, at most `timeoutMs`, until `condition` holds; it is looked at now and after each change and bookmark.
   * Answers whether it came to hold.
   * @throws the signal's reason when aborted.
   */
  waitUntil(condition: () => boolean, timeoutMs: number, signal?: AbortSignal): Promise<boolean> {
    if (condition()) return Promise.resolve(true)
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason)
        return
      }
      const finish = (held: boolean) => {
        cleanUp()
        resolve(held)
      }
      const check = () => {
        if (condition()) finish(true)
      }
      const onAbort = () => {
        cleanUp()
        reject(signal?.reason)
      }
      const cancel = this.#clock.setTimeout(() => finish(condition()), timeoutMs)
      const cleanUp = () => {
        cancel()
        this.#waiting.delete(check)
        signal?.removeEventListener('abort', onAbort)
      }
      this.#waiting.add(check)
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const event of this.#watcher.events(signal)) await this.#take(event)
      } catch (error) {
        if (signal.aborted) return
        this.#log.error({ err: error }, 'the informer failed; it begins anew')
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
          await this.#breather.pause()
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

  /** The object as it goes into the copy: transformed, and frozen. */
  #keep(object: T): T {
    const { metadata } = object
    // What is equal in all objects, or twice in one, is kept once: a tenth of the memory of a small object.
    object.apiVersion = this.model.apiVersion
    object.kind = this.model.kind
    if (metadata.resourceVersion === metadata.version) metadata.resourceVersion = metadata.version
    deepFreeze(object)
    try {
      return deepFreeze(applyTransform(this.#transform, object))
    } catch (error) {
      this.#log.error(
        { err: error, object: object.metadata.name },
        'the transform failed; the object is kept whole',
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
