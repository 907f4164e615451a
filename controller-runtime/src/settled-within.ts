import { type Clock, sleep } from './clock.ts'
import { linkedSignal } from './linked-signal.ts'

/** Resolves when the work settles, after `ms`, or when aborted. None of these stops the work. */
export async function settledWithin(
  clock: Clock,
  work: Promise<unknown>,
  ms: number,
  aborted?: AbortSignal,
): Promise<void> {
  const timer = linkedSignal(aborted)
  await Promise.race([work, sleep(clock, ms, timer.signal)]).catch(() => {})
  timer.abort()
}
