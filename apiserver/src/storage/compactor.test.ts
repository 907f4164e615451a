import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { describe, expect, it, vi } from 'vitest'
import { compactRegularly } from './compactor.ts'
import { openEmbeddedStorage } from './embedded/index.ts'
import type { Storage } from './index.ts'

const put = (storage: Storage, key: string) =>
  storage.transact({ compares: [], onSuccess: [{ type: 'put', key, value: Buffer.from('x') }] })

describe('compaction', () => {
  it('is done by one of several servers in each round, and keeps the changes since the round before', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
    const storage = await openEmbeddedStorage({ dataDir })
    const compact = vi.spyOn(storage, 'compact')
    const stop = new AbortController()
    const stopped: Promise<void>[] = []
    try {
      for (let server = 0; server < 3; server++)
        stopped.push(
          compactRegularly({
            storage,
            space: { isShort: false },
            log: silentLogger,
            signal: stop.signal,
            intervalMs: 20,
            shortIntervalMs: 20,
          }),
        )
      let written = await put(storage, 'a')
      for (let round = 1; round <= 3; round++) {
        await expect.poll(() => compact.mock.calls.length).toBeGreaterThanOrEqual(round)
        written = await put(storage, 'a')
      }
      const revisions = compact.mock.calls.map(([revision]) => revision)
      expect(revisions).toEqual([...new Set(revisions)].sort((a, b) => a - b))
      expect(Math.max(...revisions)).toBeLessThan(written.revision)
      await expect(storage.list('', { revision: written.revision })).resolves.toMatchObject({ more: false })
    } finally {
      stop.abort()
      await Promise.all(stopped)
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    }
  })

  it('is done more often while the store is short of space', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
    const storage = await openEmbeddedStorage({ dataDir })
    const compact = vi.spyOn(storage, 'compact')
    const stop = new AbortController()
    const space = { isShort: true }
    const { signal } = stop
    const stopped = compactRegularly({ storage, space, log: silentLogger, signal, shortIntervalMs: 20 })
    try {
      await expect.poll(() => compact.mock.calls.length).toBeGreaterThanOrEqual(2)
    } finally {
      stop.abort()
      await stopped
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})
