import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import type { Logger } from '../log/index.ts'
import { type Storage, undecrypted } from '../storage/index.ts'
import type { LogFollower } from './log-follower.ts'
import type { ModelCache } from './model-cache.ts'

export const unreadableDefaults = Object.freeze({
  /** Milliseconds between two attempts to read again what could not be decrypted. */
  retryMs: 60_000,
  /** Objects of a kind that an attempt reads. One that can be read again makes the cache read all of them. */
  sample: 20,
})

/**
 * The objects that are not in the caches because they cannot be decrypted or decoded. When a key is back, the caches of its
 * objects are rebuilt, so that lists have them again and watches start over.
 */
export class UnreadableObjects {
  readonly #storage: Storage
  readonly #follower: LogFollower
  readonly #log: Logger
  readonly #clock: Clock

  constructor(parts: { storage: Storage; follower: LogFollower; log: Logger; clock?: Clock }) {
    this.#storage = parts.storage
    this.#follower = parts.follower
    this.#log = parts.log
    this.#clock = parts.clock ?? systemClock
  }

  /** Words for `/readyz`, with the kinds after a semicolon, or undefined if every object can be read. */
  get state(): string | undefined {
    const titles = this.#caches().map(({ served, unreadable }) => `${unreadable.size} ${served.title}`)
    return titles.length === 0 ? undefined : `some cannot be read; ${titles.join(', ')}`
  }

  /** Looks every `retryMs` whether they can be read again: a key service may be back. Resolves when the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(this.#clock, unreadableDefaults.retryMs, signal).catch(() => {})
      if (!signal.aborted) await this.retry(signal)
    }
  }

  /** Rebuilds the caches of kinds with an object that can be read again. */
  async retry(signal?: AbortSignal): Promise<void> {
    for (const cache of this.#caches()) {
      const encrypted = [...cache.unreadable].filter(([, { isEncrypted }]) => isEncrypted)
      for (const [key, { revision }] of encrypted.slice(0, unreadableDefaults.sample)) {
        if (signal?.aborted) return
        const { served } = cache
        // The store reports its outages itself.
        const { pair } = await this.#storage
          .get(served.keyOf(key), { signal })
          .catch(() => ({ pair: undefined }))
        // A later write reaches the cache through the log.
        if (pair?.modRevision !== revision || undecrypted(pair) !== undefined) continue
        this.#log.info({ resource: served.resource }, 'objects can be decrypted again, rebuilding the cache')
        this.#follower.distrust(cache)
        break
      }
    }
  }

  #caches(): ModelCache[] {
    return this.#follower.caches().filter(({ unreadable }) => unreadable.size > 0)
  }
}
