import { describe, expect, test } from 'vitest'
import { readTimetable } from './timetable.ts'

const at = (text: string) => Date.parse(text)
const next = (expression: string, after: string) =>
  new Date(readTimetable(expression).next(at(after))).toISOString()

describe('an interval', () => {
  test.each([
    ['30s', '2030-01-01T00:00:29.999Z', '2030-01-01T00:00:30.000Z'],
    ['30s', '2030-01-01T00:00:30.000Z', '2030-01-01T00:01:00.000Z'],
    ['5m', '2030-01-01T00:07:00.000Z', '2030-01-01T00:10:00.000Z'],
    ['2h', '2030-01-01T23:00:00.000Z', '2030-01-02T00:00:00.000Z'],
    ['1s', '2030-01-01T00:00:00.000Z', '2030-01-01T00:00:01.000Z'],
  ])('%s after %s is due at %s, whenever the process has started', (expression, after, expected) => {
    expect(next(expression, after)).toBe(expected)
  })

  test.each(['0s', '8761h', '5d', '5M', '10ms'])('%s is refused', expression => {
    expect(() => readTimetable(expression)).toThrow(TypeError)
    expect(() => readTimetable(expression)).toThrow(`the expression "${expression}" is not valid`)
  })
})

describe('a cron expression', () => {
  test.each([
    ['0 3 * * *', '2030-01-01T03:00:00.000Z', '2030-01-02T03:00:00.000Z'],
    ['*/15 * * * *', '2030-01-01T00:14:59.999Z', '2030-01-01T00:15:00.000Z'],
    // Central European summer time starts on that day; UTC does not change.
    ['30 2 * * *', '2030-03-31T00:00:00.000Z', '2030-03-31T02:30:00.000Z'],
    ['0 0 29 2 *', '2030-01-01T00:00:00.000Z', '2032-02-29T00:00:00.000Z'],
    // As in cron, either of the two fields for days is enough.
    ['0 0 13 * 5', '2030-01-01T00:00:00.000Z', '2030-01-04T00:00:00.000Z'],
    ['@daily', '2030-01-01T12:00:00.000Z', '2030-01-02T00:00:00.000Z'],
  ])('%s after %s is due at %s, in UTC', (expression, after, expected) => {
    expect(next(expression, after)).toBe(expected)
  })

  test.each([
    ['60 * * * *', /"60 \* \* \* \*" is not valid: .*minute/],
    ['0 0 32 * *', /is not valid: Invalid value for day$/],
    ['0 0 * 13 *', /is not valid: Invalid value for month$/],
    ['@every 5m', /use an interval such as/],
    ['* * * *', /use an interval such as '30s', '5m' or '2h', or a cron expression of five fields/],
    ['0 * * * * *', /five fields/],
    ['2031-01-01T00:00:00', /five fields/],
    ['', /five fields/],
    ['often', /five fields/],
    ['@often', /"@often" is not valid/],
    ['@reboot', /"@reboot" is not valid/],
    ['0 0 31 2 *', /there is no such day/],
  ])('%s is refused with the reason', (expression, message) => {
    expect(() => readTimetable(expression)).toThrow(TypeError)
    expect(() => readTimetable(expression)).toThrow(message)
  })
})

test('anything but a string is refused', () => {
  for (const expression of [60, undefined, {}]) expect(() => readTimetable(expression)).toThrow(TypeError)
})
