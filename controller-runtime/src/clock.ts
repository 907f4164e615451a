/**
 * Time, passed in so that tests run with a fake one and never sleep.
 */
export interface Clock {
  /** Wall-clock time, ms since the epoch. May jump; for showing, never for measuring. */
  now(): number
  /** Ms on a clock that never goes back, from an arbitrary start; for deadlines and durations. */
  monotonic(): number
  /**
   * Calls back once, after `delayMs` of any length (0 or less: at the next turn). Answers what cancels it.
   * The pending call keeps the process alive unless `unref` is true.
   */
  setTimeout(callback: () => void, delayMs: number, options?: { readonly unref?: boolean }): CancelTimer
}

/** Cancels a timer; harmless once it has fired. */
export type CancelTimer = () => void

/** Node's `setTimeout` fires at once for anything longer (about 24.8 days). */
export const longestTimerMs = 2 ** 31 - 1

/** The clock of the machine. */
export const systemClock: Clock = Object.freeze({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout(callback: () => void, delayMs: number, options?: { readonly unref?: boolean }): CancelTimer {
    const deadline = performance.now() + delayMs
    let timer: NodeJS.Timeout
    const arm = (remainingMs: number) => {
      const clamped = remainingMs > longestTimerMs
      timer = setTimeout(
        clamped ? () => arm(deadline - performance.now()) : callback,
        clamped ? longestTimerMs : Math.max(0, remainingMs),
      )
      if (options?.unref) timer.unref()
    }
    arm(delayMs)
    return () => clearTimeout(timer)
  },
})

/**
 * Resolves after `delayMs`.
 * @throws the signal's reason when it is, or becomes, aborted; the timer is then gone.
 */
export function sleep(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const onAbort = () => {
      cancel()
      reject(signal?.reason)
    }
    const cancel = clock.setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, delayMs)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
