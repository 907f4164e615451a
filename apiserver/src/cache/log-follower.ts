import { Breather, type CancelTimer, type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { laterRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import { type Change, CompactedError, type Storage, type WatchBatch } from '../storage/index.ts'
import { CacheLoader } from './cache-loader.ts'
import { FollowingTallies, type FollowingTally } from './following-tallies.ts'
import { Lag } from './lag.ts'
import type { ModelCache } from './model-cache.ts'
import { RevisionWaiters } from './revision-waiters.ts'

export const followerDefaults = Object.freeze({
  /** Milliseconds between attempts while the store is away. */
  retryMs: 250,
  /** Changes kept for a model whose cache is being built; beyond that the build starts over from a newer state. */
  maxPending: 100_000,
  /** Milliseconds behind the store from which on reads are refused at once: as long as a read waits by itself. */
  lagMs: 3_000,
  /** Milliseconds behind the store, without any change arriving, after which the log is asked for anew. */
  stallMs: 10_000,
  /** Milliseconds between two looks for what has grown too old in the caches: small beside the minutes it is kept. */
  trimMs: 30_000,
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

/**
 * Follows the store's log once for all models, and feeds each one's cache. The position is one for all: a cache that
 * has seen nothing new is still as new as the log.
 *
 *     beginning ──▶ following ──store fails: tried again──▶ following, from the same position
 *                      │  ▲
 *        compacted     ▼  │     by the exact changes where they can be told, else by starting over
 *                   rebuilding
 *
 * All changes of one revision are taken in in one step, and the position only moves to what has been taken in whole.
 * Between revisions others run, however much of the log comes at once.
 */
export class LogFollower {
  readonly #storage: Storage
  readonly #log: Logger
  readonly #clock: Clock
  readonly #loader: CacheLoader
  readonly #followed = new Map<string, Followed>()
  readonly #tallies = new FollowingTallies()
  readonly #stopped = new AbortController()
  readonly #waiters = new RevisionWaiters()
  readonly #lag: Lag
  /** Repairs that are under way. */
  readonly #repairs = new Set<Promise<void>>()
  #position: Revision = zeroRevision
  #known: Revision = zeroRevision
  #following: Promise<void> | undefined
  #begun = false
  #ready = false
  /** Why the log cannot be followed from the position. */
  #lost: CompactedError | undefined
  /** Counts the rebuilds: a cache whose building spans one has missed changes. */
  #epoch = 0
  #trouble = 'the log has not been reached yet'
  /** Ends the present watch, for another one to begin. */
  #attempt = new AbortController()
  #trimTimer: CancelTimer | undefined

  constructor(options: { storage: Storage; log: Logger; clock?: Clock }) {
    this.#storage = options.storage
    this.#log = options.log
    this.#clock = options.clock ?? systemClock
    this.#lag = new Lag({
      clock: this.#clock,
      stallMs: followerDefaults.stallMs,
      onStall: () => this.#askAnew(),
    })
    this.#loader = new CacheLoader({ storage: options.storage, log: options.log, clock: this.#clock })
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
    if (!this.#ready) return this.#trouble
    const ms = this.#lag.ms
    if (ms === undefined || ms < followerDefaults.lagMs) return undefined
    const seconds = Math.round(ms / 1000)
    return `the caches are behind the store by ${this.#lag.revisions} revisions since ${seconds} s`
  }

  /** Begins to follow from the store's present. Resolves at once; it waits for the store by itself. */
  start(): void {
    if (this.#following !== undefined) return
    this.#following = this.#run()
    this.#trimLater()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#trimTimer?.()
    this.#lag.stop()
    await this.#following
    await Promise.all(this.#repairs)
  }

  /** Builds a model's cache and keeps it fed. Waits as long as the store is away. @throws when aborted. */
  async add(
    served: ServedModel,
    signal: AbortSignal,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const followed: Followed = { cache: this.#loader.empty(served), pending: [] }
    this.#followed.set(served.resource, followed)
    try {
      await this.#fill(followed, AbortSignal.any([signal, this.#stopped.signal]), onProgress)
      return followed.cache
    } catch (error) {
      if (this.#followed.get(served.resource) === followed) this.#followed.delete(served.resource)
      throw error
    }
  }

  /** Objects that the latest building of a model's cache has read so far; undefined before the first one. */
  objectsRead(served: ServedModel): number | undefined {
    return this.#loader.objectsRead(served)
  }

  /** By `<group>/<plural>`. */
  get tallies(): ReadonlyMap<string, Readonly<FollowingTally>> {
    return this.#tallies.all
  }

  remove(served: ServedModel): void {
    this.#loader.forget(served)
    this.#followed.delete(served.resource)
  }

  cacheOf(served: ServedModel): ModelCache | undefined {
    const followed = this.#followed.get(served.resource)
    return followed?.pending === undefined ? followed?.cache : undefined
  }

  /** The caches that are built. */
  caches(): ModelCache[] {
    return [...this.#followed.values()].flatMap(({ cache, pending }) =>
      pending === undefined ? [cache] : [],
    )
  }

  /**
   * A cache is not what the store has. Its reads are refused and its watches ended at once, and it is built again; the
   * other caches go on.
   */
  distrust(cache: ModelCache): void {
    const { served } = cache
    const followed = this.#followed.get(served.resource)
    if (followed?.cache !== cache || followed.pending !== undefined) return
    followed.pending = []
    cache.distrust()
    this.#tallies.of(served.resource).rebuilt++
    const repair = this.#fill(followed, this.#stopped.signal)
      .then(
        () => this.#log.info({ resource: served.resource }, 'the cache has been built again'),
        () => {},
      )
      .finally(() => this.#repairs.delete(repair))
    this.#repairs.add(repair)
  }

  /** Resolves once every change up to `revision` has been taken in. @throws when aborted. */
  reached(revision: Revision, signal: AbortSignal): Promise<void> {
    if (this.#ready && this.#position >= revision) return Promise.resolve()
    return this.#waiters.wait(revision, signal)
  }

  /** The store has said that it has written up to here: what is missing in the caches is a lag from now on. */
  expect(written: Revision): void {
    if (!this.#stopped.signal.aborted) this.#lag.heard(written)
  }

  /** The store has said that nothing was written between the position and `current`. */
  confirm(current: Revision): void {
    this.#known = laterRevision(this.#known, current)
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) {
      try {
        const { current, written } = await this.#storage.head({ signal })
        if (!this.#begun) this.#begin(current)
        else if (this.#lost !== undefined) await this.#rebuild(this.#lost, signal)
        this.#ready = true
        this.#advance(this.#position)
        this.expect(written)
        await this.#follow(signal)
      } catch (error) {
        if (signal.aborted) return
        this.#ready = false
        const again = this.#lost !== undefined
        if (error instanceof CompactedError) {
          this.#trouble = 'the caches are being built again: the store no longer has the changes that follow'
          // Once the store is known to be another one, nothing that it says later takes that back.
          if (this.#lost?.replaced !== true) this.#lost = error
        } else if (!again) this.#trouble = 'the store cannot be reached'
        this.#log.warn({ err: error, position: this.#position }, this.#trouble)
        if (again || !(error instanceof CompactedError))
          await sleep(this.#clock, followerDefaults.retryMs, signal).catch(() => {})
      }
    }
  }

  #begin(current: Revision): void {
    this.#begun = true
    this.#epoch++
    this.#position = current
    this.#known = current
  }

  /** Takes in the log from the position on. Returns when the watch is given up for another one. */
  async #follow(signal: AbortSignal): Promise<void> {
    this.#attempt = new AbortController()
    const either = AbortSignal.any([signal, this.#attempt.signal])
    const breather = new Breather(this.#clock)
    for await (const batch of this.#storage.watch(wholeLog, { after: this.#position, signal: either }))
      await this.#takeIn(batch, breather)
  }

  /** What an outage has left is a large batch: sockets must be drained, and reads answered, in the midst of it. */
  async #takeIn({ changes, revision }: WatchBatch, breather: Breather): Promise<void> {
    let whole = this.#position
    for (const [at, change] of changes.entries()) {
      if (at > 0 && change.revision > whole) {
        const pause = breather.pause()
        if (pause !== undefined) {
          this.#advance(whole)
          await pause
        }
      }
      whole = laterRevision(whole, change.revision)
      this.#dispatch(change)
    }
    this.#advance(revision)
    await breather.pause()
  }

  #dispatch(change: Change): void {
    if (!change.key.startsWith(objectsPrefix)) return
    const nameAt = change.key.lastIndexOf('/')
    const resource = change.key.slice(objectsPrefix.length, nameAt)
    const followed = this.#followed.get(resource)
    if (followed === undefined) return
    this.#tallies.of(resource).received++
    if (followed.pending === undefined) followed.cache.apply(change)
    else if (followed.pending.length <= followerDefaults.maxPending) followed.pending.push(change)
  }

  #advance(revision: Revision): void {
    this.#position = laterRevision(this.#position, revision)
    this.#lag.reached(this.#position)
    this.#waiters.release(this.#position)
  }

  /**
   * Rebuilds the caches from a snapshot, because the store no longer has the changes since the position. Their watches
   * end with 410, as in Kubernetes.
   * @throws CompactedError if the snapshot is compacted, or the store is replaced, before the caches are complete.
   */
  async #rebuild({ replaced }: CompactedError, signal: AbortSignal): Promise<void> {
    const { current } = await this.#storage.head({ signal })
    const rebuilt: { readonly cache: ModelCache; readonly fresh: ModelCache }[] = []
    for (const cache of this.caches())
      rebuilt.push({ cache, fresh: await this.#loader.load(cache.served, signal, current) })
    // An empty watch fails if the store that was read is not the store that was followed.
    if (!replaced)
      for await (const _ of this.#storage.watch(wholeLog, { after: current, until: current, signal })) break
    // Nothing below can fail, so all caches move together.
    this.#epoch++
    for (const { cache, fresh } of rebuilt) {
      this.#tallies.of(cache.served.resource).rebuilt++
      cache.reset(fresh)
    }
    this.#log.info({ from: this.#position, to: current }, 'rebuilt the caches, watches have ended')
    // A replaced store may be at a lower revision.
    this.#position = current
    this.#known = current
    this.#lost = undefined
    this.#lag.restart(current)
  }

  /** Builds a cache, again until nothing has been missed. @throws when aborted, or the model has been removed. */
  async #fill(
    followed: Followed,
    signal: AbortSignal,
    onProgress?: (objects: number) => void,
  ): Promise<void> {
    const { cache } = followed
    const { served } = cache
    for (;;) {
      signal.throwIfAborted()
      if (this.#followed.get(served.resource) !== followed)
        throw new Error('the model has been removed while its cache was built')
      try {
        if (!this.#ready) await this.reached(zeroRevision, signal)
        // Emptied before the first page is asked for: what the log brings from now on is kept, so that together with
        // the state of the page's revision nothing is missing.
        const pending: Change[] = []
        followed.pending = pending
        const epoch = this.#epoch
        const fresh = await this.#loader.load(served, signal, undefined, onProgress)
        // While the log is being found again, neither the old position's changes nor the new one's reach this cache.
        if (pending.length > followerDefaults.maxPending || epoch !== this.#epoch || !this.#ready)
          throw new Error('too much has changed meanwhile')
        cache.reset(fresh)
        for (const change of pending) cache.apply(change)
        followed.pending = undefined
        return
      } catch (error) {
        signal.throwIfAborted()
        this.#log.warn({ resource: served.resource, err: error }, 'the cache cannot be built yet')
        await sleep(this.#clock, followerDefaults.retryMs, signal)
      }
    }
  }

  /** Something is known to be missing, and nothing comes, though the watch has not broken. */
  #askAnew(): void {
    if (!this.#ready) return
    this.#log.warn(
      { position: this.#position },
      'the log does not bring what the store has written, asking for it anew',
    )
    this.#attempt.abort()
  }

  /** One timer for all: nobody looks at a kind that has fallen quiet, which is just the one that needs it. */
  #trimLater(): void {
    this.#trimTimer = this.#clock.setTimeout(
      () => {
        for (const { cache } of this.#followed.values()) cache.trim()
        this.#trimLater()
      },
      followerDefaults.trimMs,
      { unref: true },
    )
  }
}
