import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { compareVersions } from '../api/version.ts'
import type { Informer } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import type { WriteObserver } from '../client/observed-client.ts'
import type { Clock } from '../clock.ts'

interface Floor {
  /** The cache must have reached it. */
  version: string
  /** The object of this uid was removed: the cache must not hold it any more. */
  removedUid: string | undefined
  /** Monotonic ms of the acknowledgement: a list asked for later contains the write. */
  acknowledgedAt: number
}

/**
 * What a controller has written of its model's objects and has not seen in its cache yet, so that no reconcile works
 * on a state older than its own last write. The idea is KEP-5647's and java-operator-sdk's; as in controller-runtime's
 * design the reader waits, never the writer. Versions are comparable, which is what it rests on.
 */
export class OwnWrites<T extends ApiObject = ApiObject> implements WriteObserver {
  readonly #informer: Informer<T>
  readonly #clock: Clock
  /** An entry for each name whose last write the cache may not show; bounded by the writes of the last moments. */
  readonly #floors = new Map<string, Floor>()
  readonly #uncertain = new Set<string>()

  constructor(informer: Informer<T>, clock: Clock) {
    this.#informer = informer
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
      version: newest,
      removedUid: removed ? uid : previous?.removedUid,
      acknowledgedAt: this.#clock.monotonic(),
    })
    // The event may have overtaken the answer.
    this.settle(name)
  }

  uncertain(model: Model, name: string): void {
    if (this.#concerns(model)) this.#uncertain.add(name)
  }

  /** Drops what the cache shows by now; to be called when it has changed. */
  settle(name: string): void {
    const floor = this.#floors.get(name)
    if (floor !== undefined && this.#isReached(name, floor)) this.#floors.delete(name)
  }

  /**
   * Waits, at most `timeoutMs`, until the cache shows the last write of that object. Answers whether it does. Where
   * the outcome of a write is unknown, the server is asked.
   */
  async caughtUp(
    name: string,
    client: Client,
    model: Model<T>,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (this.#uncertain.has(name)) {
      const live = await client.getIfExists(model, name, { signal })
      this.#uncertain.delete(name)
      const cached = this.#informer.get(name)
      if (live !== undefined) this.wrote(model, live, false)
      else if (cached !== undefined) this.wrote(model, cached, true)
    }
    const floor = this.#floors.get(name)
    if (floor === undefined) return true
    const reached = await this.#informer.waitUntil(() => this.#isReached(name, floor), timeoutMs, signal)
    this.settle(name)
    return reached
  }

  #concerns({ group, plural }: Model): boolean {
    return group === this.#informer.model.group && plural === this.#informer.model.plural
  }

  #isReached(name: string, { version, removedUid, acknowledgedAt }: Floor): boolean {
    if (this.#informer.listedAt > acknowledgedAt) return true
    const reached = this.#informer.version
    if (reached === undefined || compareVersions(reached, version) < 0) return false
    return removedUid === undefined || this.#informer.get(name)?.metadata.uid !== removedUid
  }
}
