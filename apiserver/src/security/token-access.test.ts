import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fileWatchDefaults } from './file-watch.ts'
import { TokenAccess, tokenAccessDefaults } from './token-access.ts'
import { makeToken } from './token-list.ts'

const ann = makeToken({ name: 'ann', groups: ['setpoint:admins'] })
const request = { headers: { authorization: `Bearer ${ann.token}` }, socket: new Socket() }

describe('a token file', () => {
  let folder: string
  let path: string
  let clock: FakeClock
  let access: TokenAccess
  const errors: string[] = []
  const log: Logger = {
    ...silentLogger,
    error: (_fields, message) => errors.push(message),
    warn: (_fields, message) => errors.push(message),
  }

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-tokens-'))
    path = join(folder, 'tokens.yaml')
    await writeFile(path, ann.entry, { mode: 0o600 })
    clock = new FakeClock()
    access = new TokenAccess({ path, text: ann.entry, log, clock })
  })
  afterEach(async () => {
    access.close()
    errors.length = 0
    await rm(folder, { recursive: true })
  })

  /** Advances the clock from one read of the file to the next. */
  async function pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += fileWatchDefaults.intervalMs) {
      await clock.advance(fileWatchDefaults.intervalMs)
      await expect.poll(() => clock.pendingTimers).toBe(1)
    }
  }

  it.each([
    ['is deleted', () => rm(path)],
    ['is invalid', () => writeFile(path, '- user: ann\n')],
  ])('that %s is logged every minute, and its tokens are rejected after 10 minutes', async (_is, spoil) => {
    let revoked = 0
    access.onRevoked(access.identify(request), () => revoked++)
    await spoil()
    await pass(tokenAccessDefaults.refuseAfterMs)
    expect(errors).toHaveLength(tokenAccessDefaults.refuseAfterMs / fileWatchDefaults.repeatMs)
    expect(access.identify(request)).toMatchObject({ user: { name: 'ann' } })
    expect(revoked).toBe(0)
    await pass(fileWatchDefaults.intervalMs)
    expect(access.failingSeconds).toBeGreaterThanOrEqual(600)
    expect(() => access.identify(request)).toThrow(expect.objectContaining({ code: 503 }))
    expect(() => access.identify({ ...request, headers: {} })).toThrow(expect.objectContaining({ code: 401 }))
    expect(revoked).toBe(1)
  })

  it('that is restored is used again', async () => {
    await rm(path)
    await pass(tokenAccessDefaults.refuseAfterMs + fileWatchDefaults.intervalMs)
    expect(() => access.identify(request)).toThrow(expect.objectContaining({ code: 503 }))
    await writeFile(path, ann.entry)
    await pass(fileWatchDefaults.intervalMs)
    expect(access.identify(request)).toMatchObject({ user: { name: 'ann' } })
    expect(access.failingSeconds).toBe(0)
  })

  it.skipIf(process.platform === 'win32')('that every user can read is logged at the start', async () => {
    expect(errors).toEqual([])
    await chmod(path, 0o644)
    new TokenAccess({ path, text: ann.entry, log, clock }).close()
    expect(errors).toEqual(['every user can read the token file; change its mode to 0600'])
  })
})
