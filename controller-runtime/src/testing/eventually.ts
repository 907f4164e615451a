/** Waits until `condition` holds, looking at it after every turn of the event loop. @throws after `timeoutMs`. */
export async function eventually(condition: () => boolean, timeoutMs = 60_000): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 1))
  }
}
