import { toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { describe, expect } from 'vitest'
import { FutureRevisionError } from '../../apiserver/src/storage/index.ts'
import { guaranteesOf, type StorageHarness } from './harness.ts'
import { byBytes, change, commit, commitEach, del, lastKey, listAll, pair, put, text } from './operations.ts'

export function readingConformance(harness: StorageHarness): void {
  const guarantee = guaranteesOf(harness)

  describe('reading', () => {
    guarantee('a new store is empty', async ({ storage }) => {
      expect((await storage.get('a')).pair).toBeUndefined()
      const page = await storage.list('')
      expect(page.pairs).toEqual([])
      expect(page.more).toBe(false)
    })

    guarantee('a read that starts after a transaction resolved sees it', async ({ storage }) => {
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

    guarantee('head returns the last transaction and never decreases, even after reopening', async opened => {
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
    })

    guarantee('a list is in byte order and has exactly the keys with the prefix', async ({ storage }) => {
      const keys = allAsciiKeys()
      await commitEach(storage, keys)
      const sorted = [...keys].sort(byBytes)
      expect((await listAll(storage, '')).map(p => p.key)).toEqual(sorted)
      for (const prefix of ['a', 'a/', 'a/b', 'a/b/', 'a0', 'a/~', 'a/\x7f', 'z', 'nothing', '\x01'])
        expect((await listAll(storage, prefix, { limit: 3 })).map(p => p.key)).toEqual(
          sorted.filter(key => key.startsWith(prefix)),
        )
    })

    guarantee('pages have no gaps and no duplicates, and say whether more follow', async ({ storage }) => {
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

    guarantee('keysOnly returns the same list without values', async ({ storage }) => {
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

    guarantee('`after` may be a missing key, or one before or after the prefix', async ({ storage }) => {
      await commit(storage, [put('a', '1'), put('p/a', '2'), put('p/c', '3'), put('q', '4')])
      const keys = async (after: string) => (await storage.list('p/', { after })).pairs.map(p => p.key)
      expect(await keys('p/a')).toEqual(['p/c'])
      expect(await keys('p/b')).toEqual(['p/c'])
      expect(await keys('p/c')).toEqual([])
      expect(await keys('a')).toEqual(['p/a', 'p/c'])
      expect(await keys('q')).toEqual([])
    })

    guarantee('all pages of a revision show one state while others write', async ({ storage }) => {
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
    })

    guarantee(
      'a list at a revision shows the state then, including keys deleted or recreated since',
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

    guarantee('a list at a future revision is rejected', async ({ storage }) => {
      const { current } = await storage.head()
      const revision = toRevision(current + 1_000)
      await expect(storage.list('', { revision })).rejects.toBeInstanceOf(FutureRevisionError)
    })

    guarantee('a call with an aborted signal rejects and changes nothing', async ({ storage }) => {
      const options = { signal: AbortSignal.abort() }
      await expect(storage.get('a', options)).rejects.toThrow()
      await expect(storage.list('', options)).rejects.toThrow()
      await expect(storage.head(options)).rejects.toThrow()
      await expect(storage.transact(change([put('a', '1')]), options)).rejects.toThrow()
      expect((await storage.get('a')).pair).toBeUndefined()
    })
  })
}

/**
 * Returns keys with each ASCII character at the start, in the middle and at the end, and the neighbours of a prefix.
 */
function allAsciiKeys(): string[] {
  const keys = new Set(['a', 'a/', 'a/b', 'a/b/c', 'a/bc', 'a0', 'a/b0', 'aa', 'b', '`', 'a.b', 'a/B'])
  for (let code = 1; code < 128; code++) {
    const character = String.fromCharCode(code)
    keys.add(`a/${character}`).add(`a/${character}z`).add(`${character}z`)
  }
  // A key has no leading slash.
  return [...keys].filter(key => !key.startsWith('/'))
}
