import { describe, expect, test } from 'vitest'
import {
  ApiError,
  isAlreadyExists,
  isApiError,
  isConflict,
  isExpired,
  isInvalid,
  isNotFound,
} from '../api/errors.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { retryOnConflict } from './conflict-retry.ts'

describe('retryOnConflict', () => {
  test('pauses between attempts with an exponential ceiling, and returns the first success', async () => {
    const clock = new FakeClock()
    const at: number[] = []
    const result = retryOnConflict(
      async () => {
        at.push(clock.monotonic())
        if (at.length < 4) throw new ApiError('Conflict', 'again')
        return 'done'
      },
      { clock, random: () => 0.5 },
    )
    await clock.advance(1_000)
    expect(await result).toBe('done')
    expect(at).toEqual([0, 5, 15, 35])
  })

  test('rejects at once with any error other than Conflict', async () => {
    let calls = 0
    const action = async () => {
      calls++
      throw new ApiError('NotFound', 'gone')
    }
    await expect(retryOnConflict(action)).rejects.toMatchObject({ reason: 'NotFound' })
    expect(calls).toBe(1)
  })
})

describe('error predicates', () => {
  test('check the reason of an ApiError', () => {
    const tests = {
      NotFound: isNotFound,
      AlreadyExists: isAlreadyExists,
      Conflict: isConflict,
      Expired: isExpired,
      Invalid: isInvalid,
    }
    for (const [reason, test] of Object.entries(tests)) {
      for (const other of ['NotFound', 'AlreadyExists', 'Conflict', 'Expired', 'Invalid'] as const) {
        expect(test(new ApiError(other, ''))).toBe(other === reason)
      }
      expect(test(Object.assign(new Error(), { reason }))).toBe(false)
    }
  })

  test('narrow the type', () => {
    const error: unknown = new ApiError('Conflict', '')
    if (!isApiError(error, 'Conflict', 'NotFound')) throw error
    const reason: 'Conflict' | 'NotFound' = error.reason
    expect(reason).toBe('Conflict')
  })
})
