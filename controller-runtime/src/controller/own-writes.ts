import type { DeepReadonly } from '../api/deep-readonly.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectMeta } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import { compareVersions } from '../api/version.ts'
import type { Informer } from '../cache/informer.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import type { CallObserver } from '../client/observed-client.ts'
import type { Clock } from '../clock.ts'
import { compileSelectors } from './object-selection.ts'

export const ownWritesDefaults = Object.freeze({
  /** Above this many pending writes, those that the cache shows are swept. */
  sweepAt: 1_000,
  /** Concurrent requests for writes of unknown outcome. An outage may leave many. */
  lookUpsAtOnce: 10,
})

interface PendingWrite {
  readonly key: ObjectKey
  /** The version that the cache must reach. */
  readonly version: string
  /** The uid of a removed object, which the cache must not contain. */
  readonly removedUid: string | undefined
  /** True if the informer's selectors exclude the object: the cache shows the write by not containing the object. */
  readonly hidden: boolean
  /** Monotonic ms of the acknowledgement: a list requested later contains the write. */
  readonly acknowledgedAt: number
}

/** How a wait for a cache ended: at once, after a while, or not in time. */
export type CaughtUp = 'already' | 'waited' | 'timedOut'

/**
 * The writes of a controller that one of its caches does not show yet, so that it never reads state older than its own
 * last write. As in KEP-5647 and java-operator-sdk. As in controller-runtime's design, the reader waits, not the
 * writer, and only for earlier writes, so writers cannot starve it. It relies on comparable versions.
 */
export class OwnWrites<T extends ApiObject = ApiObject> implements CallObserver {
  readonly #informer: Informer<T>
  readonly #selects: (object: ApiObject) => boolean
  readonly #clock: Clock
  /** The last write of each object, if the cache may not show it yet. */
  readonly #pending = new Map<ObjectKey, PendingWrite>()
  /** Objects with a write of unknown outcome, and its time in monotonic ms. */
  readonly #uncertain = new Map<ObjectKey, number>()
  #sweepAt: number = ownWritesDefaults.sweepAt

  /** @param selectors the selectors of the informer */
  constructor(informer: Informer<T>, selectors: SelectorOptions, clock: Clock) {
    this.#informer = informer
    this.#selects = compileSelectors<ApiObject>(informer.model, selectors)
    this.#clock = clock
  }

  /** Number of objects with writes that the cache may not show yet. */
  get size(): number {
    return this.#pending.size + this.#uncertain.size
  }

  wrote(model: Model, object: ApiObject, removed: boolean): void {
    if (this.#concerns(model)) this.#remember(object.metadata, removed, !this.#selects(object))
  }

  #remember(
    metadata: DeepReadonly<Pick<ObjectMeta, 'namespace' | 'name' | 'uid' | 'version'>>,
    removed: boolean,
    hidden: boolean,
  ): void {
    const { uid, version } = metadata
    const key = objectKey(metadata)
    this.#uncertain.delete(key)
    const previous = this.#pending.get(key)
    const newest =
      previous !== undefined && compareVersions(previous.version, version) > 0 ? previous.version : version
    this.#pending.set(key, {
      key,
      version: newest,
      removedUid: removed ? uid : previous?.removedUid,
      hidden,
      acknowledgedAt: this.#clock.monotonic(),
    })
    // The event may arrive before the response.
    this.observed(key)
    if (this.size >= this.#sweepAt) this.#sweep()
  }

  uncertain(model: Model, key: ObjectKey): void {
    if (!this.#concerns(model)) return
    this.#uncertain.set(key, this.#clock.monotonic())
    if (this.size >= this.#sweepAt) this.#sweep()
  }

  /** Forgets the write if the cache shows it; called after a change of the cache. */
  observed(key: ObjectKey): void {
    const write = this.#pending.get(key)
    if (write !== undefined && this.#isPassed(write)) this.#pending.delete(key)
  }

  /**
   * Waits up to `timeoutMs` until the cache shows the last write of that object or, without a key, all acknowledged
   * writes so far. For a write of unknown outcome it asks the server.
   * @throws the error of that request; the signal's reason when aborted.
   */
  async caughtUp(
    key: ObjectKey | undefined,
    client: Client,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<CaughtUp> {
    if (this.#pending.size === 0 && this.#uncertain.size === 0) return 'already'
    await this.#lookUpAll(key === undefined ? [...this.#uncertain.keys()] : [key], client, signal)
    const one = key === undefined ? undefined : this.#pending.get(key)
    const pending = key === undefined ? [...this.#pending.values()] : one === undefined ? [] : [one]
    const reached = () => pending.every(write => this.#isShown(write))
    if (reached()) return 'already'
    const caughtUp = await this.#informer.waitUntil(reached, timeoutMs, signal)
    if (key === undefined) this.#sweep()
    else this.observed(key)
    return caughtUp ? 'waited' : 'timedOut'
  }

  async #lookUpAll(keys: readonly ObjectKey[], client: Client, signal: AbortSignal): Promise<void> {
    const { lookUpsAtOnce } = ownWritesDefaults
    for (let at = 0; at < keys.length; at += lookUpsAtOnce) {
      const unknown = keys.slice(at, at + lookUpsAtOnce).filter(each => this.#uncertain.has(each))
      await Promise.all(unknown.map(each => this.#lookUp(each, client, signal)))
    }
  }

  async #lookUp(key: ObjectKey, client: Client, signal: AbortSignal): Promise<void> {
    const { model } = this.#informer
    const live = await client.getIfExists(model, key, { signal })
    this.#uncertain.delete(key)
    const cached = this.#informer.get(key)
    if (live !== undefined) this.wrote(model, live, false)
    else if (cached !== undefined) this.#remember(cached.metadata, true, false)
  }

  #sweep(): void {
    for (const [key, write] of this.#pending) if (this.#isPassed(write)) this.#pending.delete(key)
    for (const [key, at] of this.#uncertain) if (this.#informer.listedAt > at) this.#uncertain.delete(key)
    this.#sweepAt = Math.max(ownWritesDefaults.sweepAt, 2 * this.size)
  }

  #concerns({ group, plural }: Model): boolean {
    return group === this.#informer.model.group && plural === this.#informer.model.plural
  }

  /** Returns true if a read of the cache shows the write now. */
  #isShown(write: PendingWrite): boolean {
    if (this.#isPassed(write)) return true
    // No event will come for an excluded object; but an older state may be on its way, so the write stays pending.
    return write.hidden && this.#informer.hasSynced && this.#informer.get(write.key) === undefined
  }

  /** Returns true if the cache shows the write for good. */
  #isPassed({ key, version, removedUid, acknowledgedAt }: PendingWrite): boolean {
    if (this.#informer.listedAt > acknowledgedAt) return true
    const reached = this.#informer.version
    if (reached === undefined || compareVersions(reached, version) < 0) return false
    return removedUid === undefined || this.#informer.get(key)?.metadata.uid !== removedUid
  }
}
