import { type Clock, sleep, systemClock } from '@setpoint/controller-runtime'
import type { ApiError } from '@setpoint/controller-runtime/api'
import { unlessAborted, Yielder } from '@setpoint/controller-runtime/internal'
import type { ModelCache } from './model-cache.ts'
import { prepareViews } from './prepared-views.ts'

export const unconvertedDefaults = Object.freeze({
  /** Milliseconds after the first failure until the webhook is asked again, doubled up to the second. */
  againMs: 500,
  longestAgainMs: 60_000,
  /** Milliseconds after which an attempt ends with the next failure. */
  patienceMs: 1_000,
  /** Milliseconds that a kind waits for its first attempt before it is served. */
  firstMs: 5_000,
  /** Objects that are converted together. */
  together: 500,
})

/** The attempts under way. */
const attempts = new WeakMap<ModelCache, Promise<ApiError | undefined>>()

/**
 * Asks a webhook again to convert the objects to the hub that it could not convert before. Replaces those that succeed.
 * @returns the error of an object that is left. All who call meanwhile share the attempt
 */
export function convertAgain(cache: ModelCache): Promise<ApiError | undefined> {
  const running = attempts.get(cache) ?? attemptOn(cache).finally(() => attempts.delete(cache))
  attempts.set(cache, running)
  return running
}

async function attemptOn(cache: ModelCache): Promise<ApiError | undefined> {
  const left = [...cache.unconverted].flatMap(key => cache.store.get(key) ?? [])
  const yielder = new Yielder(systemClock)
  const begunAt = systemClock.monotonic()
  let hasReplaced = false
  let failure: ApiError | undefined
  for (let at = 0; at < left.length; at += unconvertedDefaults.together) {
    const entries = left.slice(at, at + unconvertedDefaults.together)
    const views = await prepareViews(cache, entries, cache.served.hub)
    let isReached = false
    for (const [entry, view] of views) {
      if (Buffer.isBuffer(view)) {
        cache.replaceConverted(entry, view)
        isReached = true
      } else failure ??= view
      const pause = yielder.pause()
      if (pause !== undefined) await pause
    }
    hasReplaced ||= isReached
    // Those that follow would wait as long.
    if (!isReached && systemClock.monotonic() - begunAt > unconvertedDefaults.patienceMs) break
  }
  if (hasReplaced) cache.restart()
  return failure
}

/** Converts the objects of a cache to the hub that a webhook could not convert before. */
export class UnconvertedObjects {
  readonly #cache: ModelCache
  readonly #clock: Clock
  #isWorking = false

  constructor(cache: ModelCache, clock: Clock = systemClock) {
    this.#cache = cache
    this.#clock = clock
  }

  /** Makes the first attempt. Resolves at its end, or after some seconds. */
  async begin(signal: AbortSignal): Promise<void> {
    if (this.#cache.unconverted.size === 0) return
    const late = new AbortController()
    const limit = sleep(this.#clock, unconvertedDefaults.firstMs, late.signal)
    await unlessAborted(Promise.race([convertAgain(this.#cache), limit]), signal).finally(() => late.abort())
  }

  /** Follows the cache until the signal is aborted. */
  follow(signal: AbortSignal): void {
    const wake = () => this.#wake(signal)
    signal.addEventListener('abort', this.#cache.observe({ changed: wake, reset: wake }), { once: true })
    wake()
  }

  #wake(signal: AbortSignal): void {
    if (this.#isWorking || signal.aborted || this.#cache.unconverted.size === 0) return
    this.#isWorking = true
    void this.#work(signal).finally(() => {
      this.#isWorking = false
    })
  }

  /** Never rejects. */
  async #work(signal: AbortSignal): Promise<void> {
    let againMs: number = unconvertedDefaults.againMs
    try {
      for (;;) {
        await convertAgain(this.#cache)
        if (this.#cache.unconverted.size === 0) return
        await sleep(this.#clock, againMs, signal)
        againMs = Math.min(unconvertedDefaults.longestAgainMs, 2 * againMs)
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
}
