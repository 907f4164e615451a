import { FakeClock } from '@setpoint/controller-runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { Revocations } from './revocations.ts'

describe('a watch of a credential', () => {
  let clock: FakeClock
  let revocations: Revocations
  let isValid: boolean
  let revoked: number

  beforeEach(() => {
    clock = new FakeClock()
    revocations = new Revocations(clock)
    isValid = true
    revoked = 0
  })

  const listen = (expiresInMs?: number) =>
    revocations
      .credential({
        isValid: () => isValid,
        ...(expiresInMs !== undefined && { expiresAt: clock.now() + expiresInMs }),
      })
      .onRevoked(() => revoked++)

  it('ends when the credential expires, also after months', async () => {
    const year = 365 * 24 * 60 * 60_000
    listen(year)
    await clock.advance(year - 1)
    expect(revoked).toBe(0)
    await clock.advance(1)
    expect(revoked).toBe(1)
  })

  it('ends once when the credential becomes invalid', async () => {
    listen(1_000)
    revocations.recheck()
    expect(revoked).toBe(0)
    isValid = false
    revocations.recheck()
    revocations.recheck()
    await clock.advance(1_000)
    expect([revoked, clock.pendingTimers]).toEqual([1, 0])
  })

  it('ends at once if the credential is invalid or has expired', () => {
    listen(0)
    isValid = false
    listen()
    expect([revoked, clock.pendingTimers]).toEqual([2, 0])
  })

  it('leaves nothing behind when it ends first', async () => {
    const stop = listen(1_000)
    stop()
    isValid = false
    revocations.recheck()
    await clock.advance(1_000)
    expect([revoked, clock.pendingTimers]).toEqual([0, 0])
  })
})
