import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fileWatchDefaults } from './file-watch.ts'
import { TokenFile, tokenFileDefaults } from './token-file.ts'
import { makeToken } from './token-list.ts'
import { WatchedFiles } from './watched-files.ts'

const ann = makeToken({ name: 'ann', groups: ['setpoint:admins'] })

describe('a token file', () => {
  let folder: string
  let path: string
  let clock: FakeClock
  let files: WatchedFiles
  let tokens: TokenFile
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
    files = new WatchedFiles(log)
    tokens = new TokenFile({ path, text: ann.entry, files, log, clock })
  })
  afterEach(async () => {
    files.close()
    errors.length = 0
    await rm(folder, { recursive: true })
  })

  /** Advances the clock from one read of the file to the next. */
  async function pass(ms: number): Promise<void> {
    for (let at = 0; at < ms; at += fileWatchDefaults.intervalMs) {
      await clock.advance(fileWatchDefaults.intervalMs)
      await expect.poll(() => clock.pendingTimers, { interval: 1 }).toBe(1)
    }
  }

  it.each([
    ['is deleted', () => rm(path)],
    ['is invalid', () => writeFile(path, '- user: ann\n')],
  ])('that %s is logged every minute, and its tokens are rejected after 10 minutes', async (_is, spoil) => {
    let revoked = 0
    tokens.find(ann.token)?.credential?.onRevoked(() => revoked++)
    await spoil()
    await pass(tokenFileDefaults.refuseAfterMs)
    expect(errors).toHaveLength(tokenFileDefaults.refuseAfterMs / fileWatchDefaults.repeatMs)
    expect(tokens.find(ann.token)).toMatchObject({ user: { name: 'ann' } })
    expect(revoked).toBe(0)
    await pass(fileWatchDefaults.intervalMs)
    expect(files.reloads()).toMatchObject([{ file: 'token-file', reloads: 0, failures: errors.length }])
    expect(files.reloads()[0]?.failingSeconds).toBeGreaterThanOrEqual(600)
    expect(() => tokens.find(ann.token)).toThrow(expect.objectContaining({ code: 503 }))
    expect(revoked).toBe(1)
  })

  it('that is restored is used again', async () => {
    await rm(path)
    await pass(tokenFileDefaults.refuseAfterMs + fileWatchDefaults.intervalMs)
    expect(() => tokens.find(ann.token)).toThrow(expect.objectContaining({ code: 503 }))
    await writeFile(path, ann.entry)
    await pass(fileWatchDefaults.intervalMs)
    expect(tokens.find(ann.token)).toMatchObject({ user: { name: 'ann' } })
    expect(files.reloads()[0]?.failingSeconds).toBe(0)
  })

  it.skipIf(process.platform === 'win32')('that every user can read is logged at the start', async () => {
    expect(errors).toEqual([])
    await chmod(path, 0o644)
    new TokenFile({ path, text: ann.entry, files, log, clock })
    expect(errors).toEqual(['every user can read the token file; change its mode to 0600'])
  })
})
