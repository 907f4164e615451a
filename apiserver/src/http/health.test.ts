import { expect, it } from 'vitest'
import { healthAnswer } from './health.ts'

const checks = [{ name: 'ping' }, { name: 'store', problem: 'the store cannot be reached' }]

it('callers without credentials see which checks fail, and no reasons', () => {
  const text = '[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n'
  for (const verbose of [true, false])
    expect(healthAnswer('readyz', checks, { verbose, detailed: false })).toEqual({ status: 503, text })
})

it('callers with credentials see the reasons', () => {
  const { text } = healthAnswer('readyz', checks, { verbose: true, detailed: true })
  expect(text).toContain('[-]store failed: the store cannot be reached\n')
})
