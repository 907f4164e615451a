import { describe, expect, it } from 'vitest'
import { maxConnections, requireDescriptors, watchLimitsWithin } from './descriptors.ts'

const limits = (soft: string) =>
  [
    'Limit                     Soft Limit           Hard Limit           Units',
    'Max processes             7                    9                    processes',
    `Max open files            ${soft}                 9999                 files`,
  ].join('\n')

describe('the connections of a process', () => {
  it.each([
    ['1024', 896],
    ['20000', 19_872],
    // With few descriptors, half of them.
    ['200', 100],
    ['unlimited', Infinity],
  ])('with %s descriptors are at most %d', (soft, most) => {
    expect(maxConnections(limits(soft))).toBe(most)
  })

  it('are unbounded where the system does not tell', () => {
    expect(maxConnections('')).toBe(Infinity)
  })
})

describe('a process', () => {
  it('with too few descriptors does not start, and says how to get more', () => {
    expect(() => requireDescriptors(limits('64'))).toThrow(/limit of 64 open files is too low.*ulimit -n/)
  })

  it.each(['128', '1024', 'unlimited', ''])('with %s descriptors starts', soft => {
    expect(() => requireDescriptors(limits(soft))).not.toThrow()
  })
})

describe('connections that watch', () => {
  const limits = { connections: 20_000, connectionsPerUser: 10_000 }

  it('leave connections for other requests, and for other users', () => {
    expect(watchLimitsWithin(limits, 896)).toEqual({ connections: 672, connectionsPerUser: 336 })
  })

  it('are bounded by the configured limits where there are many descriptors', () => {
    expect(watchLimitsWithin(limits, Infinity)).toEqual(limits)
  })
})
