import { toRevision } from '@setpoint/controller-runtime/api'
import { describe, expect } from 'vitest'
import { CompactedError, FutureRevisionError } from '../../apiserver/src/storage/index.ts'
import { collect, follow } from './follower.ts'
import { guaranteesOf, type StorageHarness } from './harness.ts'
import { commit, compare, del, describeChange, listAll, pair, put, text } from './operations.ts'

export function compactionConformance(harness: StorageHarness): void {
  const guarantee = guaranteesOf(harness)

  describe('compaction', () => {
    guarantee('compaction drops the history, keeps the current state and is idempotent', async opened => {
      let { storage } = opened
      const r1 = await commit(storage, [put('a', '1'), put('b', '1')])
      const r2 = await commit(storage, [put('a', '2'), put('d', '2')])
      const r3 = await commit(storage, [put('a', '3'), del('d')])
      const r4 = await commit(storage, [put('c', '4')])
      await storage.compact(r3)
      await storage.compact(r3)
      await storage.compact(r1)
      const check = async () => {
        await expect(storage.list('', { revision: r1 })).rejects.toBeInstanceOf(CompactedError)
        await expect(storage.list('', { revision: r2 })).rejects.toBeInstanceOf(CompactedError)
        expect(await listAll(storage, '')).toEqual([
          pair('a', '3', r3, r1),
          pair('b', '1', r1, r1),
          pair('c', '4', r4, r4),
        ])
        expect(await listAll(storage, '', { revision: r3 })).toEqual([
          pair('a', '3', r3, r1),
          pair('b', '1', r1, r1),
        ])
        expect((await storage.head()).written).toBe(r4)
        await expect(collect(storage, '', r1, r4)).rejects.toBeInstanceOf(CompactedError)
        // Those who resume ask by empty watches what the store still has.
        await expect(collect(storage, '', r1, r1)).rejects.toBeInstanceOf(CompactedError)
        expect(await collect(storage, '', r3, r3)).toEqual([])
        expect((await collect(storage, '', r3, r4)).map(describeChange)).toEqual([`c=4@${r4}`])
      }
      await check()
      storage = await opened.reopen()
      await check()
    })

    guarantee('a store compacted at its current revision works as before', async ({ storage }) => {
      const r1 = await commit(storage, [put('a', '1')])
      const r2 = await commit(storage, [put('a', '2')])
      const watch = follow(storage, '', r2)
      await storage.compact(r2)
      expect((await listAll(storage, '', { revision: r2 })).map(text)).toEqual(['a=2'])
      const r3 = await commit(storage, [put('a', '3')], [compare('a', r2)])
      await watch.reaches(r3)
      await watch.stop()
      expect(watch.changes().map(c => [describeChange(c), c.createRevision])).toEqual([[`a=3@${r3}`, r1]])
    })

    guarantee('a future revision cannot be compacted', async ({ storage }) => {
      const revision = await commit(storage, [put('a', '1')])
      const { current } = await storage.head()
      await expect(storage.compact(toRevision(current + 1_000))).rejects.toBeInstanceOf(FutureRevisionError)
      expect((await listAll(storage, '', { revision })).map(text)).toEqual(['a=1'])
    })
  })
}
