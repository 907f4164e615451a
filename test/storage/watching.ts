import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import { describe, expect } from 'vitest'
import { collect, collectBatches, drain, type Follower, follow, within } from './follower.ts'
import { guaranteesOf, type StorageHarness } from './harness.ts'
import { commit, created, del, deleted, describeChange, put, revisionOf } from './operations.ts'

export function watchConformance(harness: StorageHarness): void {
  const guarantee = guaranteesOf(harness)

  describe('watching', () => {
    guarantee(
      'a watch replays the changes after its revision, then delivers new ones',
      async ({ storage }) => {
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
        const expected = [
          created('w/a', '1', r1),
          { ...created('w/a', '2', r2), createRevision: r1, previous: Buffer.from('1') },
          deleted('w/a', r3, '2'),
          created('w/b', '3', r3),
          created('w/a', '5', r5),
        ]
        expect(watch.changes()).toEqual(expected.map(change => ({ ...change, previous: undefined })))
        expect(await collect(storage, 'w/', current, r5)).toEqual(expected)
        expect(await collect(storage, 'w/', r2, r5)).toEqual(expected.slice(2))
      },
    )

    guarantee('a watch from the current revision delivers no earlier change', async ({ storage }) => {
      const r1 = await commit(storage, [put('a', '1')])
      const watch = follow(storage, '', r1)
      const r2 = await commit(storage, [put('b', '2')])
      await watch.reaches(r2)
      await watch.stop()
      expect(watch.changes().map(describeChange)).toEqual([`b=2@${r2}`])
    })

    guarantee('all changes of a revision arrive in one batch', async ({ storage }) => {
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
      'a watch has no gap and no duplicate, from any revision and under concurrent writes',
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

    guarantee('each of many watches gets the changes under its prefix', async ({ storage }) => {
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

    guarantee('a watch that is not read for a while loses nothing', async ({ storage }) => {
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

    guarantee('the revision of a batch covers all its changes and only rises', async ({ storage }) => {
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

    guarantee('an abort ends a watch without an error, and so does leaving the loop', async ({ storage }) => {
      const { current: start } = await storage.head()
      const revision = await commit(storage, [put('a', '1')])
      const controller = new AbortController()
      const waiting = drain(storage.watch('', { after: revision, signal: controller.signal }))
      await commit(storage, [put('a', '2')])
      controller.abort()
      await within(waiting, 'the end of an aborted watch')
      await within(drain(storage.watch('', { after: start, signal: controller.signal })), 'the end')
      for await (const batch of storage.watch('', {
        after: revision,
        signal: new AbortController().signal,
      }))
        if (batch.changes.length > 0) break
    })

    guarantee(
      'a watch with `until` delivers the changes up to it and returns, even if there are none',
      async ({ storage }) => {
        const { current: start } = await storage.head()
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
        expect(await delivered('b/', start, r4)).toEqual([`b/1@${r2}`, `b/2@${r4}`])
        expect(await delivered('a/', r4, r4)).toEqual([])
      },
    )

    guarantee('a watch resumed after reopening delivers exactly the changes in between', async opened => {
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
}
