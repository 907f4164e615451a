import { isConflict } from '../api/errors.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import { Backoff } from '../backoff.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'

/** Defaults of `retryOnConflict`. */
export const conflictRetryDefaults = Object.freeze({
  /** Attempts in total. One writer wins each round, so twelve contenders all succeed. */
  attempts: 12,
  /** Upper bound of the first pause, in ms: about one write. client-go's `DefaultRetry` also starts at 10 ms. */
  baseMs: 10,
  /** Upper bound of every pause, in ms. */
  maxMs: 500,
})

/** Attempts and pauses of `retryOnConflict`. */
export interface ConflictRetryOptions {
  /** Attempts in total, from 1. Default `conflictRetryDefaults.attempts`. */
  readonly attempts?: number
  readonly signal?: AbortSignal
  readonly clock?: Clock
  /** Returns a number in [0, 1). Default `Math.random`. */
  readonly random?: () => number
}

const retryKeys: KeysOf<ConflictRetryOptions> = { attempts: true, signal: true, clock: true, random: true }

/**
 * Runs `action`, which reads an object and writes it back, until it does not reject with Conflict. Pauses between
 * attempts have full jitter. As client-go's `RetryOnConflict`.
 * @throws the error of `action`: at once unless it is a Conflict, else after the last attempt; the signal's reason when
 * aborted; TypeError for an unknown option.
 */
export async function retryOnConflict<R>(
  action: () => Promise<R>,
  options: ConflictRetryOptions = {},
): Promise<R> {
  refuseUnknownKeys(options, retryKeys, 'the options of retryOnConflict')
  return retryWhile(isConflict, action, options)
}

/** Runs `action` until it succeeds or rejects with an error that `again` does not accept. */
export async function retryWhile<R>(
  again: (error: unknown) => boolean,
  action: () => Promise<R>,
  options: ConflictRetryOptions,
): Promise<R> {
  const {
    attempts = conflictRetryDefaults.attempts,
    signal,
    clock = systemClock,
    random = Math.random,
  } = options
  const backoff = new Backoff({ ...conflictRetryDefaults, random })
  for (let attempt = 1; ; attempt++) {
    signal?.throwIfAborted()
    try {
      return await action()
    } catch (error) {
      if (attempt >= attempts || !again(error)) throw error
    }
    await sleep(clock, backoff.next(), signal)
  }
}
