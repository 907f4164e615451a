import { setMaxListeners } from 'node:events'

/** See `linkedSignal`. */
export interface LinkedSignal {
  readonly signal: AbortSignal
  /** Aborts this signal, not its sources. */
  abort(reason?: unknown): void
  /** Detaches the signal from its sources. */
  dispose(): void
}

/**
 * Returns a signal that is aborted with the first of its sources, for the same reason. Dispose of it when the work has
 * ended: unlike `AbortSignal.any`, it then leaves no trace in a source that lives on.
 */
export function linkedSignal(...sources: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController()
  const known = sources.filter(source => source !== undefined)
  const dispose = () => {
    for (const source of known) source.removeEventListener('abort', follow)
  }
  const abort = (reason?: unknown) => {
    dispose()
    controller.abort(reason)
  }
  const follow = () => abort(known.find(({ aborted }) => aborted)?.reason)
  if (known.some(({ aborted }) => aborted)) follow()
  else {
    // A source may have many links at a time; Node warns from the eleventh listener on.
    if (known.length > 0) setMaxListeners(0, ...known)
    for (const source of known) source.addEventListener('abort', follow)
  }
  return { signal: controller.signal, abort, dispose }
}
