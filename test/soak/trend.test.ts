import { describe, expect, it } from 'vitest'
import { trendOf } from './trend.ts'

const minuteMs = 60_000

describe('a trend', () => {
  it('has the slope of a line, whatever regular swing is added to it', () => {
    const points = Array.from({ length: 61 }, (_, minute) => ({
      atMs: 5_000_000 + minute * minuteMs,
      value: 100 + 0.5 * minute + (minute % 2 === 0 ? 20 : -20),
    }))
    const { perHour, rise, durationMs, mean } = trendOf(points)
    expect(perHour).toBeCloseTo(30, 0)
    expect(rise).toBeCloseTo(30, 0)
    expect(mean).toBeCloseTo(115, 0)
    expect(durationMs).toBe(60 * minuteMs)
  })

  it('needs points at two times', () => {
    const point = { atMs: 1, value: 1 }
    expect(() => trendOf([point, point])).toThrow(RangeError)
    expect(() => trendOf([])).toThrow(RangeError)
  })
})
