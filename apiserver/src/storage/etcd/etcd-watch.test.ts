import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from '@setpoint/controller-runtime'
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  type EtcdOptions,
  type EtcdProcess,
  startEtcd,
  startEtcdCluster,
} from '../../../../test/support/etcd.ts'
import { type Follower, follow } from '../../../../test/support/follow.ts'
import { startTcpProxy, type TcpProxy } from '../../../../test/support/tcp-proxy.ts'
import {
  CompactedError,
  type Operation,
  OutcomeUnknownError,
  type Storage,
  StoreUnavailableError,
  WrongStoreError,
} from '../contract.ts'
import { type EtcdStorageOptions, openEtcdStorage } from './index.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function etcdForTest(options: EtcdOptions = {}): Promise<EtcdProcess> {
  const etcd = await startEtcd({ unsafeNoFsync: true, ...options })
  cleanups.push(() => etcd.stop())
  return etcd
}

async function proxyForTest(target: EtcdProcess): Promise<TcpProxy> {
  const proxy = await startTcpProxy(target)
  cleanups.push(() => proxy.close())
  return proxy
}

async function storageForTest(
  endpoints: readonly { readonly endpoint: string }[],
  options: Partial<EtcdStorageOptions> = {},
): Promise<Storage> {
  const storage = await openEtcdStorage({ endpoints: endpoints.map(one => one.endpoint), ...options })
  cleanups.push(() => storage.close())
  return storage
}

const put = (key: string, value: string | Buffer): Operation => ({
  type: 'put',
  key,
  value: Buffer.from(value),
})

async function commit(storage: Storage, ...onSuccess: Operation[]): Promise<Revision> {
  return (await storage.transact({ compares: [], onSuccess })).revision
}

/** Retries until it is acknowledged, to show that the store is back. */
async function commitWhenBack(storage: Storage, operation: Operation): Promise<Revision> {
  for (;;) {
    try {
      return await commit(storage, operation)
    } catch (error) {
      if (!(error instanceof StoreUnavailableError) && !(error instanceof OutcomeUnknownError)) throw error
    }
  }
}

const lines = (follower: Follower) => follower.changes.map(c => `${c.key}=${c.value}@${c.revision}`)

describe('a watch on etcd', () => {
  test('delivers each change once and in order when its connection is cut at any byte of a replay', async () => {
    const etcd = await etcdForTest()
    const direct = await storageForTest([etcd])
    const expected: string[] = []
    for (let i = 0; i < 5_000; i += 50) {
      const block = await Promise.all(
        Array.from({ length: 50 }, async (_, lane) => {
          const key = `objects/${lane}`
          return `${key}=${i}@${await commit(direct, put(key, `${i}`))}`
        }),
      )
      expected.push(...block)
    }
    expected.sort((a, b) => revisionOf(a) - revisionOf(b))
    const end = toRevision(revisionOf(expected.at(-1) ?? ''))
    const proxy = await proxyForTest(etcd)
    const whole = follow(await storageForTest([proxy]), 'objects/', zeroRevision)
    await whole.reaches(end)
    await whole.stop()
    const replayBytes = proxy.passed
    // From the first frames of a connection to the middle of a later batch; etcd sends a thousand revisions in each.
    // Together, with the largest counted twice for the reset below, they are less than the replay: every cut falls into
    // it.
    const early = [0, 1, 8, 20, 50, 90, 140, 200, 300, 450, 700, 1_000, 5_000]
    const late = [0.21, 0.25, 0.02, 0.05].map(part => Math.floor(part * replayBytes))
    proxy.cutAt([...early.slice(0, 6), ...late, ...early.slice(6)])
    const through = await storageForTest([proxy])
    const watch = follow(through, 'objects/', zeroRevision)
    await watch.reaches(toRevision(revisionOf(expected[0] ?? '')))
    proxy.cut()
    await watch.reaches(end)
    expect(proxy.cutsLeft).toBe(0)
    expect(lines(watch)).toEqual(expected)
  })

  test('delivers whole revisions when etcd sends fragments and the connection is cut between them', async () => {
    const etcd = await etcdForTest()
    const direct = await storageForTest([etcd])
    const value = Buffer.alloc(12_000, 'x')
    const revisions: Revision[] = []
    for (let i = 0; i < 12; i++)
      revisions.push(
        await commit(direct, ...Array.from({ length: 100 }, (_, k) => put(`objects/${k}`, value))),
      )
    const proxy = await proxyForTest(etcd)
    // Within fragments of early and later revisions. Together less than the 14 MB that are replayed.
    proxy.cutAt([500_000, 1_150_000, 1_700_000, 2_300_000, 3_000_000, 4_200_000])
    const through = await storageForTest([proxy])
    const seen = new Map<Revision, number>()
    const controller = new AbortController()
    for await (const batch of through.watch('objects/', { after: zeroRevision, signal: controller.signal })) {
      for (const { revision } of batch.changes) {
        expect(revision).toBeLessThanOrEqual(batch.revision)
        seen.set(revision, (seen.get(revision) ?? 0) + 1)
      }
      // Every revision so far is whole.
      expect([...seen.values()].every(count => count === 100)).toBe(true)
      if (batch.revision === revisions.at(-1)) break
    }
    expect([...seen.keys()]).toEqual(revisions)
    expect(proxy.cutsLeft).toBe(0)
  })

  test('and its writers lose nothing when etcd is killed and restarted, and no refused write happens', async () => {
    const etcd = await etcdForTest({ unsafeNoFsync: false })
    const storage = await storageForTest([etcd], { deadlineMs: 2_000 })
    const watch = follow(storage, 'objects/', zeroRevision)
    const acknowledged = new Map<string, Revision>()
    const refused: string[] = []
    let writing = true
    const writers = Array.from({ length: 8 }, async (_, lane) => {
      for (let i = 0; writing; i++) {
        const value = `${lane}/${i}`
        try {
          acknowledged.set(value, await commit(storage, put(`objects/${lane}`, value)))
        } catch (error) {
          if (error instanceof StoreUnavailableError) refused.push(value)
          else if (!(error instanceof OutcomeUnknownError)) throw error
          // Limits the number of refusals while etcd starts.
          await vi.waitFor(() => storage.head(), { timeout: 60_000, interval: 10 })
        }
      }
    })
    for (let round = 0; round < 3; round++) {
      const target = acknowledged.size + 300
      await expect.poll(() => acknowledged.size).toBeGreaterThanOrEqual(target)
      await etcd.restart()
    }
    const end = acknowledged.size + 100
    await expect.poll(() => acknowledged.size).toBeGreaterThanOrEqual(end)
    writing = false
    await Promise.all(writers)
    const last = await commit(storage, put('objects/last', 'last'))
    await watch.reaches(last)
    const again = follow(storage, 'objects/', zeroRevision)
    await again.reaches(last)
    expect(lines(watch)).toEqual(lines(again))
    const seen = new Map(watch.changes.map(c => [`${c.value}`, c.revision]))
    expect(seen.size).toBe(watch.changes.length)
    for (const [value, revision] of acknowledged) expect(seen.get(value)).toBe(revision)
    for (const value of refused) expect(seen.has(value)).toBe(false)
  })

  test('continues over another member when its own stalls, and so do writes', async () => {
    const members = await startEtcdCluster(3, { unsafeNoFsync: true })
    cleanups.push(() => Promise.all(members.map(member => member.stop())))
    const storage = await storageForTest(members, { deadlineMs: 1_000 })
    const start = await commitWhenBack(storage, put('objects/start', ''))
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(start)
    for (const [i, member] of members.entries()) {
      await member.pause()
      try {
        await watch.reaches(await commitWhenBack(storage, put(`objects/${i}`, '')))
      } finally {
        member.resume()
      }
    }
    // A write whose outcome is unknown is repeated, and may still happen late.
    const keys = new Set(watch.changes.map(({ key }) => key))
    expect([...keys]).toEqual(['objects/start', 'objects/0', 'objects/1', 'objects/2'])
    const revisions = watch.changes.map(({ revision }) => revision)
    expect(revisions).toEqual([...new Set(revisions)].sort((one, other) => (one < other ? -1 : 1)))
  })

  test('continues when its only etcd stalls and recovers', async () => {
    const etcd = await etcdForTest()
    let noticed = () => {}
    const broke = new Promise<void>(resolve => {
      noticed = resolve
    })
    const log: Logger = {
      debug() {},
      info() {},
      warn: (_, message) => message.includes('the watch') && noticed(),
      error() {},
      child: () => log,
    }
    const storage = await storageForTest([etcd], { deadlineMs: 500, log })
    const first = await commitWhenBack(storage, put('objects/a', '1'))
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(first)
    await etcd.pause()
    await expect(storage.get('objects/a')).rejects.toBeInstanceOf(StoreUnavailableError)
    await broke
    etcd.resume()
    await watch.reaches(await commitWhenBack(storage, put('objects/a', '2')))
    expect(watch.changes.at(-1)?.value?.toString()).toBe('2')
  })

  test('notices a half-open connection', async () => {
    const etcd = await etcdForTest()
    const proxy = await proxyForTest(etcd)
    const through = await storageForTest([proxy], { deadlineMs: 1_000 })
    const direct = await storageForTest([etcd])
    const watch = follow(through, 'objects/', zeroRevision)
    await watch.reaches(await commit(direct, put('objects/a', '1')))
    proxy.hold()
    await watch.reaches(await commit(direct, put('objects/a', '2')))
    await commitWhenBack(through, put('objects/a', '3'))
  })

  test('ends with CompactedError, never a gap, when the changes that it missed are compacted', async () => {
    const etcd = await etcdForTest()
    const proxy = await proxyForTest(etcd)
    const through = await storageForTest([proxy])
    const direct = await storageForTest([etcd])
    const watch = follow(through, 'objects/', zeroRevision)
    await watch.reaches(await commit(direct, put('objects/a', '1')))
    await proxy.refuse()
    await commit(direct, put('objects/b', '2'))
    // The compacted revision is a deletion: etcd accepts a watch from there, but has forgotten it.
    const deleted = await commit(direct, { type: 'delete', key: 'objects/b' })
    await commit(direct, put('objects/c', '3'))
    await direct.compact(deleted)
    await proxy.accept()
    await expect(watch.ended).rejects.toBeInstanceOf(CompactedError)
    expect(watch.changes.map(c => c.key)).toEqual(['objects/a'])
  })

  test.each(['open', 'reopened'])(
    'ends with WrongStoreError when it is %s and a restored store has grown past its position',
    async which => {
      const folder = await mkdtemp(join(tmpdir(), 'setpoint-restored-'))
      cleanups.push(() => rm(folder, { recursive: true }))
      const [dataDir, older] = [join(folder, 'data'), join(folder, 'older')]
      const etcd = await etcdForTest({ dataDir })
      const before = await storageForTest([etcd])
      await commit(before, put('objects/kept', '1'))
      await etcd.kill('SIGTERM')
      await cp(dataDir, older, { recursive: true })
      await etcd.restart()

      const proxy = await proxyForTest(etcd)
      const storage = await storageForTest([proxy])
      let watch = follow(storage, '', zeroRevision)
      await watch.reaches(await commitWhenBack(before, put('objects/lost', '1')))
      const { reached } = watch
      if (which === 'reopened') await watch.stop()
      await proxy.refuse()
      await etcd.kill()
      await rm(dataDir, { recursive: true })
      await cp(older, dataDir, { recursive: true })
      // The terms of the two histories are the same: each has had two elections.
      await etcd.restart()
      let grown = zeroRevision
      // A process that starts now takes the store as it is.
      const direct = await storageForTest([etcd])
      while (grown <= reached) grown = await commitWhenBack(direct, put('objects/kept', '2'))
      await proxy.accept()
      if (which === 'reopened') watch = follow(storage, '', reached)
      await expect(watch.reaches(grown)).rejects.toBeInstanceOf(WrongStoreError)
      expect(watch.reached).toBe(reached)
      // Nothing is read or written any more.
      await expect(storage.get('objects/kept')).rejects.toBeInstanceOf(WrongStoreError)
      await expect(commit(storage, put('objects/kept', '3'))).rejects.toBeInstanceOf(WrongStoreError)
      expect((await direct.head()).written).toBe(grown)
    },
  )

  test('closes its connections when it ends', async () => {
    const etcd = await etcdForTest()
    const proxy = await proxyForTest(etcd)
    const storage = await storageForTest([proxy])
    const revision = await commit(storage, put('objects/a', '1'))
    const before = proxy.connections
    for (let i = 0; i < 5; i++) {
      const watch = follow(storage, 'objects/', zeroRevision)
      await watch.reaches(revision)
      await watch.stop()
    }
    await expect.poll(() => proxy.connections).toBe(before)
    await storage.close()
    await expect.poll(() => proxy.connections).toBe(0)
  })
})

const revisionOf = (line: string) => Number(line.slice(line.lastIndexOf('@') + 1))
