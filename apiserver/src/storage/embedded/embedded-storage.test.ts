import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type StorageHarness, storageConformance } from '../../../../test/storage/conformance.ts'
import {
  CompactedError,
  OutcomeUnknownError,
  type Storage,
  StoreFullError,
  StoreUnavailableError,
  type Transaction,
} from '../contract.ts'
import { Fullness } from '../fullness.ts'
import { type EmbeddedOptions, openEmbeddedStorage } from './index.ts'
import { StoreFile } from './store-file.ts'

const harness = (bounds: Partial<EmbeddedOptions>): StorageHarness => ({
  async open() {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-embedded-'))
    let storage = await openEmbeddedStorage({ dataDir, ...bounds })
    return {
      storage,
      async reopen() {
        await storage.close()
        storage = await openEmbeddedStorage({ dataDir, ...bounds })
        return storage
      },
      async dispose() {
        await storage.close()
        await rm(dataDir, { recursive: true })
      },
    }
  },
})

storageConformance('embedded', harness({}))

// As a restore leaves it.
storageConformance('embedded with a base', harness({ startAfter: toRevision(1_000_000_000) }))

// Bounds so low that the suite reaches all of them: they may affect only speed.
storageConformance(
  'embedded with small buffers',
  harness({
    tailRevisions: 3,
    batchTransactions: 4,
    segmentBytes: 200,
    sweepSegments: 1,
    watchRevisions: 2,
    watchBytes: 100,
    listBytes: 50,
    pastRevisions: 1,
  }),
)

describe('embedded', () => {
  let dataDir: string
  let storage: Storage

  const open = async (options: Partial<EmbeddedOptions> = {}) => {
    await storage?.close()
    storage = await openEmbeddedStorage({ dataDir, ...options })
  }

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-embedded-'))
  })
  afterEach(async () => {
    await storage.close()
    await rm(dataDir, { recursive: true })
  })

  test('revisions start at 1 and have no gaps, over failed compares and reopening', async () => {
    await open()
    expect(await storage.head()).toEqual({ current: 0, written: 0 })
    expect(await write('a', '1')).toBe(1)
    await storage.transact({ compares: [{ key: 'a', modRevision: zeroRevision }], onSuccess: [] })
    await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key: 'missing' }] })
    await storage.transact({ compares: [], onSuccess: [] })
    expect(await write('a', '2')).toBe(2)
    await open()
    expect(await storage.head()).toEqual({ current: 2, written: 2 })
    expect(await write('a', '3')).toBe(3)
  })

  test('a store that is not durable keeps its data while the system runs', async () => {
    const throwaway = async () => {
      await storage?.close()
      storage = await openEmbeddedStorage({ dataDir, durable: false })
    }
    await throwaway()
    for (const [at, value] of ['1', '2', '3'].entries()) expect(await write('a', value)).toBe(at + 1)
    await throwaway()
    expect(await values(0, 3)).toEqual(['1', '2', '3'])
    await open()
    expect(await storage.head()).toEqual({ current: 3, written: 3 })
  })

  describe('that was large, opened with compact,', () => {
    const size = async () => (await stat(join(dataDir, 'store.mdb'))).size

    /** Leaves a store with much free space. */
    const fill = async () => {
      await open({ historyRevisions: 5 })
      for (let at = 1; at <= 40; at++) await write('a', `${at}`.padEnd(1024 * 1024))
      for (let at = 41; at <= 50; at++) await write('a', `${at}`)
      await storage.close()
    }

    test('has a small file with the same content, history and rights', async () => {
      await fill()
      const before = await size()
      await open({ historyRevisions: 5, compact: true })
      expect(await size()).toBeLessThan(before / 2)
      expect((await stat(join(dataDir, 'store.mdb'))).mode & 0o777).toBe(0o600)
      expect((await readdir(dataDir)).sort()).toEqual([
        'holder.mdb',
        'holder.mdb-lock',
        'store.mdb',
        'store.mdb-lock',
      ])
      expect(await values(45, 50)).toEqual(['46', '47', '48', '49', '50'])
      expect(await write('a', '51')).toBe(51)
      await open({ historyRevisions: 5 })
      expect(await values(46, 51)).toEqual(['47', '48', '49', '50', '51'])
    })

    test('serves the file as it was if the disk has no room for the copy', async () => {
      await fill()
      const before = await size()
      const full = Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
      const copying = vi.spyOn(StoreFile.prototype, 'copyCompacted').mockRejectedValue(full)
      await open({ historyRevisions: 5, compact: true })
      copying.mockRestore()
      expect(await size()).toBeGreaterThanOrEqual(before)
      expect(await readdir(dataDir)).not.toContain('compaction')
      expect(await write('a', '51')).toBe(51)
    })
  })

  test('concurrent transactions share commits, each with its own revision', async () => {
    await open()
    const controller = new AbortController()
    const batches: number[] = []
    const watching = (async () => {
      for await (const { changes } of storage.watch('', { after: zeroRevision, signal: controller.signal })) {
        batches.push(changes.length)
        if (batches.reduce((sum, count) => sum + count) === 256) break
      }
    })()
    const revisions = await Promise.all(Array.from({ length: 256 }, (_, i) => write(`k${i}`, 'x')))
    expect(new Set(revisions).size).toBe(256)
    await watching
    expect(batches.length).toBeLessThan(8)
  })

  test('the history keeps as many revisions as its bound, also after a restart', async () => {
    await open({ historyRevisions: 10 })
    for (let i = 1; i <= 30; i++) await write('a', `${i}`)
    const check = async () => {
      const oldest = await storage.list('', { revision: toRevision(20) })
      expect(oldest.pairs.map(p => `${p.value}`)).toEqual(['20'])
      await expect(storage.list('', { revision: toRevision(19) })).rejects.toBeInstanceOf(CompactedError)
      expect(await values(20, 30)).toEqual(Array.from({ length: 10 }, (_, i) => `${i + 21}`))
      await expect(values(19, 30)).rejects.toBeInstanceOf(CompactedError)
    }
    await check()
    await open({ historyRevisions: 10 })
    await check()
    await open({ historyRevisions: 5 })
    await write('a', '31')
    await expect(values(25, 31)).rejects.toBeInstanceOf(CompactedError)
    expect(await values(26, 31)).toEqual(['27', '28', '29', '30', '31'])
  })

  test('the bytes of the history are bounded, and so is the file', async () => {
    await open({ historyBytes: 1_000_000 })
    const value = 'x'.repeat(100_000)
    for (let i = 0; i < 150; i++) await write('a', value)
    const { current } = await storage.head()
    await expect(values(current - 20, current)).rejects.toBeInstanceOf(CompactedError)
    expect(await values(current - 3, current)).toHaveLength(3)
    expect((await stat(join(dataDir, 'store.mdb'))).size).toBeLessThan(16_000_000)
  })

  test('a watch that is slower than compaction gets CompactedError, not a gap', async () => {
    await open({ historyRevisions: 10, tailRevisions: 5, watchRevisions: 2 })
    await write('a', '0')
    const watch = storage.watch('', { after: zeroRevision, signal: new AbortController().signal })
    const iterator = watch[Symbol.asyncIterator]()
    expect(await iterator.next()).toMatchObject({ value: { revision: 1 } })
    for (let i = 0; i < 50; i++) await write('a', `${i}`)
    await expect(iterator.next()).rejects.toBeInstanceOf(CompactedError)
  })

  test('a compaction that takes many commits finishes, and does not block writes', async () => {
    await open({ segmentBytes: 1, sweepSegments: 10 })
    for (let i = 0; i < 40; i++)
      await Promise.all(Array.from({ length: 10 }, (_, k) => write(`k${k}`, `${i}`)))
    await storage.compact(toRevision(390))
    for (let i = 0; i < 5; i++) await write('a', `${i}`)
    await expect(values(389, 405)).rejects.toBeInstanceOf(CompactedError)
    expect(await values(390, 405)).toHaveLength(15)
  })

  test('a watch of a quiet prefix reports the revision of the store', async () => {
    await open()
    const last = await write('other', 'x')
    for await (const batch of storage.watch('w/', {
      after: zeroRevision,
      signal: AbortSignal.timeout(60_000),
    })) {
      expect(batch.changes).toEqual([])
      if (batch.revision === last) return
    }
    throw new Error('the watch did not reach the current revision')
  })

  test('a full store rejects only writes that grow the data', async () => {
    await open({ dataBytes: 1_000 })
    await write('a', 'x'.repeat(600))
    const results = await Promise.allSettled([
      write('b', 'x'.repeat(600)),
      write('a', 'y'.repeat(600)),
      write('c', 'small'),
    ])
    expect(results.map(result => result.status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
    await expect(write('b', 'x'.repeat(600))).rejects.toBeInstanceOf(StoreFullError)
    expect((await storage.get('b')).pair).toBeUndefined()
    const fullness = new Fullness()
    await open({ dataBytes: 1_000, fullness })
    await expect(write('b', 'x'.repeat(600))).rejects.toBeInstanceOf(StoreFullError)
    await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key: 'a' }] })
    expect(fullness.reason).toContain('the store is full')
    await write('b', 'x'.repeat(600))
    expect(fullness.reason).toBeUndefined()
  })

  test('a transaction beyond the queue is rejected and changes nothing', async () => {
    await open({ queuedTransactions: 10 })
    const results = await Promise.allSettled(Array.from({ length: 15 }, (_, i) => write(`k${i}`, 'x')))
    const refused = results.flatMap(result => (result.status === 'rejected' ? [result.reason] : []))
    expect(refused).toHaveLength(5)
    for (const reason of refused) expect(reason).toBeInstanceOf(StoreUnavailableError)
    expect((await storage.list('')).pairs).toHaveLength(10)
  })

  test('an abort means StoreUnavailableError before the commit, and OutcomeUnknownError during it', async () => {
    await open()
    const waiting = new AbortController()
    const before = storage.transact(putting('a'), { signal: waiting.signal })
    waiting.abort()
    await expect(before).rejects.toBeInstanceOf(StoreUnavailableError)
    const committing = new AbortController()
    const during = storage.transact(putting('b'), { signal: committing.signal })
    await new Promise(resolve => setImmediate(resolve))
    committing.abort()
    await expect(during).rejects.toBeInstanceOf(OutcomeUnknownError)
    await write('c', 'x')
    expect((await storage.list('')).pairs.map(p => p.key)).toEqual(['b', 'c'])
  })

  test('close finishes the current commit and rejects waiting transactions', async () => {
    await open()
    const during = write('a', 'x')
    await new Promise(resolve => setImmediate(resolve))
    const waiting = write('b', 'x')
    const results = Promise.allSettled([during, waiting, storage.close()])
    expect(await results).toMatchObject([
      { value: 1 },
      { reason: { name: 'StoreUnavailableError' } },
      { status: 'fulfilled' },
    ])
    await open()
    expect((await storage.list('')).pairs.map(p => p.key)).toEqual(['a'])
  })

  test('invalid keys are rejected', async () => {
    await open()
    for (const key of ['', '/a', 'x'.repeat(1_025), 'é'.repeat(513), '\ud800'])
      await expect(write(key, 'x')).rejects.toBeInstanceOf(RangeError)
    await write('x'.repeat(1_024), 'x')
    expect((await storage.get('x'.repeat(5_000))).pair).toBeUndefined()
    expect((await storage.list('x'.repeat(5_000))).pairs).toEqual([])
    expect((await storage.list('', { after: 'x'.repeat(5_000) })).pairs).toEqual([])
  })

  test('non-ASCII keys are in the order of their UTF-8 bytes in past states', async () => {
    await open()
    const keys = ['z', 'é', '\uffee', '\u{1f600}', '中']
    let revision = zeroRevision
    for (const key of keys) revision = await write(key, 'x')
    for (const key of keys) await storage.transact({ compares: [], onSuccess: [{ type: 'delete', key }] })
    const sorted = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    expect((await storage.list('', { revision })).pairs.map(p => p.key)).toEqual(sorted)
  })

  const putting = (key: string, value = 'x'): Transaction => ({
    compares: [],
    onSuccess: [{ type: 'put', key, value: Buffer.from(value) }],
  })

  const write = async (key: string, value: string): Promise<Revision> =>
    (await storage.transact(putting(key, value))).revision

  async function values(after: number, until: number): Promise<string[]> {
    const seen: string[] = []
    const options = { after: toRevision(after), signal: AbortSignal.timeout(60_000) }
    for await (const { changes, revision } of storage.watch('', options)) {
      seen.push(...changes.map(change => `${change.value}`))
      if (revision >= until) return seen
    }
    throw new Error(`the watch did not reach revision ${until}`)
  }
})
