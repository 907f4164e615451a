/** Polls `condition` until it holds. @throws Error after `timeoutMs`. */
export async function eventually(condition: () => boolean, timeoutMs = 60_000): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!condition()) {
    if (performance.now() > deadline)
      throw new Error(`condition not met within ${timeoutMs} ms: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 1))
  }
}
