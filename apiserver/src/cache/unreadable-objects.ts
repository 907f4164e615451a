import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import { unlessAborted } from '@setpoint/controller-runtime/internal'
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

/** The keys that sign tokens of service accounts. They are no object, but encrypted as one. */
interface CheckedKeys {
  readonly isReadable: boolean
  /** Reads them. Never rejects. */
  check(): Promise<void>
}

/**
 * The objects that are not in the caches because they cannot be decrypted or decoded. When a key is back, the caches of
 * its objects are rebuilt, so that lists have them again and watches start over. It also watches the keys of service
 * accounts.
 */
export class UnreadableObjects {
  readonly #storage: Storage
  readonly #follower: LogFollower
  readonly #signingKeys: CheckedKeys | undefined
  readonly #log: Logger
  readonly #clock: Clock

  constructor(parts: {
    storage: Storage
    follower: LogFollower
    signingKeys?: CheckedKeys
    log: Logger
    clock?: Clock
  }) {
    this.#storage = parts.storage
    this.#follower = parts.follower
    this.#signingKeys = parts.signingKeys
    this.#log = parts.log
    this.#clock = parts.clock ?? systemClock
  }

  /** Words for `/readyz`, with the kinds after a semicolon, or undefined if all can be read. */
  get state(): string | undefined {
    const titles = this.#caches().map(({ served, unreadable }) => `${unreadable.size} ${served.title}`)
    if (this.#signingKeys?.isReadable === false) titles.push('the signing keys of service accounts')
    return titles.length === 0 ? undefined : `some cannot be read; ${titles.join(', ')}`
  }

  /**
   * Looks every `retryMs` whether they can be read again: a key service may be back. Resolves when the signal is
   * aborted.
   */
  async run(signal: AbortSignal): Promise<void> {
    await this.#checkKeys(signal)
    while (!signal.aborted) {
      await sleep(this.#clock, unreadableDefaults.retryMs, signal).catch(() => {})
      if (!signal.aborted) await this.retry(signal)
    }
  }

  /** Rebuilds the caches of kinds with an object that can be read again, and reads the keys of service accounts. */
  async retry(signal?: AbortSignal): Promise<void> {
    await this.#checkKeys(signal)
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

  /** The signal only ends the wait. */
  async #checkKeys(signal: AbortSignal | undefined): Promise<void> {
    if (this.#signingKeys !== undefined)
      await unlessAborted(this.#signingKeys.check(), signal).catch(() => {})
  }

  #caches(): ModelCache[] {
    return this.#follower.caches().filter(({ unreadable }) => unreadable.size > 0)
  }
}
