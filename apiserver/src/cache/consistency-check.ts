import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { laterRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import type { Storage } from '../storage/index.ts'
import { pagesOf } from './cache-loader.ts'
import type { LogFollower } from './log-follower.ts'
import type { ModelCache } from './model-cache.ts'
import { Alongside, storedRevisions } from './stored-revisions.ts'

export const checkDefaults = Object.freeze({
  /** Milliseconds between two rounds, as in Kubernetes. Each round checks every model once. */
  intervalMs: 5 * 60_000,
  /** Each pause varies by up to this fraction, so that the servers of one store do not check together. */
  jitter: 0.2,
  /** Keys in one page, without their values: some hundred kilobytes. */
  pageSize: 2_000,
  /** Differing objects that are logged. */
  shown: 5,
})

/** `failure`: the cache differs. `error`: the store could not be read, or compacted the revision during the check. */
type CheckStatus = 'success' | 'failure' | 'error'

/**
 * Compares the caches with the store, model by model, every few minutes. A change that a proxy, a client library or a
 * bug has dropped from the log would otherwise be missing until the next restart.
 *
 * Compares keys and revisions at one revision of the store; a revision is written once, so equal revisions have equal
 * content. The cache's side is a snapshot of that revision, so writes during the check raise no false alarm. A cache
 * that differs is discarded and rebuilt.
 */
export class ConsistencyCheck {
  readonly #storage: Storage
  readonly #follower: LogFollower
  readonly #log: Logger
  readonly #clock: Clock
  readonly #random: () => number
  readonly #intervalMs: number
  readonly #counts = new Map<string, Readonly<Record<CheckStatus, number>>>()

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

  /** Returns the counts of checks of one kind, `<group>/<plural>`. */
  countsOf(resource: string): Readonly<Record<CheckStatus, number>> {
    return this.#counts.get(resource) ?? { success: 0, failure: 0, error: 0 }
  }

  /** Runs the checks in rounds. Resolves when the signal is aborted. */
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

  /** Checks one cache. Returns undefined if the cache was replaced during the check. */
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
      this.#log.warn({ resource, err: error }, 'failed to compare the cache with the store')
      status = 'error'
    }
    // Removed or rebuilt during the check: the result is outdated.
    if (this.#follower.cacheOf(cache.served) !== cache || cache.store !== store) return undefined
    const counts = this.countsOf(resource)
    this.#counts.set(resource, { ...counts, [status]: counts[status] + 1 })
    if (status === 'failure') {
      this.#log.error({ resource, ...different }, 'the cache differs from the store, rebuilding it')
      this.#follower.distrust(cache)
    }
    return status
  }

  async #compare(cache: ModelCache, signal: AbortSignal): Promise<Difference> {
    const { keyPrefix } = cache.served
    // Between two turns the cache is at the follower's position, or at its own revision if it was built later.
    const revision = laterRevision(this.#follower.position, cache.revision)
    const cached = new Alongside(storedRevisions(cache.store.snapshot(), cache.unreadable))
    const yielder = new Yielder(this.#clock)
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
        for (const surplus of cached.before(name)) differs(surplus.key)
        if (cached.take(name)?.revision !== modRevision) differs(name)
        const pause = yielder.pause()
        if (pause !== undefined) await pause
      }
    }
    for (const surplus of cached.rest()) differs(surplus.key)
    return found
  }
}

interface Difference {
  readonly revision: number
  /** Objects that only one side has, or that differ in their revision. */
  count: number
  /** The keys of the first few. */
  readonly names: string[]
}
