import { describe, expect, it } from 'vitest'
import { trendOf } from './trend.ts'

const minuteMs = 60_000

function hour(of: (minute: number) => number, loadOf: (minute: number) => number = () => 5) {
  return Array.from({ length: 61 }, (_, minute) => ({
    atMs: 5_000_000 + minute * minuteMs,
    value: of(minute),
    load: loadOf(minute),
  }))
}

describe('a trend', () => {
  it('has the slope of a line, whatever regular swing is added to it', () => {
    const swing = (minute: number) => (minute % 2 === 0 ? 20 : -20)
    const trend = trendOf(hour(minute => 100 + 0.5 * minute + swing(minute)))
    expect(trend.perHour).toBeCloseTo(30, 0)
    expect(trend.rise).toBeCloseTo(30, 0)
    expect(trend.mean).toBeCloseTo(115, 0)
    expect(trend.durationMs).toBe(60 * minuteMs)
    expect(trend.confusion).toBe(0)
  })

  it('tells the effect of time from that of the load', () => {
    const load = (minute: number) => 10 + 8 * Math.sin(minute / 7) + minute / 10
    const trend = trendOf(hour(minute => 100 + 0.5 * minute + 3 * load(minute), load))
    expect(trend.perHour).toBeCloseTo(30, 5)
    expect(trend.perLoad).toBeCloseTo(3, 5)
  })

  it('says when the two cannot be told apart', () => {
    const load = (minute: number) => 2 * minute
    expect(trendOf(hour(load, load)).confusion).toBeCloseTo(1, 5)
  })

  it('needs points at two times', () => {
    const point = { atMs: 1, value: 1, load: 0 }
    expect(() => trendOf([point, point])).toThrow(RangeError)
    expect(() => trendOf([])).toThrow(RangeError)
  })
})
