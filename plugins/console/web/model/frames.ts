/** Milliseconds between two updates of the page: what changes faster than that, nobody reads. */
const betweenMs = 33

/**
 * Runs a function in a coming frame, however often it is asked for until then: so thousands of changes a second become some
 * thirty updates of the page. A hidden page has no frames, so a timer stands in.
 */
export function oncePerFrame(run: () => void): () => void {
  let isDue = false
  let ranAt = -Infinity
  let timer: ReturnType<typeof setTimeout> | undefined
  let frame = 0
  const work = () => {
    clearTimeout(timer)
    cancelAnimationFrame(frame)
    isDue = false
    ranAt = performance.now()
    run()
  }
  const inFrame = () => {
    if (performance.now() - ranAt >= betweenMs) work()
    else frame = requestAnimationFrame(inFrame)
  }
  return () => {
    if (isDue) return
    isDue = true
    frame = requestAnimationFrame(inFrame)
    timer = setTimeout(work, 250)
  }
}
