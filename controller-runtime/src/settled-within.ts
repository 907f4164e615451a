import { type Clock, sleep } from './clock.ts'

/** Resolves when the work settles, after `ms`, or when aborted. None of these stops the work. */
export async function settledWithin(
  clock: Clock,
  work: Promise<unknown>,
  ms: number,
  aborted?: AbortSignal,
): Promise<void> {
  const timer = new AbortController()
  const signal = aborted === undefined ? timer.signal : AbortSignal.any([timer.signal, aborted])
  await Promise.race([work, sleep(clock, ms, signal)]).catch(() => {})
  timer.abort()
}
