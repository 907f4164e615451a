import { inspect } from 'node:util'
import type { Logger } from '../logger.ts'

/** Returns a logger that prints every line above the level debug to standard error, with its fields. */
export function consoleLogger(fields: object = {}): Logger {
  const print = (level: string) => (own: object, message: string) => {
    process.stderr.write(`${level} ${message} ${inspect({ ...fields, ...own })}\n`)
  }
  return {
    debug() {},
    info: print('INFO'),
    warn: print('WARN'),
    error: print('ERROR'),
    child: own => consoleLogger({ ...fields, ...own }),
  }
}
