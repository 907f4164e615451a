import { setMaxListeners } from 'node:events'

/**
 * Runs a command that may be stopped between two of its steps: the first SIGINT or SIGTERM aborts the signal, the second one
 * ends the process.
 * @throws the error of `run`
 */
export async function untilInterrupted<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stopping = new AbortController()
  // Several calls of the store listen at a time.
  setMaxListeners(0, stopping.signal)
  const stop = (name: NodeJS.Signals) => stopping.abort(new Error(`stopped by ${name}`))
  const names = ['SIGINT', 'SIGTERM'] as const
  for (const name of names) process.once(name, stop)
  try {
    return await run(stopping.signal)
  } finally {
    for (const name of names) process.off(name, stop)
  }
}
