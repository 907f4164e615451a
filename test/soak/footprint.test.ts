import { describe, expect, it } from 'vitest'
import { footprintDefaults, judge, type Reading } from './footprint.ts'

const mebi = 1024 * 1024
const minuteMs = 60_000

/** A reading each 10 s of an hour. The process starts again after 20 minutes. */
function hour(at: (minute: number) => Partial<Reading>): Reading[] {
  return Array.from({ length: 361 }, (_, n) => {
    const minute = n / 6
    return {
      atMs: minute * minuteMs,
      startedAt: minute < 20 ? 1 : 1_201,
      heap: (40 + (n % 5)) * mebi,
      resident: 150 * mebi,
      file: 30 * mebi,
      writes: minute * 10_000,
      ...at(minute),
    }
  })
}

const violations = (readings: readonly Reading[]) =>
  judge(readings, 'embedded').flatMap(({ what, isViolation }) => (isViolation ? [what] : []))
const judged = (readings: readonly Reading[], store: 'embedded' | 'etcd' = 'embedded') =>
  judge(readings, store).flatMap(({ what, trend }) => (trend === undefined ? [] : [what]))

describe('the judgement of a run', () => {
  it('accepts memory that swings, and growth before the second half', () => {
    const readings = hour(minute => ({ file: Math.min(minute, 30) * mebi }))
    expect(judged(readings)).toEqual(['heap', 'resident', 'file'])
    expect(violations(readings)).toEqual([])
  })

  it('finds memory and a file that grow', () => {
    expect(violations(hour(minute => ({ heap: (40 + minute / 2) * mebi })))).toEqual(['heap'])
    expect(violations(hour(minute => ({ resident: (150 + minute) * mebi })))).toEqual(['resident'])
    expect(violations(hour(minute => ({ file: minute * mebi })))).toEqual(['file'])
  })

  it('gives the slope per hour', () => {
    const [heap] = judge(
      hour(minute => ({ heap: (40 + minute / 2) * mebi })),
      'embedded',
    )
    expect((heap?.trend?.perHour ?? 0) / mebi).toBeCloseTo(30, 1)
  })

  it('accepts memory that follows the rate of writes, and finds what grows besides', () => {
    // Twice the rate from minute 40 to 45, so that the changes of the last five minutes rise and fall.
    const writes = (minute: number) => 1_000 * (minute + Math.min(5, Math.max(0, minute - 40)))
    const recent = (minute: number) => writes(minute) - (minute < 5 ? 0 : writes(minute - 5))
    const following = (minute: number) => ({
      writes: writes(minute),
      heap: 40 * mebi + 6_000 * recent(minute),
    })
    expect(violations(hour(following))).toEqual([])
    const growing = (minute: number) => {
      const reading = following(minute)
      return { ...reading, heap: reading.heap + minute * mebi }
    }
    expect(violations(hour(growing))).toEqual(['heap'])
  })

  it('does not judge memory if the rate of writes rises all the time', () => {
    const rising = (minute: number) => ({ writes: 50 * minute ** 2, heap: (40 + minute) * mebi })
    const [heap] = judge(hour(rising), 'etcd')
    expect(heap).toMatchObject({ isViolation: false, verdict: expect.stringContaining('not judged') })
  })

  it('judges no memory of a process that has just started', () => {
    const readings = hour(minute => ({ startedAt: minute < 53 ? 1 : 2, heap: minute * mebi }))
    expect(judged(readings)).toEqual(['file'])
  })

  it("judges the embedded store's file only once its history is full", () => {
    const readings = hour(() => ({ writes: footprintDefaults.historyRevisions - 1 }))
    expect(judged(readings)).toEqual(['heap', 'resident'])
    expect(judged(readings, 'etcd')).toEqual(['heap', 'resident', 'file'])
  })
})
