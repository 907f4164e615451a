import { statSync } from 'node:fs'
import type { Logger } from '../log.ts'

/** Warns if every user of the machine can read a file of tokens. */
export function warnIfReadableByAll(path: string, log: Logger): void {
  if (process.platform === 'win32') return
  const found = statSync(path, { throwIfNoEntry: false })
  if (found !== undefined && (found.mode & 0o004) !== 0)
    log.warn({ path }, 'every user can read this file of tokens; change its mode to 0600')
}
