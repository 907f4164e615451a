/**
 * The guarantees of `Storage`, as tests. Every store runs them from its own test file:
 *
 *     storageConformance('embedded', { open: async () => ({ storage, reopen, dispose }) })
 *
 * A test asserts what `contract.ts` promises and nothing that one store merely happens to do. Where the contract
 * leaves a choice (the order of changes inside one revision, the size of pages and batches), the tests accept any.
 */
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  type Change,
  CompactedError,
  type Compare,
  FutureRevisionError,
  type KeyValue,
  type ListOptions,
  type Operation,
  type Storage,
  storageLimits,
  type Transaction,
  type WatchBatch,
} from '../../apiserver/src/storage/index.ts'

/** How the suite gets at a store. */
export interface StorageHarness {
  /** A store without any keys, that nobody else writes to. Called once a test. */
  open(): Promise<OpenedStorage>
}

export interface OpenedStorage {
  readonly storage: Storage
  /** Closes the store and opens it again over the same data. The earlier `Storage` is not used afterwards. */
  reopen(): Promise<Storage>
  /** Closes what is open and removes the data. Called once, also after a failure and after the test closed the store. */
  dispose(): Promise<void>
}

/** How long a test waits for something that the contract says will happen, in milliseconds. */
const patienceMs = 60_000

export function storageConformance(name: string, harness: StorageHarness): void {
  const guarantee = (title: string, run: (opened: OpenedStorage) => Promise<void>) =>
    test(title, async () => {
      const opened = await harness.open()
      try {
        await run(opened)
      } finally {
        await opened.dispose()
      }
    })

  describe(`${name}: reading`, () => {
    guarantee('a fresh store is empty', async ({ storage }) => {
      expect((await storage.get('a')).pair).toBeUndefined()
      const page = await storage.list('')
      expect(page.pairs).toEqual([])
      expect(page.more).toBe(false)
    })

    guarantee('a read that begins after a transaction resolved sees it', async ({ storage }) => {
      for (let i = 0; i < 50; i++) {
        const revision = await commit(storage, [put('k', `${i}`)])
        const [one, all, head] = await Promise.all([storage.get('k'), storage.list(''), storage.head()])
        expect(one.pair).toEqual(pair('k', `${i}`, revision, one.pair?.createRevision ?? zeroRevision))
        expect(one.revision).toBeGreaterThanOrEqual(revision)
        expect(all.pairs.map(text)).toEqual([`k=${i}`])
        expect(all.revision).toBeGreaterThanOrEqual(revision)
        expect(head.current).toBeGreaterThanOrEqual(revision)
      }
    })

    guarantee(
      'head names the last transaction and never goes back, not even after reopening',
      async opened => {
        let { storage } = opened
        const before = await storage.head()
        const revision = await commit(storage, [put('a', '1')])
        expect(revision).toBeGreaterThan(before.written)
        const head = await storage.head()
        expect(head.written).toBe(revision)
        expect(head.current).toBeGreaterThanOrEqual(head.written)
        storage = await opened.reopen()
        const again = await storage.head()
        expect(again.written).toBe(revision)
        expect(again.current).toBeGreaterThanOrEqual(head.current)
        expect(await commit(storage, [put('a', '2')])).toBeGreaterThan(again.current)
      },
    )

    guarantee(
      'a list is in the order of the bytes and has exactly the keys of the prefix',
      async ({ storage }) => {
        const keys = allAsciiKeys()
        await commitEach(storage, keys)
        const sorted = [...keys].sort(byBytes)
        expect((await listAll(storage, '')).map(p => p.key)).toEqual(sorted)
        for (const prefix of ['a', 'a/', 'a/b', 'a/b/', 'a0', 'a/~', 'a/\x7f', 'z', 'nothing', '\x01'])
          expect((await listAll(storage, prefix, { limit: 3 })).map(p => p.key)).toEqual(
            sorted.filter(key => key.startsWith(prefix)),
          )
      },
    )

    guarantee('pages are gapless and without repeats, and say whether more follow', async ({ storage }) => {
      const keys = Array.from({ length: 25 }, (_, i) => `p/${String(i).padStart(3, '0')}`)
      await commit(
        storage,
        [...keys, 'o', 'q'].map(key => put(key, key)),
      )
      for (const limit of [1, 2, 7, 24, 25, 26]) {
        const seen: string[] = []
        let after: string | undefined
        for (let more = true; more; ) {
          const page = await storage.list('p/', { limit, ...(after === undefined ? {} : { after }) })
          expect(page.pairs.length).toBeLessThanOrEqual(limit)
          if (page.more) expect(page.pairs.length).toBeGreaterThan(0)
          seen.push(...page.pairs.map(p => p.key))
          after = page.pairs.at(-1)?.key
          more = page.more
        }
        expect(seen).toEqual(keys)
      }
    })

    guarantee('a list of keys alone is the same list without the values', async ({ storage }) => {
      const keys = Array.from({ length: 25 }, (_, i) => `p/${String(i).padStart(3, '0')}`)
      await commitEach(storage, keys)
      const { current } = await storage.head()
      await commit(storage, [put('p/003', 'later'), del('p/007')])
      for (const options of [{}, { limit: 4 }, { revision: current }, { revision: current, limit: 4 }]) {
        const whole = await listAll(storage, 'p/', options)
        const bare = await listAll(storage, 'p/', { ...options, keysOnly: true })
        expect(whole.every(({ value }) => value.length > 0)).toBe(true)
        expect(bare).toEqual(whole.map(one => ({ ...one, value: Buffer.alloc(0) })))
      }
    })

    guarantee('`after` may be any string: absent, below the prefix or beyond it', async ({ storage }) => {
      await commit(storage, [put('a', '1'), put('p/a', '2'), put('p/c', '3'), put('q', '4')])
      const keys = async (after: string) => (await storage.list('p/', { after })).pairs.map(p => p.key)
      expect(await keys('p/a')).toEqual(['p/c'])
      expect(await keys('p/b')).toEqual(['p/c'])
      expect(await keys('p/c')).toEqual([])
      expect(await keys('a')).toEqual(['p/a', 'p/c'])
      expect(await keys('q')).toEqual([])
    })

    guarantee(
      'the pages of one revision are one state, whatever is written meanwhile',
      async ({ storage }) => {
        const keys = Array.from({ length: 40 }, (_, i) => `p/${String(i).padStart(2, '0')}`)
        await commit(
          storage,
          keys.map(key => put(key, 'old')),
        )
        const first = await storage.list('p/', { limit: 5 })
        const seen = [...first.pairs]
        for (let more = first.more, round = 0; more; round++) {
          await commit(storage, [
            put(`p/${String(round).padStart(2, '0')}`, 'new'),
            put(`p/${String(39 - round).padStart(2, '0')}`, 'new'),
            del(`p/${20 + round}`),
            put(`p/${20 + round}x`, 'new'),
          ])
          const page = await storage.list('p/', { limit: 5, revision: first.revision, after: lastKey(seen) })
          expect(page.revision).toBe(first.revision)
          seen.push(...page.pairs)
          more = page.more
        }
        expect(seen.map(text)).toEqual(keys.map(key => `${key}=old`))
      },
    )

    guarantee(
      'a list at a revision is the state then, also of keys deleted or made again since',
      async opened => {
        let { storage } = opened
        const r1 = await commit(storage, [put('k/a', '1'), put('k/b', '1')])
        const r2 = await commit(storage, [del('k/a'), put('k/c', '2')])
        const r3 = await commit(storage, [put('k/a', '3')])
        const r4 = await commit(storage, [del('k/b'), del('k/c')])
        const check = async () => {
          expect(await listAll(storage, 'k/', { revision: r1 })).toEqual([
            pair('k/a', '1', r1, r1),
            pair('k/b', '1', r1, r1),
          ])
          expect(await listAll(storage, 'k/', { revision: r2 })).toEqual([
            pair('k/b', '1', r1, r1),
            pair('k/c', '2', r2, r2),
          ])
          expect(await listAll(storage, 'k/', { revision: r3 })).toEqual([
            pair('k/a', '3', r3, r3),
            pair('k/b', '1', r1, r1),
            pair('k/c', '2', r2, r2),
          ])
          expect(await listAll(storage, 'k/', { revision: r4 })).toEqual([pair('k/a', '3', r3, r3)])
          for (const revision of [r1, r2, r3, r4])
            expect((await storage.list('k/', { revision })).revision).toBe(revision)
        }
        await check()
        storage = await opened.reopen()
        await check()
      },
    )

    guarantee('a list at a revision that has not been reached is refused', async ({ storage }) => {
      const { current } = await storage.head()
      const revision = toRevision(current + 1_000)
      await expect(storage.list('', { revision })).rejects.toBeInstanceOf(FutureRevisionError)
    })

    guarantee('a call whose signal is aborted rejects and changes nothing', async ({ storage }) => {
      const options = { signal: AbortSignal.abort() }
      await expect(storage.get('a', options)).rejects.toThrow()
      await expect(storage.list('', options)).rejects.toThrow()
      await expect(storage.head(options)).rejects.toThrow()
      await expect(storage.transact(change([put('a', '1')]), options)).rejects.toThrow()
      expect((await storage.get('a')).pair).toBeUndefined()
    })
  })

  describe(`${name}: transactions`, () => {
    guarantee(
      'all that a transaction puts has its revision, and the next one has a higher',
      async ({ storage }) => {
        const r1 = await commit(storage, [put('a', '1'), put('b', '1'), put('c', '1')])
        expect((await listAll(storage, '')).map(p => p.modRevision)).toEqual([r1, r1, r1])
        const r2 = await commit(storage, [put('b', '2')])
        expect(r2).toBeGreaterThan(r1)
        expect((await listAll(storage, '')).map(p => p.modRevision)).toEqual([r1, r2, r1])
      },
    )

    guarantee('createRevision lasts over updates and starts anew after a deletion', async ({ storage }) => {
      const r1 = await commit(storage, [put('a', '1')])
      const r2 = await commit(storage, [put('a', '2')])
      expect((await storage.get('a')).pair).toEqual(pair('a', '2', r2, r1))
      await commit(storage, [del('a')])
      expect((await storage.get('a')).pair).toBeUndefined()
      const r4 = await commit(storage, [put('a', '4')])
      expect((await storage.get('a')).pair).toEqual(pair('a', '4', r4, r4))
    })

    guarantee(
      'compares hold for the exact revision or for absence, and for nothing else',
      async ({ storage }) => {
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
      },
    )

    guarantee('a refused compare changes nothing and answers what it asks to read', async ({ storage }) => {
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

    guarantee('the pairs of a refusal are one state, the one that refused', async ({ storage }) => {
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
        if (result.succeeded) throw new Error('the compare cannot hold')
        const [a, b] = result.pairs
        expect(a?.value.toString()).toBe(b?.value.toString())
        expect(a?.modRevision).toBe(b?.modRevision)
        expect(result.revision).toBeGreaterThanOrEqual(a?.modRevision ?? zeroRevision)
      }
      await writer
      expect((await storage.get('a')).pair?.modRevision).toBe(revision)
    })

    guarantee('a transaction that changes nothing succeeds and leaves no trace', async ({ storage }) => {
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
      'a value of the largest size, and an empty one, come back whole everywhere',
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
      'a transaction of the most items is one; above the limits it is refused',
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
            { type: 'put', key: 'm', value: Buffer.alloc(storageLimits.valueBytes + 1) },
          ]),
          change([put('l', '1'), del('l')]),
        ]
        for (const transaction of refused) await expect(storage.transact(transaction)).rejects.toThrow()
        expect((await listAll(storage, '')).map(p => p.key)).toEqual(keys)
      },
    )

    guarantee(
      'a watch up to a revision delivers the changes until then and returns, also where there are none',
      async ({ storage }) => {
        const r1 = await commit(storage, [put('a/1', 'x')])
        const r2 = await commit(storage, [put('b/1', 'x')])
        const r3 = await commit(storage, [put('a/2', 'y'), del('a/1')])
        const r4 = await commit(storage, [put('b/2', 'x')])
        await commit(storage, [put('a/3', 'z')])
        const { signal } = new AbortController()
        const delivered = async (prefix: string, after: Revision, until: Revision) => {
          const changes: string[] = []
          for await (const batch of storage.watch(prefix, { after, until, signal })) {
            for (const change of batch.changes) {
              if (change.revision <= until) changes.push(`${change.key}@${change.revision}`)
            }
          }
          return changes.sort()
        }
        expect(await delivered('a/', r1, r4)).toEqual([`a/1@${r3}`, `a/2@${r3}`])
        expect(await delivered('a/', r1, r2)).toEqual([])
        expect(await delivered('b/', zeroRevision, r4)).toEqual([`b/1@${r2}`, `b/2@${r4}`])
        expect(await delivered('a/', r4, r4)).toEqual([])
      },
    )

    guarantee('of 64 that compare the same revision exactly one wins, each round', async ({ storage }) => {
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
    })

    guarantee(
      'the revisions of concurrent transactions are unique and no update is lost',
      async ({ storage }) => {
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
      },
    )
  })

  describe(`${name}: watching`, () => {
    guarantee('a watch replays what came after its revision and goes on live', async ({ storage }) => {
      const { current } = await storage.head()
      const r1 = await commit(storage, [put('w/a', '1'), put('other', 'x')])
      const r2 = await commit(storage, [put('w/a', '2')])
      const watch = follow(storage, 'w/', current)
      await watch.reaches(r2)
      const r3 = await commit(storage, [del('w/a'), put('w/b', '3')])
      await commit(storage, [put('other', 'y'), put('w', 'z'), put('w0', 'z')])
      const r5 = await commit(storage, [put('w/a', '5')])
      await watch.reaches(r5)
      await watch.stop()
      expect(watch.changes()).toEqual([
        created('w/a', '1', r1),
        { ...created('w/a', '2', r2), createRevision: r1, previous: Buffer.from('1') },
        deleted('w/a', r3, '2'),
        created('w/b', '3', r3),
        created('w/a', '5', r5),
      ])
      expect((await collect(storage, 'w/', r2, r5)).map(describeChange)).toEqual(
        watch.changes().slice(2).map(describeChange),
      )
    })

    guarantee('a watch from the present has nothing of the past', async ({ storage }) => {
      const r1 = await commit(storage, [put('a', '1')])
      const watch = follow(storage, '', r1)
      const r2 = await commit(storage, [put('b', '2')])
      await watch.reaches(r2)
      await watch.stop()
      expect(watch.changes().map(describeChange)).toEqual([`b=2@${r2}`])
    })

    guarantee('a revision is delivered whole, in one batch', async ({ storage }) => {
      const { current } = await storage.head()
      const watch = follow(storage, 'w/', current)
      const keys = Array.from({ length: 100 }, (_, i) => `w/${String(i).padStart(3, '0')}`)
      const value = 'x'.repeat(4_000)
      let last = current
      for (let i = 0; i < 5; i++)
        last = await commit(
          storage,
          keys.map(key => put(key, value)),
        )
      await watch.reaches(last)
      await watch.stop()
      const replay = await collectBatches(storage, 'w/', current, last)
      for (const batches of [watch.batches, replay]) {
        const seen = new Map<Revision, number>()
        for (const batch of batches) {
          for (const revision of new Set(batch.changes.map(c => c.revision))) {
            expect(seen.has(revision)).toBe(false)
            seen.set(revision, batch.changes.filter(c => c.revision === revision).length)
          }
        }
        expect([...seen.values()]).toEqual([100, 100, 100, 100, 100])
      }
    })

    guarantee(
      'a watch has no gap and no repeat, wherever it begins and whoever writes',
      async ({ storage }) => {
        const { current } = await storage.head()
        const log: string[] = []
        const watches: { after: Revision; watch: Follower }[] = []
        const writers = Array.from({ length: 8 }, async (_, lane) => {
          for (let i = 0; i < 40; i++) {
            const revision = await commit(storage, [put(`w/${lane}`, `${i}`)])
            log.push(`w/${lane}=${i}@${revision}`)
            if (i % 10 === lane) watches.push({ after: revision, watch: follow(storage, 'w/', revision) })
            if (i % 10 === 9) watches.push({ after: current, watch: follow(storage, 'w/', current) })
          }
        })
        await Promise.all(writers)
        const last = await commit(storage, [put('w/last', '')])
        log.push(`w/last=@${last}`)
        log.sort((a, b) => revisionOf(a) - revisionOf(b))
        for (const { after, watch } of watches) {
          await watch.reaches(last)
          await watch.stop()
          expect(watch.changes().map(describeChange)).toEqual(log.filter(line => revisionOf(line) > after))
        }
      },
    )

    guarantee('many watches each get what is theirs', async ({ storage }) => {
      const { current } = await storage.head()
      const watches = Array.from({ length: 40 }, (_, i) => follow(storage, `w/${i}/`, current))
      const expected = watches.map(() => [] as string[])
      for (let round = 0; round < 5; round++)
        for (let i = 0; i < watches.length; i++) {
          const revision = await commit(storage, [put(`w/${i}/a`, `${round}`), put(`w/${i}`, 'x')])
          expected[i]?.push(`w/${i}/a=${round}@${revision}`)
        }
      for (const [i, watch] of watches.entries()) {
        await watch.reaches(toRevision(revisionOf(expected[i]?.at(-1) ?? '@0')))
        await watch.stop()
        expect(watch.changes().map(describeChange)).toEqual(expected[i])
      }
    })

    guarantee('a watch that is not read for a while misses nothing', async ({ storage }) => {
      const { current } = await storage.head()
      const controller = new AbortController()
      const iterator = storage
        .watch('', { after: current, signal: controller.signal })
        [Symbol.asyncIterator]()
      const lines: string[] = []
      const first = iterator.next()
      for (let i = 0; i < 300; i++) lines.push(`k=${i}@${await commit(storage, [put('k', `${i}`)])}`)
      const seen: string[] = []
      for (let step = await first; !step.done; step = await iterator.next()) {
        seen.push(...step.value.changes.map(describeChange))
        if (seen.length >= lines.length) break
      }
      controller.abort()
      expect(seen).toEqual(lines)
    })

    guarantee('a batch says up to where all has been delivered, and that only rises', async ({ storage }) => {
      const { current } = await storage.head()
      for (let i = 0; i < 30; i++) await commit(storage, [put(i % 2 ? 'w/a' : 'other', `${i}`)])
      const last = await commit(storage, [put('w/b', '')])
      let reached = current
      for (const batch of await collectBatches(storage, 'w/', current, last)) {
        expect(batch.revision).toBeGreaterThanOrEqual(reached)
        for (const { revision } of batch.changes) {
          expect(revision).toBeGreaterThan(reached)
          expect(revision).toBeLessThanOrEqual(batch.revision)
        }
        reached = batch.revision
      }
    })

    guarantee(
      'aborting ends a watch promptly and without an error, leaving it ends it too',
      async ({ storage }) => {
        const revision = await commit(storage, [put('a', '1')])
        const controller = new AbortController()
        const waiting = drain(storage.watch('', { after: revision, signal: controller.signal }))
        await commit(storage, [put('a', '2')])
        controller.abort()
        await within(waiting, 'the end of an aborted watch')
        await within(drain(storage.watch('', { after: zeroRevision, signal: controller.signal })), 'the end')
        for await (const batch of storage.watch('', {
          after: revision,
          signal: new AbortController().signal,
        }))
          if (batch.changes.length > 0) break
      },
    )

    guarantee('a watch from before the store was closed delivers exactly what it missed', async opened => {
      let { storage } = opened
      const { current } = await storage.head()
      const r1 = await commit(storage, [put('a', '1'), put('b', '1')])
      const r2 = await commit(storage, [del('a'), put('b', '2')])
      storage = await opened.reopen()
      const r3 = await commit(storage, [put('a', '3')])
      expect(await collect(storage, '', current, r3)).toEqual([
        created('a', '1', r1),
        created('b', '1', r1),
        deleted('a', r2, '1'),
        { ...created('b', '2', r2), createRevision: r1, previous: Buffer.from('1') },
        created('a', '3', r3),
      ])
      expect((await collect(storage, '', r2, r3)).map(describeChange)).toEqual([`a=3@${r3}`])
    })
  })

  describe(`${name}: compaction`, () => {
    guarantee('compaction forgets the past, keeps the present and can be repeated', async opened => {
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
        expect((await collect(storage, '', r3, r4)).map(describeChange)).toEqual([`c=4@${r4}`])
      }
      await check()
      storage = await opened.reopen()
      await check()
    })

    guarantee('a store compacted at its present goes on as before', async ({ storage }) => {
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

    guarantee('a revision that has not been reached cannot be compacted', async ({ storage }) => {
      const revision = await commit(storage, [put('a', '1')])
      const { current } = await storage.head()
      await expect(storage.compact(toRevision(current + 1_000))).rejects.toBeInstanceOf(FutureRevisionError)
      expect((await listAll(storage, '', { revision })).map(text)).toEqual(['a=1'])
    })
  })

  describe(`${name}: closing`, () => {
    guarantee('close ends every watch, refuses later calls and can be repeated', async ({ storage }) => {
      const revision = await commit(storage, [put('a', '1')])
      const idle = drain(storage.watch('', { after: revision, signal: new AbortController().signal }))
      await storage.get('a')
      await storage.close()
      await storage.close()
      await within(idle, 'the end of a watch on a closed store')
      await expect(storage.get('a')).rejects.toThrow()
      await expect(storage.list('')).rejects.toThrow()
      await expect(storage.head()).rejects.toThrow()
      await expect(storage.transact(change([put('a', '2')]))).rejects.toThrow()
    })
  })

  describe(`${name}: against a model`, () => {
    guarantee('whatever is done to it, the store is where the model is', async ({ storage }) => {
      let run = 0
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async steps => {
          const model = new Model(`run${run++}/`, (await storage.head()).current)
          for (const one of steps) await model.play(storage, one)
          await model.checkWatches(storage)
        }),
        { numRuns: 60 },
      )
    })
  })
}

// Shorthands

const put = (key: string, value: string): Operation => ({ type: 'put', key, value: Buffer.from(value) })
const del = (key: string): Operation => ({ type: 'delete', key })
const compare = (key: string, modRevision: Revision): Compare => ({ key, modRevision })
const change = (onSuccess: readonly Operation[], compares: readonly Compare[] = []): Transaction => ({
  compares,
  onSuccess,
})

async function commit(
  storage: Storage,
  operations: readonly Operation[],
  compares: readonly Compare[] = [],
): Promise<Revision> {
  const result = await storage.transact(change(operations, compares))
  if (!result.succeeded) throw new Error('a compare was refused that should hold')
  return result.revision
}

/** Puts keys, more than fit into one transaction, each with itself as value. */
async function commitEach(storage: Storage, keys: readonly string[]): Promise<void> {
  for (let i = 0; i < keys.length; i += 100)
    await commit(
      storage,
      keys.slice(i, i + 100).map(key => put(key, key)),
    )
}

async function listAll(storage: Storage, prefix: string, options: ListOptions = {}): Promise<KeyValue[]> {
  const first = await storage.list(prefix, options)
  const pairs = [...first.pairs]
  for (let { more } = first; more; ) {
    const page = await storage.list(prefix, { ...options, revision: first.revision, after: lastKey(pairs) })
    expect(page.revision).toBe(first.revision)
    pairs.push(...page.pairs)
    more = page.more
  }
  return pairs
}

function lastKey(pairs: readonly KeyValue[]): string {
  const last = pairs.at(-1)
  if (last === undefined) throw new Error('an empty page that says `more`')
  return last.key
}

const pair = (key: string, value: string, modRevision: Revision, createRevision: Revision): KeyValue => ({
  key,
  value: Buffer.from(value),
  modRevision,
  createRevision,
})
const created = (key: string, value: string, revision: Revision): Change => ({
  key,
  revision,
  value: Buffer.from(value),
  previous: undefined,
  createRevision: revision,
})
const deleted = (key: string, revision: Revision, previous: string): Change => ({
  key,
  revision,
  value: undefined,
  previous: Buffer.from(previous),
  createRevision: zeroRevision,
})

const text = (one: KeyValue) => `${one.key}=${one.value}`
const describeChange = (one: Change) =>
  `${one.key}${one.value ? `=${one.value}` : ' deleted'}@${one.revision}`
const revisionOf = (line: string) => Number(line.slice(line.lastIndexOf('@') + 1))
const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

/** Every ASCII character at the end, in the middle and at the start of a key, and the neighbours of a prefix. */
function allAsciiKeys(): string[] {
  const keys = new Set(['a', 'a/', 'a/b', 'a/b/c', 'a/bc', 'a0', 'a/b0', 'aa', 'b', '`', 'a.b', 'a/B'])
  for (let code = 1; code < 128; code++) {
    const character = String.fromCharCode(code)
    keys.add(`a/${character}`).add(`a/${character}z`).add(`${character}z`)
  }
  // A key has no leading slash.
  return [...keys].filter(key => !key.startsWith('/'))
}

const compactedOr =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof CompactedError) return value
    throw error
  }

async function within<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} did not come within ${patienceMs} ms`)), patienceMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

async function drain(batches: AsyncIterable<WatchBatch>): Promise<void> {
  for await (const _ of batches);
}

/** Watches until everything up to `until`, a revision with a change under the prefix, has come. */
async function collectBatches(
  storage: Storage,
  prefix: string,
  after: Revision,
  until: Revision,
): Promise<WatchBatch[]> {
  const watch = follow(storage, prefix, after)
  try {
    await watch.reaches(until)
  } finally {
    await watch.stop().catch(() => {})
  }
  return watch.batches
}

async function collect(
  storage: Storage,
  prefix: string,
  after: Revision,
  until: Revision,
): Promise<Change[]> {
  return sortedChanges(await collectBatches(storage, prefix, after, until))
}

/** Changes in the order of their revisions; inside one revision, where the contract leaves the order open, by key. */
function sortedChanges(batches: readonly WatchBatch[]): Change[] {
  const changes = batches.flatMap(batch => batch.changes)
  for (const [i, next] of changes.slice(1).entries())
    expect(next.revision).toBeGreaterThanOrEqual(changes[i]?.revision ?? zeroRevision)
  return changes.sort((a, b) => a.revision - b.revision || byBytes(a.key, b.key))
}

interface Follower {
  readonly batches: WatchBatch[]
  changes(): Change[]
  /** Resolves once everything up to this revision has come, rejects with what the watch ends with before. */
  reaches(revision: Revision): Promise<void>
  stop(): Promise<void>
}

function follow(storage: Storage, prefix: string, after: Revision): Follower {
  const controller = new AbortController()
  const batches: WatchBatch[] = []
  let reached = after
  let wake = () => {}
  let ended = false
  const running = (async () => {
    try {
      for await (const batch of storage.watch(prefix, { after, signal: controller.signal })) {
        batches.push(batch)
        reached = batch.revision
        wake()
      }
    } finally {
      ended = true
      wake()
    }
  })()
  running.catch(() => {})
  return {
    batches,
    changes: () => sortedChanges(batches),
    async reaches(revision) {
      const arrival = async () => {
        while (reached < revision) {
          if (ended) {
            await running
            throw new Error(`the watch ended at revision ${reached}, before ${revision}`)
          }
          await new Promise<void>(resolve => {
            wake = resolve
          })
        }
      }
      await within(arrival(), `revision ${revision} of a watch`)
    },
    async stop() {
      controller.abort()
      await within(running, 'the end of an aborted watch')
    },
  }
}

// The model: the plain list of all states, to which the store is compared step by step.

const keyNames = ['a', 'a/', 'a/b', 'a/bc', 'a0', 'b'] as const
const prefixes = ['', 'a', 'a/', 'a/b', 'b', 'c'] as const

type Step =
  | {
      readonly type: 'transact'
      readonly operations: readonly { readonly key: string; readonly value: string | undefined }[]
      readonly compares: readonly { readonly key: string; readonly with: 'present' | 'absent' | 'stale' }[]
    }
  | { readonly type: 'compact'; readonly back: number }
  | { readonly type: 'list'; readonly back: number; readonly prefix: string; readonly limit: number }
  | { readonly type: 'get'; readonly key: string }

const aKey = fc.constantFrom(...keyNames)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('transact' as const),
      operations: fc.uniqueArray(
        fc.record({ key: aKey, value: fc.option(fc.string({ maxLength: 3 }), { nil: undefined }) }),
        { maxLength: 4, selector: operation => operation.key },
      ),
      compares: fc.array(
        fc.record({ key: aKey, with: fc.constantFrom('present', 'present', 'present', 'absent', 'stale') }),
        { maxLength: 2 },
      ),
    }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('compact' as const), back: fc.nat(8) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('list' as const),
      back: fc.nat(10),
      prefix: fc.constantFrom(...prefixes),
      limit: fc.integer({ min: 1, max: 4 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('get' as const), key: aKey }) },
)

type State = ReadonlyMap<string, KeyValue>

class Model {
  /** The state after each revision of this run, oldest first; the first is the empty one that it began with. */
  readonly #states: { revision: Revision; state: State }[]
  readonly #changes: Change[] = []
  readonly #root: string
  #compacted: Revision

  constructor(root: string, start: Revision) {
    this.#root = root
    this.#states = [{ revision: start, state: new Map() }]
    this.#compacted = zeroRevision
  }

  async play(storage: Storage, step: Step): Promise<void> {
    switch (step.type) {
      case 'transact':
        return await this.#transact(storage, step)
      case 'get': {
        const key = this.#root + step.key
        expect((await storage.get(key)).pair).toEqual(this.#now().state.get(key))
        return
      }
      case 'compact': {
        const { revision } = this.#back(step.back)
        await storage.compact(revision)
        if (revision > this.#compacted) this.#compacted = revision
        return
      }
      case 'list': {
        const { revision, state } = this.#back(step.back)
        const prefix = this.#root + step.prefix
        const listing = listAll(storage, prefix, { revision, limit: step.limit })
        if (revision < this.#compacted) return await expect(listing).rejects.toBeInstanceOf(CompactedError)
        const expected = [...state.values()].filter(one => one.key.startsWith(prefix))
        expect(await listing).toEqual(expected.sort((a, b) => byBytes(a.key, b.key)))
        if (revision === this.#now().revision)
          expect(await listAll(storage, prefix, { limit: step.limit })).toEqual(expected)
      }
    }
  }

  async #transact(storage: Storage, step: Extract<Step, { type: 'transact' }>): Promise<void> {
    const { revision: last, state } = this.#now()
    const compares = step.compares.map(one => {
      const key = this.#root + one.key
      const present = state.get(key)?.modRevision ?? zeroRevision
      if (one.with === 'absent') return { key, modRevision: zeroRevision }
      // Never a revision that this key can have: the run's transactions began after it.
      if (one.with === 'stale') return { key, modRevision: toRevision(this.#first().revision || 1_000_000) }
      return { key, modRevision: present }
    })
    const onFailure = step.operations.map(operation => this.#root + operation.key)
    const result = await storage.transact({
      compares,
      onSuccess: step.operations.map(({ key, value }) =>
        value === undefined ? del(this.#root + key) : put(this.#root + key, value),
      ),
      onFailure,
    })
    const holds = compares.every(one => (state.get(one.key)?.modRevision ?? zeroRevision) === one.modRevision)
    expect(result.succeeded).toBe(holds)
    if (!result.succeeded) {
      expect(result.pairs).toEqual(onFailure.map(key => state.get(key)))
      return
    }
    const { revision } = result
    const next = new Map(state)
    const changes: Change[] = []
    for (const { key: name, value } of step.operations) {
      const key = this.#root + name
      const old = state.get(key)
      if (value === undefined) {
        if (old === undefined) continue
        next.delete(key)
        changes.push(deleted(key, revision, old.value.toString()))
      } else {
        const createRevision = old?.createRevision ?? revision
        next.set(key, pair(key, value, revision, createRevision))
        changes.push({ ...created(key, value, revision), createRevision, previous: old?.value })
      }
    }
    if (changes.length === 0) return
    expect(revision).toBeGreaterThan(last)
    this.#changes.push(...changes.sort((a, b) => byBytes(a.key, b.key)))
    this.#states.push({ revision, state: next })
  }

  /** Watches from every revision of the run under every prefix: exactly the changes after it, or CompactedError. */
  async checkWatches(storage: Storage): Promise<void> {
    const marks = prefixes.map(prefix => ({ key: `${prefix}~`, value: '' }))
    await this.#transact(storage, { type: 'transact', operations: marks, compares: [] })
    const last = this.#now().revision
    await Promise.all(
      this.#states.slice(-12, -1).map(async ({ revision: after }, i) => {
        const prefix = `${this.#root}${prefixes[i % prefixes.length]}`
        const watching = collect(storage, prefix, after, last)
        const expected = this.#changes.filter(one => one.revision > after && one.key.startsWith(prefix))
        if (after >= this.#compacted) return expect(await watching).toEqual(expected)
        // The change at the compacted revision itself may still be there: then all of it, never a part.
        if (after === this.#compacted - 1)
          return expect(await watching.catch(compactedOr(expected))).toEqual(expected)
        await expect(watching).rejects.toBeInstanceOf(CompactedError)
      }),
    )
  }

  #first() {
    return this.#back(Number.POSITIVE_INFINITY)
  }

  #now() {
    return this.#back(0)
  }

  #back(steps: number) {
    const found = this.#states[Math.max(0, this.#states.length - 1 - steps)]
    if (found === undefined) throw new Error('the model begins with a state')
    return found
  }
}
