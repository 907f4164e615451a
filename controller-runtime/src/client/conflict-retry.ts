import { isConflict } from '../api/errors.ts'
import { Backoff } from '../backoff.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'

/** Numbers that `retryOnConflict` works with. */
export const conflictRetryDefaults = Object.freeze({
  /** Attempts in all. Of writers that contend for one object somebody wins each round: enough for a dozen of them. */
  attempts: 12,
  /** Ceiling of the first pause: about one write. client-go's `DefaultRetry` begins with 10 ms too. */
  baseMs: 10,
  /** Ceiling of any pause. */
  maxMs: 500,
})

/** How often, and after which pauses, something is tried again after a Conflict. */
export interface ConflictRetryOptions {
  /** Attempts in all, from 1. Default `conflictRetryDefaults.attempts`. */
  readonly attempts?: number
  readonly signal?: AbortSignal
  readonly clock?: Clock
  /** From 0 up to, but not including, 1. Default `Math.random`. */
  readonly random?: () => number
}

/**
 * Runs `action`, which reads an object and writes it back, again and again while it rejects with Conflict, with pauses
 * of full jitter between. As client-go's `RetryOnConflict`.
 * @throws what `action` rejects with: anything but a Conflict at once, the last Conflict after all attempts; the
 * signal's reason when aborted.
 */
export function retryOnConflict<R>(action: () => Promise<R>, options: ConflictRetryOptions = {}): Promise<R> {
  return retryWhile(isConflict, action, options)
}

/** Runs `action` again while it rejects with what `again` takes for worth another attempt. */
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
