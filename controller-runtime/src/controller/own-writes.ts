import type { Model } from '../api/model.ts'
import type { ApiObject, ObjectMeta } from '../api/object.ts'
import { compareVersions } from '../api/version.ts'
import type { Informer } from '../cache/informer.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import type { WriteObserver } from '../client/observed-client.ts'
import type { Clock } from '../clock.ts'
import { compileSelectors } from './object-selection.ts'

export const ownWritesDefaults = Object.freeze({
  /** Above this many pending writes, those that the cache shows are swept. */
  sweepAt: 1_000,
  /** Concurrent requests for writes of unknown outcome. An outage may leave many. */
  lookUpsAtOnce: 10,
})

interface PendingWrite {
  readonly name: string
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
 * last write. As in KEP-5647 and java-operator-sdk. As in controller-runtime's design, the reader waits, not the writer,
 * and only for earlier writes, so writers cannot starve it. It relies on comparable versions.
 */
export class OwnWrites<T extends ApiObject = ApiObject> implements WriteObserver {
  readonly #informer: Informer<T>
  readonly #selects: (object: ApiObject) => boolean
  readonly #clock: Clock
  /** By name: the last write, if the cache may not show it yet. */
  readonly #pending = new Map<string, PendingWrite>()
  /** Names with a write of unknown outcome, and its time in monotonic ms. */
  readonly #uncertain = new Map<string, number>()
  #sweepAt: number = ownWritesDefaults.sweepAt

  /** @param selectors the selectors of the informer */
  constructor(informer: Informer<T>, selectors: SelectorOptions, clock: Clock) {
    this.#informer = informer
    this.#selects = compileSelectors<ApiObject>(informer.model, selectors)
    this.#clock = clock
  }

  /** Number of names with writes that the cache may not show yet. */
  get size(): number {
    return this.#pending.size + this.#uncertain.size
  }

  wrote(model: Model, object: ApiObject, removed: boolean): void {
    if (this.#concerns(model)) this.#remember(object.metadata, removed, !this.#selects(object))
  }

  #remember(
    { name, uid, version }: Pick<ObjectMeta, 'name' | 'uid' | 'version'>,
    removed: boolean,
    hidden: boolean,
  ): void {
    this.#uncertain.delete(name)
    const previous = this.#pending.get(name)
    const newest =
      previous !== undefined && compareVersions(previous.version, version) > 0 ? previous.version : version
    this.#pending.set(name, {
      name,
      version: newest,
      removedUid: removed ? uid : previous?.removedUid,
      hidden,
      acknowledgedAt: this.#clock.monotonic(),
    })
    // The event may arrive before the response.
    this.observed(name)
    if (this.size >= this.#sweepAt) this.#sweep()
  }

  uncertain(model: Model, name: string): void {
    if (!this.#concerns(model)) return
    this.#uncertain.set(name, this.#clock.monotonic())
    if (this.size >= this.#sweepAt) this.#sweep()
  }

  /** Forgets the write if the cache shows it; called after a change of the cache. */
  observed(name: string): void {
    const write = this.#pending.get(name)
    if (write !== undefined && this.#isPassed(write)) this.#pending.delete(name)
  }

  /**
   * Waits up to `timeoutMs` until the cache shows the last write of that object or, without a name, all acknowledged
   * writes so far. For a write of unknown outcome it asks the server.
   * @throws the error of that request; the signal's reason when aborted.
   */
  async caughtUp(
    name: string | undefined,
    client: Client,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<CaughtUp> {
    if (this.#pending.size === 0 && this.#uncertain.size === 0) return 'already'
    await this.#lookUpAll(name === undefined ? [...this.#uncertain.keys()] : [name], client, signal)
    const one = name === undefined ? undefined : this.#pending.get(name)
    const pending = name === undefined ? [...this.#pending.values()] : one === undefined ? [] : [one]
    const reached = () => pending.every(write => this.#isShown(write))
    if (reached()) return 'already'
    const caughtUp = await this.#informer.waitUntil(reached, timeoutMs, signal)
    if (name === undefined) this.#sweep()
    else this.observed(name)
    return caughtUp ? 'waited' : 'timedOut'
  }

  async #lookUpAll(names: readonly string[], client: Client, signal: AbortSignal): Promise<void> {
    const { lookUpsAtOnce } = ownWritesDefaults
    for (let at = 0; at < names.length; at += lookUpsAtOnce) {
      const unknown = names.slice(at, at + lookUpsAtOnce).filter(each => this.#uncertain.has(each))
      await Promise.all(unknown.map(each => this.#lookUp(each, client, signal)))
    }
  }

  async #lookUp(name: string, client: Client, signal: AbortSignal): Promise<void> {
    const { model } = this.#informer
    const live = await client.getIfExists(model, name, { signal })
    this.#uncertain.delete(name)
    const cached = this.#informer.get(name)
    if (live !== undefined) this.wrote(model, live, false)
    else if (cached !== undefined) this.#remember(cached.metadata, true, false)
  }

  #sweep(): void {
    for (const [name, write] of this.#pending) if (this.#isPassed(write)) this.#pending.delete(name)
    for (const [name, at] of this.#uncertain) if (this.#informer.listedAt > at) this.#uncertain.delete(name)
    this.#sweepAt = Math.max(ownWritesDefaults.sweepAt, 2 * this.size)
  }

  #concerns({ group, plural }: Model): boolean {
    return group === this.#informer.model.group && plural === this.#informer.model.plural
  }

  /** Returns true if a read of the cache shows the write now. */
  #isShown(write: PendingWrite): boolean {
    if (this.#isPassed(write)) return true
    // No event will come for an excluded object; but an older state may be on its way, so the write stays pending.
    return write.hidden && this.#informer.hasSynced && this.#informer.get(write.name) === undefined
  }

  /** Returns true if the cache shows the write for good. */
  #isPassed({ name, version, removedUid, acknowledgedAt }: PendingWrite): boolean {
    if (this.#informer.listedAt > acknowledgedAt) return true
    const reached = this.#informer.version
    if (reached === undefined || compareVersions(reached, version) < 0) return false
    return removedUid === undefined || this.#informer.get(name)?.metadata.uid !== removedUid
  }
}
