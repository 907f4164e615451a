/** Resolves when the work has settled, after `ms`, or when aborted. Returns true if the work has settled. */
export async function withinTime(
  work: Promise<unknown>,
  ms: number,
  aborted?: AbortSignal,
): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>(resolve => {
    timer = setTimeout(() => resolve(false), aborted?.aborted ? 0 : ms)
    aborted?.addEventListener('abort', () => resolve(false), { once: true })
  })
  const isDone = await Promise.race([work.then(() => true), late])
  clearTimeout(timer)
  return isDone
}
