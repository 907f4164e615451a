/**
 * What `work` comes to, or the abort, whichever is first; `work` itself is not ended by it.
 * @throws the signal's reason once it is aborted, whatever becomes of `work`.
 */
export function unlessAborted<R>(work: Promise<R>, signal: AbortSignal): Promise<R> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
