import type { Logger } from '../logger.ts'
import type { ClientOptions } from './create-client.ts'

export const logWarningsDefaults = Object.freeze({
  /** Warnings that are remembered. Past it all are forgotten, and logged once more. */
  remembered: 1_000,
})

/** Returns an `onWarning` that logs each warning once: a reconciler repeats its requests. */
export function logWarnings(log: Logger): NonNullable<ClientOptions['onWarning']> {
  const seen = new Set<string>()
  return (warning, { method, path }) => {
    if (seen.has(warning)) return
    if (seen.size >= logWarningsDefaults.remembered) seen.clear()
    seen.add(warning)
    log.warn({ method, path }, `the server warns: ${warning}`)
  }
}
