import { Breather, systemClock } from '@setpoint/controller-runtime'
import { laterRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import { type Change, CompactedError, type Storage } from '../storage/index.ts'
import { ModelCache } from './model-cache.ts'

export const followerDefaults = Object.freeze({
  /** Objects read in one page while a cache is built: large enough to be quick, small enough to let others run. */
  pageSize: 500,
  /** Milliseconds between attempts while the store is away. */
  retryMs: 250,
  /** Changes kept for a model whose cache is being built; beyond that the build starts over from a newer state. */
  maxPending: 100_000,
})

/** Where the keys of all objects are. */
const objectsPrefix = 'objects/'

/**
 * All keys are followed, not only those of objects: a transaction that touches none moves the store's `written` too,
 * and whoever waits for that revision would wait until the next object changes.
 */
const wholeLog = ''

interface Followed {
  readonly cache: ModelCache
  /** Changes that arrived while the cache is being built; undefined once it is. */
  pending: Change[] | undefined
}

interface Waiter {
  readonly revision: Revision
  readonly resolve: () => void
}

/**
 * Follows the store's log once for all models, and feeds each one's cache. The position is one for all: a cache that
 * has seen nothing new is still as new as the log.
 *
 * When the store no longer has the part of the log that comes next, every cache is built again and told so.
 */
export class LogFollower {
  readonly #storage: Storage
  readonly #log: Logger
  readonly #followed = new Map<string, Followed>()
  readonly #objectsRead = new Map<string, number>()
  readonly #stopped = new AbortController()
  #position: Revision = zeroRevision
  #known: Revision = zeroRevision
  #waiters: Waiter[] = []
  #following: Promise<void> | undefined
  #ready = false
  /** Counts the restarts: a cache whose building spans one has missed changes. */
  #epoch = 0
  #trouble = 'the log has not been reached yet'

  constructor(options: { storage: Storage; log: Logger }) {
    this.#storage = options.storage
    this.#log = options.log
  }

  /** Every change up to here has been taken in. */
  get position(): Revision {
    return this.#position
  }

  /** The state of the caches is the state of the store at this revision, which may be above the last change. */
  get known(): Revision {
    return laterRevision(this.#known, this.#position)
  }

  /** Why the caches cannot be relied on at the moment; undefined where they can. */
  get trouble(): string | undefined {
    return this.#ready ? undefined : this.#trouble
  }

  /** Begins to follow from the store's present. Resolves at once; it waits for the store by itself. */
  start(): void {
    this.#following ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    await this.#following
  }

  /** Builds a model's cache and keeps it fed. Waits as long as the store is away. @throws when aborted. */
  async add(
    served: ServedModel,
    signal: AbortSignal,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const stop = AbortSignal.any([signal, this.#stopped.signal])
    for (;;) {
      stop.throwIfAborted()
      try {
        if (!this.#ready) await this.reached(zeroRevision, stop)
        return await this.#build(served, stop, onProgress)
      } catch (error) {
        stop.throwIfAborted()
        this.#log.warn({ resource: served.resource, err: error }, 'the cache cannot be built yet')
        await delay(followerDefaults.retryMs, stop)
      }
    }
  }

  /** Objects that the latest building of a model's cache has read so far; undefined before the first one. */
  objectsRead(served: ServedModel): number | undefined {
    return this.#objectsRead.get(served.resource)
  }

  remove(served: ServedModel): void {
    this.#objectsRead.delete(served.resource)
    this.#followed.delete(served.resource)
  }

  cacheOf(served: ServedModel): ModelCache | undefined {
    const followed = this.#followed.get(served.resource)
    return followed?.pending === undefined ? followed?.cache : undefined
  }

  /** Resolves once every change up to `revision` has been taken in. @throws when aborted. */
  reached(revision: Revision, signal: AbortSignal): Promise<void> {
    if (this.#ready && this.#position >= revision) return Promise.resolve()
    return new Promise((resolve, reject) => {
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

  /** The store has said that nothing was written between the position and `current`. */
  confirm(current: Revision): void {
    this.#known = laterRevision(this.#known, current)
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) {
      try {
        await this.#restart(signal)
        for await (const batch of this.#storage.watch(wholeLog, { after: this.#position, signal })) {
          for (const change of batch.changes) this.#dispatch(change)
          this.#advance(batch.revision)
        }
      } catch (error) {
        if (signal.aborted) return
        this.#ready = false
        this.#trouble =
          error instanceof CompactedError
            ? 'the caches are being built again: the store no longer has the changes that follow'
            : 'the store cannot be reached'
        this.#log.warn({ err: error, position: this.#position }, this.#trouble)
        if (!(error instanceof CompactedError)) await delay(followerDefaults.retryMs, signal).catch(() => {})
      }
    }
  }

  /** Finds the present position and builds again whatever was fed from an earlier one. */
  async #restart(signal: AbortSignal): Promise<void> {
    const { current } = await this.#storage.head({ signal })
    const loaded: [Followed, ModelCache][] = []
    for (const followed of this.#followed.values()) {
      if (followed.pending !== undefined) continue
      loaded.push([followed, await this.#load(followed.cache.served, signal, current)])
    }
    this.#epoch++
    this.#position = current
    this.#known = current
    for (const [followed, fresh] of loaded) followed.cache.reset(fresh)
    this.#ready = true
    this.#advance(current)
  }

  async #build(
    served: ServedModel,
    signal: AbortSignal,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const pending: Change[] = []
    const epoch = this.#epoch
    // Registered before the first page is asked for: what the log brings from now on is kept, so that together with
    // the state of the page's revision nothing is missing.
    const placeholder: Followed = { cache: this.#newCache(served, zeroRevision), pending }
    this.#followed.set(served.resource, placeholder)
    try {
      const cache = await this.#load(served, signal, undefined, onProgress)
      // While the log is being found again, neither the old position's changes nor the new one's reach this cache.
      if (pending.length > followerDefaults.maxPending || epoch !== this.#epoch || !this.#ready)
        throw new Error('too much has changed meanwhile')
      for (const change of pending) cache.apply(change)
      this.#followed.set(served.resource, { cache, pending: undefined })
      return cache
    } catch (error) {
      if (this.#followed.get(served.resource) === placeholder) this.#followed.delete(served.resource)
      throw error
    }
  }

  async #load(
    served: ServedModel,
    signal: AbortSignal,
    at?: Revision,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const limit = followerDefaults.pageSize
    const breather = new Breather(systemClock)
    let page = await this.#storage.list(served.keyPrefix, {
      limit,
      signal,
      ...(at !== undefined && { revision: at }),
    })
    const { revision } = page
    const cache = this.#newCache(served, revision)
    let objectsRead = 0
    for (;;) {
      const after = page.more ? page.pairs.at(-1)?.key : undefined
      // The store looks for the next page while this one is decoded.
      const next =
        after === undefined
          ? undefined
          : this.#storage.list(served.keyPrefix, { limit, signal, revision, after })
      // Awaited below, but its failure may come before.
      next?.catch(() => {})
      for (const pair of page.pairs) {
        cache.load(pair)
        // Index functions may be slow, and others must not wait for a whole page of them.
        const pause = breather.pause()
        if (pause !== undefined) await pause
      }
      objectsRead += page.pairs.length
      this.#objectsRead.set(served.resource, objectsRead)
      onProgress?.(page.pairs.length)
      if (next === undefined) break
      page = await next
    }
    await cache.finishLoading(breather)
    return cache
  }

  #newCache(served: ServedModel, revision: Revision): ModelCache {
    return new ModelCache(served, revision, (key, error) =>
      this.#log.error({ key, err: error }, 'a stored value is no object and is left out'),
    )
  }

  #dispatch(change: Change): void {
    if (!change.key.startsWith(objectsPrefix)) return
    const nameAt = change.key.lastIndexOf('/')
    const followed = this.#followed.get(change.key.slice(objectsPrefix.length, nameAt))
    if (followed === undefined) return
    if (followed.pending === undefined) followed.cache.apply(change)
    else if (followed.pending.length <= followerDefaults.maxPending) followed.pending.push(change)
  }

  #advance(revision: Revision): void {
    this.#position = laterRevision(this.#position, revision)
    if (this.#waiters.length === 0) return
    const reached = this.#waiters.filter(waiter => waiter.revision <= this.#position)
    if (reached.length === 0) return
    this.#waiters = this.#waiters.filter(waiter => waiter.revision > this.#position)
    for (const waiter of reached) waiter.resolve()
  }
}

function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason)
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abandon)
      resolve()
    }, ms)
    const abandon = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    signal.addEventListener('abort', abandon, { once: true })
  })
}
