import { setMaxListeners } from 'node:events'

/** The user, or the system, asked a command to stop. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError'
}

/**
 * Returns a signal that is aborted when the user interrupts a command that runs once, so that it can remove what it has
 * begun. A second interruption ends the process.
 */
export function interruption(): AbortSignal {
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => interrupted.abort(new InterruptedError(`stopped by ${signal}`)))
  // Each transaction of a restore listens.
  setMaxListeners(0, interrupted.signal)
  return interrupted.signal
}
