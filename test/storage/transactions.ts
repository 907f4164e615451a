import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { describe, expect } from 'vitest'
import { type Compare, storageLimits, type Transaction } from '../../apiserver/src/storage/index.ts'
import { collect } from './follower.ts'
import { guaranteesOf, type StorageHarness } from './harness.ts'
import { change, commit, compare, del, describeChange, listAll, pair, put, text } from './operations.ts'

export function transactionConformance(harness: StorageHarness): void {
  const guarantee = guaranteesOf(harness)

  describe('transactions', () => {
    guarantee(
      'all keys of a transaction have its revision, and the next revision is higher',
      async ({ storage }) => {
        const r1 = await commit(storage, [put('a', '1'), put('b', '1'), put('c', '1')])
        expect((await listAll(storage, '')).map(p => p.modRevision)).toEqual([r1, r1, r1])
        const r2 = await commit(storage, [put('b', '2')])
        expect(r2).toBeGreaterThan(r1)
        expect((await listAll(storage, '')).map(p => p.modRevision)).toEqual([r1, r2, r1])
      },
    )

    guarantee(
      'createRevision survives updates and changes when the key is recreated',
      async ({ storage }) => {
        const r1 = await commit(storage, [put('a', '1')])
        const r2 = await commit(storage, [put('a', '2')])
        expect((await storage.get('a')).pair).toEqual(pair('a', '2', r2, r1))
        await commit(storage, [del('a')])
        expect((await storage.get('a')).pair).toBeUndefined()
        const r4 = await commit(storage, [put('a', '4')])
        expect((await storage.get('a')).pair).toEqual(pair('a', '4', r4, r4))
      },
    )

    guarantee('a compare holds only for the exact revision, or for a missing key', async ({ storage }) => {
      const succeeds = async (...compares: Compare[]) =>
        (await storage.transact(change([put('mark', 'x')], compares))).succeeded
      expect(await succeeds(compare('a', zeroRevision))).toBe(true)
      const r1 = await commit(storage, [put('a', '1')])
      expect(await succeeds(compare('a', zeroRevision))).toBe(false)
      expect(await succeeds(compare('a', r1))).toBe(true)
      const r2 = await commit(storage, [put('a', '2')])
      expect(await succeeds(compare('a', r1))).toBe(false)
      expect(await succeeds(compare('a', toRevision(r2 + 1)))).toBe(false)
      expect(await succeeds(compare('a', r2), compare('b', zeroRevision))).toBe(true)
      expect(await succeeds(compare('a', r2), compare('b', r2))).toBe(false)
      await commit(storage, [del('a')])
      expect(await succeeds(compare('a', r2))).toBe(false)
      expect(await succeeds(compare('a', zeroRevision))).toBe(true)
      await commit(storage, [put('a', '1')])
      expect(await succeeds(compare('a', r1))).toBe(false)
    })

    guarantee('a failed compare changes nothing and returns the onFailure pairs', async ({ storage }) => {
      const r1 = await commit(storage, [put('a', '1'), put('b', '1')])
      const result = await storage.transact({
        compares: [compare('a', zeroRevision)],
        onSuccess: [put('a', '2'), del('b'), put('c', '2')],
        onFailure: ['b', 'missing', 'a'],
      })
      expect(result.succeeded).toBe(false)
      expect(result.revision).toBeGreaterThanOrEqual(r1)
      expect(!result.succeeded && result.pairs).toEqual([
        pair('b', '1', r1, r1),
        undefined,
        pair('a', '1', r1, r1),
      ])
      expect((await listAll(storage, '')).map(text)).toEqual(['a=1', 'b=1'])
      expect((await storage.head()).written).toBe(r1)
      const silent = await storage.transact({ compares: [compare('a', zeroRevision)], onSuccess: [] })
      expect(!silent.succeeded && silent.pairs).toEqual([])
    })

    guarantee('the onFailure pairs come from the state that failed the compare', async ({ storage }) => {
      let revision = await commit(storage, [put('a', '0'), put('b', '0')])
      let done = false
      const writer = (async () => {
        for (let i = 1; i <= 200; i++) revision = await commit(storage, [put('a', `${i}`), put('b', `${i}`)])
        done = true
      })()
      while (!done) {
        const result = await storage.transact({
          compares: [compare('a', zeroRevision)],
          onSuccess: [],
          onFailure: ['a', 'b'],
        })
        if (result.succeeded) throw new Error('the compare should fail')
        const [a, b] = result.pairs
        expect(a?.value.toString()).toBe(b?.value.toString())
        expect(a?.modRevision).toBe(b?.modRevision)
        expect(result.revision).toBeGreaterThanOrEqual(a?.modRevision ?? zeroRevision)
      }
      await writer
      expect((await storage.get('a')).pair?.modRevision).toBe(revision)
    })

    guarantee('a transaction that changes nothing succeeds without an event', async ({ storage }) => {
      const r1 = await commit(storage, [put('a', '1')])
      const results = [
        await storage.transact(change([del('missing')])),
        await storage.transact(change([])),
        await storage.transact(change([], [compare('a', r1)])),
      ]
      for (const result of results) {
        expect(result.succeeded).toBe(true)
        expect(result.revision).toBeGreaterThanOrEqual(r1)
      }
      const last = await commit(storage, [put('z', '1')])
      expect((await listAll(storage, '')).map(text)).toEqual(['a=1', 'z=1'])
      expect((await collect(storage, '', r1, last)).map(describeChange)).toEqual([`z=1@${last}`])
    })

    guarantee(
      'get, list and watch return the largest value and an empty one unchanged',
      async ({ storage }) => {
        const large = Buffer.alloc(storageLimits.valueBytes, 'setpoint \u0000\xff')
        const { current } = await storage.head()
        await commit(storage, [{ type: 'put', key: 'large', value: large }])
        await commit(storage, [put('large2', 'x')])
        await commit(storage, [{ type: 'put', key: 'large2', value: large }])
        const last = await commit(storage, [put('empty', '')])
        expect((await storage.get('large')).pair?.value.equals(large)).toBe(true)
        const listed = await listAll(storage, '')
        expect(listed.map(p => p.key)).toEqual(['empty', 'large', 'large2'])
        expect(listed.map(p => p.value.length)).toEqual([0, large.length, large.length])
        expect(listed.every(p => p.value.length === 0 || p.value.equals(large))).toBe(true)
        const changes = await collect(storage, '', current, last)
        expect(changes.map(c => c.value?.length)).toEqual([large.length, 1, large.length, 0])
        expect(changes[2]?.value?.equals(large)).toBe(true)
      },
    )

    guarantee(
      'a transaction with the most items is atomic, and one beyond a limit is rejected',
      async ({ storage }) => {
        const most = storageLimits.transactionItems
        const keys = Array.from({ length: most }, (_, i) => `k${String(i).padStart(3, '0')}`)
        const r1 = await commit(
          storage,
          keys.map(key => put(key, '1')),
          keys.map(key => compare(key, zeroRevision)),
        )
        expect((await listAll(storage, '')).every(p => p.modRevision === r1)).toBe(true)
        const refused: Transaction[] = [
          change(Array.from({ length: most + 1 }, (_, i) => put(`l${i}`, '1'))),
          change([
            put('l', '1'),
            { type: 'put', key: 'm', value: Buffer.alloc(storageLimits.storedBytes + 1) },
          ]),
          change([put('l', '1'), del('l')]),
        ]
        for (const transaction of refused) await expect(storage.transact(transaction)).rejects.toThrow()
        expect((await listAll(storage, '')).map(p => p.key)).toEqual(keys)
      },
    )

    guarantee(
      'exactly one of 64 transactions that compare the same revision succeeds',
      async ({ storage }) => {
        let revision = await commit(storage, [put('a', 'start')])
        const revisions = new Set<Revision>([revision])
        for (let round = 0; round < 20; round++) {
          const results = await Promise.all(
            Array.from({ length: 64 }, (_, lane) =>
              storage.transact({
                ...change(
                  [put('a', `${round}/${lane}`), put(`lane/${lane}`, `${round}`)],
                  [compare('a', revision)],
                ),
                onFailure: ['a'],
              }),
            ),
          )
          const winners = results.flatMap((result, lane) => (result.succeeded ? [{ lane, ...result }] : []))
          expect(winners).toHaveLength(1)
          const [winner] = winners
          const now = (await storage.get('a')).pair
          expect(now?.value.toString()).toBe(`${round}/${winner?.lane}`)
          expect(now?.modRevision).toBe(winner?.revision)
          for (const result of results) if (!result.succeeded) expect(result.pairs).toEqual([now])
          revision = now?.modRevision ?? zeroRevision
          expect(revisions.has(revision)).toBe(false)
          revisions.add(revision)
        }
      },
    )

    guarantee('concurrent transactions get unique revisions and lose no update', async ({ storage }) => {
      const revisions: Revision[] = []
      await Promise.all(
        Array.from({ length: 16 }, async (_, lane) => {
          for (let done = 0; done < 20; ) {
            const { pair: old } = await storage.get('counter')
            const next = Number(old?.value.toString() ?? '0') + 1
            const result = await storage.transact(
              change(
                [put('counter', `${next}`), put(`lane/${lane}`, `${done}`)],
                [compare('counter', old?.modRevision ?? zeroRevision)],
              ),
            )
            if (!result.succeeded) continue
            revisions.push(result.revision)
            done++
          }
        }),
      )
      expect((await storage.get('counter')).pair?.value.toString()).toBe('320')
      expect(new Set(revisions).size).toBe(320)
    })
  })
}
