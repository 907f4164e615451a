import { expect, it } from 'vitest'
import { Fullness } from './fullness.ts'

it('a write that began before the last refusal does not end the state of a full store', () => {
  const fullness = new Fullness()
  const begunAt = fullness.refusals
  fullness.refused('no space')
  fullness.accepted(begunAt)
  expect(fullness.reason).toBe('no space')
  fullness.accepted(fullness.refusals)
  expect(fullness.reason).toBeUndefined()
})
