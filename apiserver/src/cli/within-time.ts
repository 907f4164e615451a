/** Resolves when the work has settled, after `ms`, or when aborted. */
export async function withinTime(work: Promise<unknown>, ms: number, aborted?: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>(resolve => {
    timer = setTimeout(resolve, aborted?.aborted ? 0 : ms)
    aborted?.addEventListener('abort', () => resolve(), { once: true })
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
