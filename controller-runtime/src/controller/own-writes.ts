import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { compareVersions } from '../api/version.ts'
import type { Informer } from '../cache/informer.ts'
import type { Client, SelectorOptions } from '../client/client.ts'
import type { WriteObserver } from '../client/observed-client.ts'
import type { Clock } from '../clock.ts'
import { compileSelectors } from './object-selection.ts'

export const ownWritesDefaults = Object.freeze({
  /** Names that a cache has not been seen to show before those are dropped that it shows without having told. */
  sweepAt: 1_000,
  /** Requests at once for writes of unknown outcome: a server that was away for a moment leaves many of them. */
  lookUpsAtOnce: 10,
})

interface Floor {
  readonly name: string
  /** The cache must have reached it. */
  readonly version: string
  /** The object of this uid was removed: the cache must not hold it any more. */
  readonly removedUid: string | undefined
  /** The object is not selected by the informer: it shows the write as soon as it does not hold the object. */
  readonly hidden: boolean
  /** Monotonic ms of the acknowledgement: a list asked for later contains the write. */
  readonly acknowledgedAt: number
}

/** For how a wait for a cache ended: at once, after a while, or not in time. */
export type CaughtUp = 'already' | 'waited' | 'timedOut'

/**
 * What a controller has written and has not seen yet in one of its caches, so that nothing it reads there is older
 * than its own last write. The idea is KEP-5647's and java-operator-sdk's; as in controller-runtime's design the
 * reader waits, never the writer, and only for what was written before it began to wait, so that writers cannot
 * starve it. Versions are comparable, which is what it rests on.
 */
export class OwnWrites<T extends ApiObject = ApiObject> implements WriteObserver {
  readonly #informer: Informer<T>
  readonly #selects: (object: ApiObject) => boolean
  readonly #clock: Clock
  /** An entry for each name whose last write the cache may not show; bounded by the writes of the last moments. */
  readonly #floors = new Map<string, Floor>()
  /** Names whose last write may have happened, and when that was to be (monotonic ms). */
  readonly #uncertain = new Map<string, number>()
  #sweepAt: number = ownWritesDefaults.sweepAt

  /** @param selectors those of the informer */
  constructor(informer: Informer<T>, selectors: SelectorOptions, clock: Clock) {
    this.#informer = informer
    this.#selects = compileSelectors<ApiObject>(informer.model, selectors)
    this.#clock = clock
  }

  /** Names with writes that the cache has not been seen to show. */
  get size(): number {
    return this.#floors.size + this.#uncertain.size
  }

  wrote(model: Model, object: ApiObject, removed: boolean): void {
    if (!this.#concerns(model)) return
    const { name, uid, version } = object.metadata
    this.#uncertain.delete(name)
    const previous = this.#floors.get(name)
    const newest =
      previous !== undefined && compareVersions(previous.version, version) > 0 ? previous.version : version
    this.#floors.set(name, {
      name,
      version: newest,
      removedUid: removed ? uid : previous?.removedUid,
      hidden: !this.#selects(object),
      acknowledgedAt: this.#clock.monotonic(),
    })
    // The event may have overtaken the answer.
    this.settle(name)
    if (this.size >= this.#sweepAt) this.#sweep()
  }

  uncertain(model: Model, name: string): void {
    if (!this.#concerns(model)) return
    this.#uncertain.set(name, this.#clock.monotonic())
    if (this.size >= this.#sweepAt) this.#sweep()
  }

  /** Drops what the cache shows by now; to be called when it has changed. */
  settle(name: string): void {
    const floor = this.#floors.get(name)
    if (floor !== undefined && this.#isPassed(floor)) this.#floors.delete(name)
  }

  /**
   * Waits, at most `timeoutMs`, until the cache shows the last write of that object, or without a name all writes that
   * have been acknowledged by now. Where the outcome of a write is unknown, the server is asked.
   * @throws what that request throws, and the signal's reason when aborted.
   */
  async caughtUp(
    name: string | undefined,
    client: Client,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<CaughtUp> {
    if (this.#floors.size === 0 && this.#uncertain.size === 0) return 'already'
    await this.#lookUpAll(name === undefined ? [...this.#uncertain.keys()] : [name], client, signal)
    const one = name === undefined ? undefined : this.#floors.get(name)
    const pending = name === undefined ? [...this.#floors.values()] : one === undefined ? [] : [one]
    const reached = () => pending.every(floor => this.#isShown(floor))
    if (reached()) return 'already'
    const caughtUp = await this.#informer.waitUntil(reached, timeoutMs, signal)
    if (name === undefined) this.#sweep()
    else this.settle(name)
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
    else if (cached !== undefined) this.wrote(model, cached, true)
  }

  #sweep(): void {
    for (const [name, floor] of this.#floors) if (this.#isPassed(floor)) this.#floors.delete(name)
    for (const [name, at] of this.#uncertain) if (this.#informer.listedAt > at) this.#uncertain.delete(name)
    this.#sweepAt = Math.max(ownWritesDefaults.sweepAt, 2 * this.size)
  }

  #concerns({ group, plural }: Model): boolean {
    return group === this.#informer.model.group && plural === this.#informer.model.plural
  }

  /** Whether a read of the cache shows the write now. */
  #isShown(floor: Floor): boolean {
    if (this.#isPassed(floor)) return true
    // What is not selected tells no event; but an older state of it may be on its way, so the floor stays.
    return floor.hidden && this.#informer.hasSynced && this.#informer.get(floor.name) === undefined
  }

  /** Whether the cache shows the write for good. */
  #isPassed({ name, version, removedUid, acknowledgedAt }: Floor): boolean {
    if (this.#informer.listedAt > acknowledgedAt) return true
    const reached = this.#informer.version
    if (reached === undefined || compareVersions(reached, version) < 0) return false
    return removedUid === undefined || this.#informer.get(name)?.metadata.uid !== removedUid
  }
}
