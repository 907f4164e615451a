import { statSync } from 'node:fs'
import type { Logger } from '../log/index.ts'

/** Logs a warning if every user can read a token file. */
export function warnIfReadableByAll(path: string, log: Logger): void {
  if (process.platform === 'win32') return
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined && (found.mode & 0o004) !== 0)
    log.warn({ path }, 'every user can read the token file; change its mode to 0600')
}
