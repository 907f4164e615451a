import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { laterRevision, type ObjectKey, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import {
  type CancelTimer,
  type LinkedSignal,
  linkedSignal,
  Yielder,
} from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import { objectsPrefix, type ServedModel } from '../model/index.ts'
import {
  type Change,
  CompactedError,
  IncompleteRestoreError,
  incompleteRestore,
  type Storage,
  type WatchBatch,
  WrongStoreError,
} from '../storage/index.ts'
import { CacheLoader } from './cache-loader.ts'
import type { Entry } from './entry.ts'
import { FollowingTallies, type FollowingTally } from './following-tallies.ts'
import { Lag } from './lag.ts'
import type { ModelCache } from './model-cache.ts'
import { RevisionWaiters } from './revision-waiters.ts'

export const followerDefaults = Object.freeze({
  /** Milliseconds between attempts while the store is away. */
  retryMs: 250,
  /** Changes kept for a model while its cache is built; past that the build starts over. */
  maxPending: 100_000,
  /** Past this lag, in milliseconds, reads are refused at once: it is as long as a read would wait. */
  lagMs: 3_000,
  /** Past this lag without any change, in milliseconds, the watch of the log is reopened. */
  stallMs: 10_000,
  /** Milliseconds between two trims of the caches, which keep history for minutes. */
  trimMs: 30_000,
})

/**
 * The follower watches all keys, not only objects. A transaction without objects also advances the store's `written`
 * revision, and reads wait until the follower has reached that.
 */
const wholeLog = ''

interface Followed {
  readonly cache: ModelCache
  /** Changes that arrived while the cache is built; undefined when it is complete. */
  pending: Change[] | undefined
}

/**
 * Follows the store's log once for all models and feeds their caches. All caches share one position: a cache without
 * new changes is as current as the log.
 *
 *     starting ──▶ following ──store fails: retried──▶ following, from the same position
 *                     │  ▲
 *        compacted    ▼  │    from a snapshot; watches end with 410
 *                  rebuilding
 *
 * All changes of one revision are applied in one step, and the position moves only past whole revisions. Other work
 * runs between revisions, however large a batch is.
 */
export class LogFollower {
  readonly #storage: Storage
  readonly #log: Logger
  readonly #clock: Clock
  readonly #loader: CacheLoader
  readonly #followed = new Map<ServedModel, Followed>()
  /** By resource. There are two while a reload builds the cache of the new declaration. */
  readonly #byResource = new Map<string, readonly Followed[]>()
  readonly #tallies = new FollowingTallies()
  readonly #stopped = new AbortController()
  readonly #waiters = new RevisionWaiters()
  readonly #lag: Lag
  /** Rebuilds of single caches that are under way. */
  readonly #repairs = new Set<Promise<void>>()
  #position: Revision = zeroRevision
  #known: Revision = zeroRevision
  #following: Promise<void> | undefined
  #begun = false
  #ready = false
  /** Set when the store no longer has the changes after the position. */
  #isLost = false
  /** Counts rebuilds. A cache whose build spans one has missed changes. */
  #epoch = 0
  #trouble = 'the store has not been reached yet'
  /** Aborts the present watch, so that it is reopened. */
  #attempt: LinkedSignal | undefined
  #trimTimer: CancelTimer | undefined

  constructor(options: { storage: Storage; log: Logger; clock?: Clock }) {
    this.#storage = options.storage
    this.#log = options.log
    this.#clock = options.clock ?? systemClock
    this.#lag = new Lag({
      clock: this.#clock,
      stallMs: followerDefaults.stallMs,
      onStall: () => this.#reopenWatch(),
    })
    this.#loader = new CacheLoader({ storage: options.storage, log: options.log, clock: this.#clock })
  }

  /** Every change up to this revision has been applied. */
  get position(): Revision {
    return this.#position
  }

  /** The caches equal the store at this revision, which may be above that of the last change. */
  get known(): Revision {
    return laterRevision(this.#known, this.#position)
  }

  /** The reason why reads must not use the caches now, or undefined. */
  get trouble(): string | undefined {
    if (!this.#ready) return this.#trouble
    const ms = this.#lag.ms
    if (ms === undefined || ms < followerDefaults.lagMs) return undefined
    const seconds = Math.round(ms / 1000)
    return `the caches have been behind the store for ${seconds} s, by ${this.#lag.revisions} revisions`
  }

  /** Starts following from the store's latest revision. Returns at once and waits for the store in the background. */
  start(): void {
    if (this.#following !== undefined) return
    this.#following = this.#run()
    this.#scheduleTrim()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#trimTimer?.()
    this.#lag.stop()
    await this.#following
    await Promise.all(this.#repairs)
  }

  /**
   * Builds a model's cache and follows it. Waits while the store is unavailable.
   * @param onProgress takes the number of objects read so far, from 0 again after a failure
   * @throws when aborted
   */
  async add(
    served: ServedModel,
    signal: AbortSignal,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const followed: Followed = { cache: this.#loader.empty(served), pending: [] }
    this.#followed.set(served, followed)
    this.#byResource.set(served.resource, [...this.#ofResource(served), followed])
    const filling = linkedSignal(signal, this.#stopped.signal)
    try {
      await this.#fill(followed, filling.signal, onProgress)
      return followed.cache
    } catch (error) {
      if (this.#followed.get(served) === followed) this.remove(served)
      throw error
    } finally {
      filling.dispose()
    }
  }

  /** Objects read so far by the latest build of a model's cache; undefined before the first one. */
  objectsRead(served: ServedModel): number | undefined {
    return this.#loader.objectsRead(served)
  }

  /** By `<group>/<plural>`. */
  get tallies(): ReadonlyMap<string, Readonly<FollowingTally>> {
    return this.#tallies.all
  }

  /** Forgets the tallies of kinds that are gone. @param isKnown takes `<group>/<plural>` */
  keepTallies(isKnown: (resource: string) => boolean): void {
    this.#tallies.keep(isKnown)
  }

  remove(served: ServedModel): void {
    this.#loader.forget(served)
    this.#followed.delete(served)
    const others = this.#ofResource(served).filter(({ cache }) => cache.served !== served)
    if (others.length === 0) this.#byResource.delete(served.resource)
    else this.#byResource.set(served.resource, others)
  }

  #ofResource({ resource }: ServedModel): readonly Followed[] {
    return this.#byResource.get(resource) ?? []
  }

  cacheOf(served: ServedModel): ModelCache | undefined {
    const followed = this.#followed.get(served)
    return followed?.pending === undefined ? followed?.cache : undefined
  }

  /**
   * Returns the cached object for a write to start from. It may be behind the store. Undefined if it does not exist,
   * and if the cache is incomplete or known to be behind.
   */
  entryOf(served: ServedModel, key: ObjectKey): Entry | undefined {
    if (this.trouble !== undefined) return undefined
    return this.cacheOf(served)?.store.get(key)
  }

  /** The caches that are complete. */
  caches(): ModelCache[] {
    return [...this.#followed.values()].flatMap(({ cache, pending }) =>
      pending === undefined ? [cache] : [],
    )
  }

  /** Rebuilds a cache that differs from the store. Its reads are refused and its watches end at once. */
  distrust(cache: ModelCache): void {
    const { served } = cache
    const followed = this.#followed.get(served)
    if (followed?.cache !== cache || followed.pending !== undefined) return
    followed.pending = []
    cache.distrust()
    this.#tallies.of(served.resource).rebuilt++
    const repair = this.#fill(followed, this.#stopped.signal)
      .then(
        () => this.#log.info({ resource: served.resource }, 'rebuilt the cache'),
        () => {},
      )
      .finally(() => this.#repairs.delete(repair))
    this.#repairs.add(repair)
  }

  /** Resolves when every change up to `revision` has been applied. @throws when aborted */
  reached(revision: Revision, signal: AbortSignal): Promise<void> {
    if (this.#ready && this.#position >= revision) return Promise.resolve()
    return this.#waiters.wait(revision, signal)
  }

  /** The store reported that it has written up to here. Missing changes count as lag from now on. */
  expect(written: Revision): void {
    if (!this.#stopped.signal.aborted) this.#lag.heard(written)
  }

  /** The store reported that nothing was written between the position and `current`. */
  confirm(current: Revision): void {
    this.#known = laterRevision(this.#known, current)
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped
    while (!signal.aborted) {
      try {
        const { current, written } = await this.#storage.head({ signal })
        if (!this.#begun) this.#begin(current)
        else if (this.#isLost) await this.#rebuild(signal)
        this.#ready = true
        this.#advance(this.#position)
        this.expect(written)
        await this.#follow(signal)
      } catch (error) {
        if (signal.aborted) return
        this.#ready = false
        const again = this.#isLost
        if (error instanceof CompactedError) {
          this.#isLost = true
          this.#trouble = 'the caches are being rebuilt, because the store has compacted their next changes'
        } else if (error instanceof IncompleteRestoreError) this.#trouble = incompleteRestore
        else if (error instanceof WrongStoreError) this.#trouble = 'the endpoints lead to the wrong store'
        else if (!again) this.#trouble = 'the store cannot be reached'
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

  /** Follows the log from the position. Returns when the watch is to be reopened. */
  async #follow(signal: AbortSignal): Promise<void> {
    const attempt = linkedSignal(signal)
    this.#attempt = attempt
    const yielder = new Yielder(this.#clock)
    try {
      const options = { after: this.#position, signal: attempt.signal }
      for await (const batch of this.#storage.watch(wholeLog, options)) await this.#takeIn(batch, yielder)
    } finally {
      attempt.dispose()
    }
  }

  /** Applies a batch with pauses, because after an outage it may be large. */
  async #takeIn({ changes, revision }: WatchBatch, yielder: Yielder): Promise<void> {
    let whole = this.#position
    for (const [at, change] of changes.entries()) {
      if (at > 0 && change.revision > whole) {
        const pause = yielder.pause()
        if (pause !== undefined) {
          this.#advance(whole)
          await pause
        }
      }
      whole = laterRevision(whole, change.revision)
      this.#dispatch(change)
    }
    this.#advance(revision)
    await yielder.pause()
  }

  #dispatch(change: Change): void {
    if (!change.key.startsWith(objectsPrefix)) return
    // objects/<group>/<plural>/[<namespace>/]<name>
    const pluralAt = change.key.indexOf('/', objectsPrefix.length) + 1
    const resource = change.key.slice(objectsPrefix.length, change.key.indexOf('/', pluralAt))
    const caches = this.#byResource.get(resource)
    if (caches === undefined) return
    this.#tallies.of(resource).received++
    for (const { cache, pending } of caches) {
      if (pending === undefined) this.#apply(change, cache)
      else if (pending.length <= followerDefaults.maxPending) pending.push(change)
    }
  }

  /** An observer that throws may have missed the change, so every watch of the cache ends instead of having a gap. */
  #apply(change: Change, cache: ModelCache): void {
    try {
      cache.apply(change)
    } catch (error) {
      const { resource } = cache.served
      this.#log.error(
        { resource, key: change.key, err: error },
        'failed to pass on a change, rebuilding the cache',
      )
      this.distrust(cache)
    }
  }

  #advance(revision: Revision): void {
    this.#position = laterRevision(this.#position, revision)
    this.#lag.reached(this.#position)
    this.#waiters.release(this.#position)
  }

  /**
   * Rebuilds the caches from a snapshot, because the store no longer has the changes since the position. Their watches
   * end with 410, as in Kubernetes.
   * @throws CompactedError if the snapshot is compacted before the caches are complete; WrongStoreError
   */
  async #rebuild(signal: AbortSignal): Promise<void> {
    const { current } = await this.#storage.head({ signal })
    const rebuilt: { readonly cache: ModelCache; readonly fresh: ModelCache }[] = []
    for (const cache of this.caches())
      rebuilt.push({ cache, fresh: await this.#loader.load(cache.served, signal, current) })
    // An empty watch fails if the store that was read is not the store that was followed.
    for await (const _ of this.#storage.watch(wholeLog, { after: current, until: current, signal })) break
    // Nothing below can fail, so all caches move together.
    this.#epoch++
    for (const { cache, fresh } of rebuilt) {
      this.#tallies.of(cache.served.resource).rebuilt++
      cache.reset(fresh)
    }
    this.#log.info({ from: this.#position, to: current }, 'rebuilt the caches, watches have ended')
    this.#position = current
    this.#known = current
    this.#isLost = false
    this.#lag.restart(current)
  }

  /** Builds a cache, repeatedly until no change is missed. @throws when aborted, or if the model is removed */
  async #fill(
    followed: Followed,
    signal: AbortSignal,
    onProgress?: (objects: number) => void,
  ): Promise<void> {
    const { cache } = followed
    const { served } = cache
    for (;;) {
      signal.throwIfAborted()
      if (this.#followed.get(served) !== followed)
        throw new Error('the model was removed while its cache was built')
      try {
        if (!this.#ready) await this.reached(zeroRevision, signal)
        // Collect changes before the first page is read: they overlap its revision, so none is missed.
        const pending: Change[] = []
        followed.pending = pending
        const epoch = this.#epoch
        const fresh = await this.#loader.load(served, signal, undefined, onProgress)
        // This cache got no changes during a rebuild.
        if (pending.length > followerDefaults.maxPending || epoch !== this.#epoch || !this.#ready)
          throw new Error('the store changed too much during the build')
        cache.reset(fresh)
        for (const change of pending) cache.apply(change)
        followed.pending = undefined
        return
      } catch (error) {
        signal.throwIfAborted()
        this.#log.warn({ resource: served.resource, err: error }, 'failed to build the cache, retrying')
        await sleep(this.#clock, followerDefaults.retryMs, signal)
      }
    }
  }

  /** Reopens a watch that is open but does not deliver changes that the store has written. */
  #reopenWatch(): void {
    if (!this.#ready) return
    this.#log.warn({ position: this.#position }, 'the watch of the store stalled, reopening it')
    this.#attempt?.abort()
  }

  /** Trims all caches on one timer, because no request may ever touch a quiet kind. */
  #scheduleTrim(): void {
    this.#trimTimer = this.#clock.setTimeout(
      () => {
        for (const { cache } of this.#followed.values()) cache.trim()
        this.#scheduleTrim()
      },
      followerDefaults.trimMs,
      { unref: true },
    )
  }
}
