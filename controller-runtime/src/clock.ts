/** Time, passed in so that tests can use a fake clock. */
export interface Clock {
  /** Wall-clock time in ms since the epoch. It may jump: display it, never measure with it. */
  now(): number
  /** Monotonic time in ms from an arbitrary start, for deadlines and durations. */
  monotonic(): number
  /**
   * Calls back once after `delayMs`, which may be of any length; 0 or less means the next turn. Returns a function that
   * cancels the call. The pending call keeps the process alive unless `unref` is true.
   */
  setTimeout(callback: () => void, delayMs: number, options?: { readonly unref?: boolean }): CancelTimer
}

/** Cancels a timer; does nothing once it has fired. */
export type CancelTimer = () => void

/** The longest delay of Node's `setTimeout`, about 24.8 days; with a longer one it fires at once. */
export const longestTimerMs = 2 ** 31 - 1

/** The system's clock. */
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
 * @throws the signal's reason if it is or gets aborted; the timer is then cancelled.
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
