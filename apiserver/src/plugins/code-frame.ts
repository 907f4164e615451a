import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage } from '@setpoint/controller-runtime/api'
import { placeOf } from './error-place.ts'

/** Lines of source before and after the one that threw. */
const context = 2

/**
 * Explains an error of a plugin to its author: the message, and the lines of source where it, or its cause, was thrown.
 * For `setpoint dev` only, because a message may hold anything.
 */
export function explainFault(error: unknown, dir: string): string {
  const frame = codeFrameOf(error, dir)
  return frame === undefined ? errorMessage(error) : `${errorMessage(error)}\n\n${frame}`
}

/** Returns the lines of source in a plugin's folder where an error, or its cause, was thrown, or undefined. */
export function codeFrameOf(error: unknown, dir: string): string | undefined {
  const place = existsSync(dir) ? placeOf(error, dir) : undefined
  if (place === undefined)
    return error instanceof Error && error.cause !== error ? codeFrameOf(error.cause, dir) : undefined
  const [, file = '', number = ''] = /^(.*):(\d+)$/.exec(place) ?? []
  const line = Number(number)
  const lines = linesOf(join(dir, file))
  if (lines[line - 1] === undefined) return undefined
  const first = Math.max(1, line - context)
  const last = Math.min(lines.length, line + context)
  const width = String(last).length
  const shown = Array.from({ length: last - first + 1 }, (_, at) => {
    const each = first + at
    return `${each === line ? '>' : ' '} ${String(each).padStart(width)} | ${lines[each - 1]}`.trimEnd()
  })
  return [place, ...shown].join('\n')
}

/** The file may have changed or gone since it was loaded. */
function linesOf(path: string): readonly string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch {
    return []
  }
}
