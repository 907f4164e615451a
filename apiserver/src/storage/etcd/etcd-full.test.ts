import { silentLogger } from '@setpoint/controller-runtime'
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { afterEach, describe, expect, test } from 'vitest'
import { findEtcd, findNewerEtcd } from '../../../../scripts/etcd.mjs'
import { type EtcdProcess, patientMs, startEtcd } from '../../../../test/support/etcd.ts'
import { compactAll, defragment, disarm, smallQuota } from '../../../../test/support/etcd-space.ts'
import { type FakeCall, headerAt, startFakeEtcd } from '../../../../test/support/fake-etcd.ts'
import { follow } from '../../../../test/support/follow.ts'
import { arrayOf, fieldsOf } from '../../../../test/support/json.ts'
import { compactRegularly } from '../compactor.ts'
import { type Operation, type Storage, StoreFullError, type TransactionResult } from '../contract.ts'
import { Fullness } from '../fullness.ts'
import { SpaceWatch } from '../space-watch.ts'
import { type EtcdStorageOptions, openEtcdStorage } from './index.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const put = (key: string, value: string | Buffer): Operation => ({
  type: 'put',
  key,
  value: Buffer.from(value),
})
const del = (key: string): Operation => ({ type: 'delete', key })

async function commit(storage: Storage, ...onSuccess: Operation[]): Promise<Revision> {
  return (await storage.transact({ compares: [], onSuccess })).revision
}

describe('a transaction to which etcd responds that it is full', () => {
  const noSpace = (call: FakeCall) => call.fail(8, 'etcdserver: mvcc: database space exceeded')
  const tipAt = (revision: number, value: unknown) => ({
    key: Buffer.from('/setpoint/tip'),
    value,
    create_revision: '2',
    mod_revision: String(revision),
    version: '1',
    lease: '0',
  })
  const idOf = ({ request }: FakeCall) => {
    const [, put] = arrayOf(request.success)
    return fieldsOf(fieldsOf(put).request_put).value
  }

  /** An etcd that applies the transaction although it is full. @param last the revision of the tip afterwards */
  async function putOn(revision: number, last: number): Promise<TransactionResult> {
    let id: unknown
    const respond: Record<string, (call: FakeCall) => void> = {
      Txn(call) {
        id = idOf(call)
        noSpace(call)
      },
      Range(call) {
        const kvs = [tipAt(last, last === revision ? id : Buffer.from('another'))]
        call.respond({ header: headerAt(last), kvs, more: false, count: '1' })
      },
      Watch(call) {
        const events = [tipAt(revision, id), tipAt(last, Buffer.from('another'))]
        call.push({ header: headerAt(last), watch_id: '0', events: events.map(kv => ({ type: 'PUT', kv })) })
      },
    }
    const etcd = await startFakeEtcd(call => respond[call.method]?.(call))
    cleanups.push(async () => etcd[Symbol.asyncDispose]())
    const storage = await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs: patientMs })
    cleanups.push(() => storage.close())
    return storage.transact({ compares: [], onSuccess: [put('objects/a', '1')] })
  }

  test('is found to have happened, as its last write', async () => {
    expect(await putOn(7, 7)).toEqual({ succeeded: true, revision: 7 })
  })

  test('is found to have happened, also if others have written since', async () => {
    expect(await putOn(7, 9)).toEqual({ succeeded: true, revision: 7 })
  })
})

const versions = { 'etcd 3.4': findEtcd, 'etcd 3.5': findNewerEtcd }

describe.each(Object.entries(versions))('a full %s', (_, find) => {
  async function smallEtcd(): Promise<EtcdProcess> {
    const etcd = await startEtcd({ unsafeNoFsync: true, binary: await find(), flags: smallQuota })
    cleanups.push(() => etcd.stop())
    return etcd
  }

  async function storageOn(
    { endpoint }: EtcdProcess,
    options: Partial<EtcdStorageOptions> = {},
  ): Promise<Storage> {
    const storage = await openEtcdStorage({ endpoints: [endpoint], deadlineMs: patientMs, ...options })
    cleanups.push(() => storage.close())
    return storage
  }

  /** Writes until etcd is full. Each lane has an object of its own. Returns the writes by their outcome. */
  async function fill(storage: Storage, lanes: number): Promise<{ made: string[]; refused: string[] }> {
    const [made, refused]: [string[], string[]] = [[], []]
    const padding = 'x'.repeat(100_000)
    const lane = async (lane: number) => {
      for (let n = 0; ; n++) {
        const value = `${lane}/${n}/`
        try {
          await commit(storage, put(`objects/${lane}`, value + padding))
          made.push(value)
        } catch (error) {
          if (!(error instanceof StoreFullError)) throw error
          refused.push(value)
          return
        }
      }
    }
    await Promise.all(Array.from({ length: lanes }, (_, n) => lane(n)))
    return { made, refused }
  }

  test('reports no write as refused that has happened, and none as done that has not', async () => {
    const etcd = await smallEtcd()
    const storage = await storageOn(etcd)
    const watch = follow(storage, 'objects/', zeroRevision)
    const { made, refused } = await fill(storage, 40)
    expect(refused).toHaveLength(40)
    // With the tip gone, the same is found out from the changes of all keys.
    await commit(storage, del('objects/none'))
    await expect(commit(storage, put('objects/0', 'late'))).rejects.toBeInstanceOf(StoreFullError)
    await watch.reaches(await commit(storage, del('objects/0')))
    await expect(commit(storage, put('objects/0', 'late'))).rejects.toBeInstanceOf(StoreFullError)
    const seen = watch.changes.flatMap(
      ({ value }) => value?.toString('utf8', 0, 12).match(/^\d+\/\d+\//) ?? [],
    )
    expect(seen.sort()).toEqual(made.sort())
  })

  test('takes deletions, which every server sees, and writes again when it has space', async () => {
    const etcd = await smallEtcd()
    const [one, other] = [await storageOn(etcd), await storageOn(etcd)]
    await commit(one, put('unique/a', 'objects/1'))
    await fill(one, 2)
    const { written } = await other.head()
    const live = follow(other, 'objects/', written)
    const { pair } = await other.get('objects/1')
    const stale = await one.transact({
      compares: [{ key: 'objects/1', modRevision: zeroRevision }],
      onSuccess: [del('objects/1'), del('unique/a')],
      onFailure: ['objects/1'],
    })
    expect(stale).toMatchObject({ succeeded: false, pairs: [{ modRevision: pair?.modRevision }] })
    const deleted = await one.transact({
      compares: [{ key: 'objects/1', modRevision: pair?.modRevision ?? zeroRevision }],
      onSuccess: [del('objects/1'), del('unique/a')],
    })
    expect(deleted.succeeded).toBe(true)
    const second = await commit(one, del('objects/0'))
    // What a read on another server waits for.
    expect((await other.head()).written).toBeGreaterThanOrEqual(second)
    await live.reaches((await other.head()).written)
    expect(live.changes.map(({ key, value }) => [key, value])).toEqual([
      ['objects/1', undefined],
      ['objects/0', undefined],
    ])
    expect((await other.list('')).pairs).toEqual([])
    // A server that starts now, and a watch that resumes from before.
    const third = await storageOn(etcd)
    const { current } = await third.head()
    const replayed: string[] = []
    const signal = AbortSignal.timeout(patientMs)
    for await (const { changes } of third.watch('objects/', { after: written, until: current, signal }))
      replayed.push(...changes.map(({ key }) => key))
    expect(replayed).toEqual(['objects/1', 'objects/0'])
    await expect(commit(one, put('objects/2', 'x'))).rejects.toBeInstanceOf(StoreFullError)

    await compactAll(etcd)
    await defragment(etcd)
    await disarm(etcd)
    const again = await commit(one, put('objects/2', 'x'))
    expect((await other.head()).written).toBe(again)
    await live.reaches(again)
    expect(live.changes.at(-1)).toMatchObject({ key: 'objects/2', revision: again })
  })

  test('is cleared by the server, the rest is for the operator, when its history was the cause', async () => {
    const etcd = await smallEtcd()
    const lines: string[] = []
    const keep = (_: unknown, message: string) => void lines.push(message)
    const log = { ...silentLogger, info: keep, warn: keep, error: keep }
    const fullness = new Fullness(log)
    const storage = await storageOn(etcd, { fullness })
    const space = new SpaceWatch({ storage, fullness, log })
    const stop = new AbortController()
    const { signal } = stop
    const looking = space.run(signal)
    await expect.poll(() => space.latest).toMatchObject({ quotaBytes: 8 * 1024 * 1024 })
    expect(space.state).toBe('ok')
    // The same object again and again.
    await fill(storage, 1)
    await fill(storage, 1)
    expect(space).toMatchObject({ isFull: true, isShort: true, state: expect.stringMatching(/^full; /) })
    const { usedBytes } = await storage.space()
    expect(usedBytes).toBeGreaterThan(6 * 1024 * 1024)
    const compacting = compactRegularly({ storage, space, log, signal, shortIntervalMs: 20 })
    const { current } = await storage.head()
    const before = toRevision(current - 1)
    await expect
      .poll(() => storage.list('', { revision: before }).catch(error => error.name))
      .toBe('CompactedError')
    await defragment(etcd)
    await disarm(etcd)
    expect((await storage.space()).usedBytes).toBeLessThan(1024 * 1024)
    // By the next round of the compactor.
    await expect.poll(() => space.isFull).toBe(false)
    await commit(storage, put('objects/0', 'again'))
    stop.abort()
    await Promise.all([looking, compacting])
    expect(lines).toEqual([
      'the store is full and takes only deletions',
      'the store has space and takes writes again',
    ])
  })
})
