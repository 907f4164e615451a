import { describe, expect, test } from 'vitest'
import { type Condition, getCondition, isConditionTrue, removeCondition, setCondition } from './conditions.ts'
import { FakeClock } from './testing/fake-clock.ts'

const start = '2030-01-01T00:00:00.000Z'
const later = '2030-01-01T00:00:05.000Z'

function setUp(): { clock: FakeClock; conditions: readonly Condition[] } {
  const clock = new FakeClock()
  const first = setCondition(undefined, { type: 'Ready', status: 'False', reason: 'Starting' }, clock)
  return { clock, conditions: Object.freeze(setCondition(first, { type: 'Synced', status: 'True' }, clock)) }
}

describe('setCondition', () => {
  test('sets the time if the status changes', async () => {
    const { clock, conditions } = setUp()
    await clock.advance(5_000)
    expect(setCondition(conditions, { type: 'Ready', status: 'True', message: 'at last' }, clock)).toEqual([
      { type: 'Ready', status: 'True', message: 'at last', lastTransitionTime: later },
      { type: 'Synced', status: 'True', lastTransitionTime: start },
    ])
  })

  test('keeps the time if only reason, message or generation change', async () => {
    const { clock, conditions } = setUp()
    await clock.advance(5_000)
    const wanted = { type: 'Ready', status: 'False', reason: 'Waiting', observedGeneration: 2 } as const
    expect(getCondition(setCondition(conditions, wanted, clock), 'Ready')).toEqual({
      ...wanted,
      lastTransitionTime: start,
    })
  })

  test('is idempotent, and does not change its input', async () => {
    const { clock, conditions } = setUp()
    await clock.advance(5_000)
    const again = setCondition(conditions, { type: 'Ready', status: 'False', reason: 'Starting' }, clock)
    expect(again).toEqual(conditions)
    expect(again).not.toBe(conditions)
  })
})

test('a condition is found by type, and is true only with status True', () => {
  const { conditions } = setUp()
  expect(getCondition(conditions, 'Ready')?.reason).toBe('Starting')
  expect(getCondition(conditions, 'ready')).toBeUndefined()
  expect(['Ready', 'Synced', 'Other'].map(type => isConditionTrue(conditions, type))).toEqual([
    false,
    true,
    false,
  ])
  expect(isConditionTrue([{ type: 'X', status: 'Unknown', lastTransitionTime: start }], 'X')).toBe(false)
  expect(isConditionTrue(undefined, 'Ready')).toBe(false)
  expect(removeCondition(conditions, 'Ready').map(({ type }) => type)).toEqual(['Synced'])
})
