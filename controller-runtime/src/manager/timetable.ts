import { Cron } from 'croner'
import { errorMessage } from '../api/error-message.ts'

/** The due times of a schedule. */
export interface Timetable {
  /** Returns the first due time after `afterMs`, in ms since the epoch; Infinity without one. */
  next(afterMs: number): number
}

const unitMs: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 }
/** A year. */
const longestIntervalMs = 8_760 * 3_600_000
const accepted =
  "an interval such as '30s', '5m' or '2h', or a cron expression of five fields such as '0 3 * * *'"

/**
 * Reads an interval or a cron expression. Both are in UTC and depend on the clock only, not on the start of the
 * process: an interval is due at its multiples since 1970, so '5m' at minutes 0, 5, 10 and so on. Every process
 * computes the same times.
 * @throws TypeError that quotes the expression and says what is wrong
 */
export function readTimetable(expression: unknown): Timetable {
  if (typeof expression !== 'string') throw new TypeError(`the expression must be ${accepted}`)
  const [, digits, unit = ''] = /^(\d+)([a-z]+)$/i.exec(expression) ?? []
  return digits === undefined
    ? readCron(expression)
    : readInterval(expression, Number(digits) * (unitMs[unit] ?? Number.NaN))
}

function readInterval(expression: string, intervalMs: number): Timetable {
  if (Number.isNaN(intervalMs)) throw invalid(expression, 'the unit must be s, m or h')
  if (intervalMs < 1_000 || intervalMs > longestIntervalMs)
    throw invalid(expression, 'an interval is at least 1s and at most 8760h, a year')
  return { next: afterMs => (Math.floor(afterMs / intervalMs) + 1) * intervalMs }
}

function readCron(expression: string): Timetable {
  const fields = expression.trim().split(/\s+/)
  // The library also accepts seconds, years and single dates.
  if (fields.length !== 5 && !/^@\w+$/.test(expression)) throw invalid(expression, `use ${accepted}`)
  let cron: Cron
  try {
    cron = new Cron(expression, { mode: '5-part', timezone: 'UTC', paused: true })
  } catch (error) {
    // The library counts days and months from 0, so its numbers would not be those of the expression.
    const problem = errorMessage(error).replace(/^CronPattern: /, '')
    throw invalid(expression, problem.replace(/^(Invalid value for \w+): \d+$/, '$1'))
  }
  const next = (afterMs: number) => cron.nextRun(new Date(afterMs))?.getTime() ?? Number.POSITIVE_INFINITY
  if (next(0) === Number.POSITIVE_INFINITY) throw invalid(expression, 'there is no such day')
  return { next }
}

function invalid(expression: string, problem: string): TypeError {
  return new TypeError(`the expression ${JSON.stringify(expression)} is not valid: ${problem}`)
}
