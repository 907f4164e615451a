import { Breather, type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { laterRevision } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import type { Storage } from '../storage/index.ts'
import { pagesOf } from './cache-loader.ts'
import type { LogFollower } from './log-follower.ts'
import type { ModelCache } from './model-cache.ts'
import { Alongside, storedRevisions } from './stored-revisions.ts'

export const checkDefaults = Object.freeze({
  /** Milliseconds between two rounds (Kubernetes: 5 min), in which every model is checked once. */
  intervalMs: 5 * 60_000,
  /** Each pause is longer or shorter by up to this part, so that the servers of one store do not check together. */
  jitter: 0.2,
  /** Keys of one page, without their values: some hundred kilobytes. */
  pageSize: 2_000,
  /** Names that the log shows of those that differ. */
  shown: 5,
})

/** `failure` is a difference; `error` says that the store could not be asked, or has forgotten the state meanwhile. */
export type CheckStatus = 'success' | 'failure' | 'error'

/**
 * Compares the caches with the store, model by model, every few minutes. What only the log feeds is only as good as the
 * log: a change that a proxy, a client library or a fault of ours has swallowed would otherwise be missing for ever.
 *
 * Names and revisions are compared, as of one revision of the store: a revision is written once, so equal ones have
 * equal content. The cache's side is a snapshot of the moment at which it was the state of that revision, so that what
 * happens meanwhile cannot raise a false alarm. A cache that differs is not used any more, and built again.
 */
export class ConsistencyCheck {
  readonly #storage: Storage
  readonly #follower: LogFollower
  readonly #log: Logger
  readonly #clock: Clock
  readonly #random: () => number
  readonly #intervalMs: number
  readonly #counts = new Map<string, Record<CheckStatus, number>>()

  constructor(parts: {
    storage: Storage
    follower: LogFollower
    log: Logger
    clock?: Clock
    random?: () => number
    intervalMs?: number
  }) {
    this.#storage = parts.storage
    this.#follower = parts.follower
    this.#log = parts.log
    this.#clock = parts.clock ?? systemClock
    this.#random = parts.random ?? Math.random
    this.#intervalMs = parts.intervalMs ?? checkDefaults.intervalMs
  }

  /** Checks made so far, by `<group>/<plural>`. */
  get counts(): ReadonlyMap<string, Readonly<Record<CheckStatus, number>>> {
    return this.#counts
  }

  /** Checks in rounds. Resolves once the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const stopped = () => signal.aborted
    while (!stopped()) {
      const spread = 1 + checkDefaults.jitter * (2 * this.#random() - 1)
      await sleep(this.#clock, this.#intervalMs * spread, signal).catch(() => {})
      for (const cache of this.#follower.caches()) {
        if (stopped()) return
        await this.check(cache, signal)
      }
    }
  }

  /** Compares one cache. @returns undefined where nothing can be said, as it is not the cache of its model any more. */
  async check(cache: ModelCache, signal: AbortSignal): Promise<CheckStatus | undefined> {
    const { resource } = cache.served
    const { store } = cache
    let status: CheckStatus
    let different: Difference | undefined
    try {
      different = await this.#compare(cache, signal)
      status = different.count === 0 ? 'success' : 'failure'
    } catch (error) {
      if (signal.aborted) return undefined
      this.#log.warn({ resource, err: error }, 'the cache could not be compared with the store')
      status = 'error'
    }
    // Removed, or built again, meanwhile: what was compared is of the past.
    if (this.#follower.cacheOf(cache.served) !== cache || cache.store !== store) return undefined
    const counts = this.#counts.get(resource) ?? { success: 0, failure: 0, error: 0 }
    this.#counts.set(resource, counts)
    counts[status]++
    if (status === 'failure') {
      this.#log.error({ resource, ...different }, 'the cache is not what the store has, and is built again')
      this.#follower.distrust(cache)
    }
    return status
  }

  async #compare(cache: ModelCache, signal: AbortSignal): Promise<Difference> {
    const { keyPrefix } = cache.served
    // Between two turns the cache is the state of the follower's position, or of its own where it was built later.
    const revision = laterRevision(this.#follower.position, cache.revision)
    const cached = new Alongside(storedRevisions(cache.store.snapshot(), cache.unreadable))
    const breather = new Breather(this.#clock)
    const found: Difference = { revision, count: 0, names: [] }
    const differs = (name: string) => {
      found.count++
      if (found.names.length < checkDefaults.shown) found.names.push(name)
    }
    const limit = checkDefaults.pageSize
    for await (const { pairs } of pagesOf(this.#storage, keyPrefix, {
      limit,
      signal,
      revision,
      keysOnly: true,
    })) {
      for (const { key, modRevision } of pairs) {
        const name = key.slice(keyPrefix.length)
        for (const surplus of cached.before(name)) differs(surplus.name)
        if (cached.take(name)?.revision !== modRevision) differs(name)
        const pause = breather.pause()
        if (pause !== undefined) await pause
      }
    }
    for (const surplus of cached.rest()) differs(surplus.name)
    return found
  }
}

interface Difference {
  readonly revision: number
  /** Names that only one of them has, or that they have at different revisions. */
  count: number
  /** The first few of them. */
  readonly names: string[]
}
