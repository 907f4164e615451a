import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type EtcdProcess, leaderOf, startEtcdCluster } from '../../../../test/support/etcd.ts'
import { follow } from '../../../../test/support/follow.ts'
import { type Operation, OutcomeUnknownError, type Storage, StoreUnavailableError } from '../contract.ts'
import { openEtcdStorage } from './index.ts'

/** Below the 9 s of gRPC's keepalive, so only another member can help. */
const deadlineMs = 8_000

let members: EtcdProcess[]
const storages: Storage[] = []
beforeEach(async () => {
  members = await startEtcdCluster(3, { unsafeNoFsync: true })
})
afterEach(async () => {
  await Promise.all(storages.splice(0).map(storage => storage.close()))
  await Promise.all(members.map(member => member.stop()))
})

async function storageOf(...endpoints: EtcdProcess[]): Promise<Storage> {
  return opened(openEtcdStorage({ endpoints: endpoints.map(({ endpoint }) => endpoint), deadlineMs }))
}

async function opened(opening: Promise<Storage>): Promise<Storage> {
  const storage = await opening
  storages.push(storage)
  await storage.head()
  return storage
}

const put = (key: string, value: string): Operation => ({ type: 'put', key, value: Buffer.from(value) })

async function commit(storage: Storage, ...onSuccess: Operation[]): Promise<Revision> {
  return (await storage.transact({ compares: [], onSuccess })).revision
}

/** Opens a storage that uses this member first. */
async function storageOn(member: EtcdProcess): Promise<Storage> {
  const endpoints = [member, ...members.filter(other => other !== member)].map(({ endpoint }) => endpoint)
  const random = vi.spyOn(Math, 'random').mockReturnValue(0)
  // The constructor chooses the member.
  const opening = openEtcdStorage({ endpoints, deadlineMs })
  random.mockRestore()
  return opened(opening)
}

describe('a storage on three members of etcd', () => {
  test.each(['leader', 'follower'])('reads and writes when its member, the %s, stalls', async role => {
    const leader = await leaderOf(members)
    const member = role === 'leader' ? leader : members.find(other => other !== leader)
    if (member === undefined) throw new Error('no such member')
    const storage = await storageOn(member)
    await commit(storage, put('a', 'before'))
    await member.pause()
    try {
      const reads = [storage.get('a'), storage.head(), storage.list('')]
      const [{ pair }] = await Promise.all([storage.get('a'), ...reads])
      expect(pair?.value.toString()).toBe('before')
      const revision = await commit(storage, put('a', 'after'))
      expect((await storage.get('a')).pair?.modRevision).toBe(revision)
    } finally {
      member.resume()
    }
  })

  test('completes reads and writes through every member when the leader is killed', async () => {
    const leader = await leaderOf(members)
    const all = await Promise.all(members.map(member => storageOn(member)))
    const watch = follow(await storageOn(leader), 'objects/', zeroRevision)
    const made = new Map<string, Revision>()
    let killed = false
    const clients = all.flatMap((storage, lane) => [
      (async () => {
        for (let n = 0, more = 20; more > 0; n++, more -= killed ? 1 : 0)
          made.set(`${lane}-${n}`, await commit(storage, put(`objects/${lane}`, `${lane}-${n}`)))
      })(),
      (async () => {
        for (let more = 20; more > 0; more -= killed ? 1 : 0) await storage.get(`objects/${lane}`)
      })(),
    ])
    await watch.reaches(await commit(all[0] ?? (await storageOn(leader)), put('objects/start', 'start')))
    await leader.kill()
    killed = true
    await Promise.all(clients)
    await watch.reaches(await commit(await storageOn(leader), put('objects/end', 'end')))
    // Each happened once, at the reported revision.
    const seen = watch.changes
      .filter(({ key }) => /\d$/.test(key))
      .map(({ value, revision }) => [`${value}`, revision])
    expect(seen.sort()).toEqual([...made].sort())
  })

  test('never lets a stalled member apply a transaction that another member has made', async () => {
    const leader = await leaderOf(members)
    const member = members.find(other => other !== leader)
    if (member === undefined) throw new Error('no follower')
    const storage = await storageOn(member)
    const direct = await storageOf(leader)
    const watch = follow(direct, 'objects/', zeroRevision)
    const start = await commit(storage, put('objects/start', ''))
    await member.pause()
    const values = Array.from({ length: 20 }, (_, n) => `${n}`)
    // Without compares, only the fence stops what the member still holds.
    const written = await Promise.all(values.map(value => commit(storage, put('objects/a', value))))
    member.resume()
    // A later read shows that the member has processed what it held.
    await (await storageOf(member)).get('objects/a')
    await watch.reaches(await commit(direct, put('objects/end', '')))
    const seen = watch.changes.filter(({ key }) => key === 'objects/a')
    expect(seen.map(({ value }) => `${value}`).sort()).toEqual(values.sort())
    expect(seen.map(({ revision }) => revision).sort()).toEqual(written.sort())
    expect(Math.min(...written)).toBeGreaterThan(start)
  })

  test('resends what was refused only because another server put the fence', async () => {
    const leader = await leaderOf(members)
    const member = members.find(other => other !== leader)
    if (member === undefined) throw new Error('no follower')
    const storage = await storageOn(member)
    const other = await storageOf(leader)
    const old = await commit(other, put('a', 'old'))
    await member.pause()
    await commit(storage, put('b', '1'))
    member.resume()
    const stale = { compares: [{ key: 'a', modRevision: zeroRevision }], onSuccess: [put('a', 'x')] }
    const refused = await other.transact({ ...stale, onFailure: ['a', 'fence'] })
    expect(refused).toMatchObject({ succeeded: false, pairs: [{ modRevision: old }, {}] })
    const made = await other.transact({
      compares: [{ key: 'a', modRevision: old }],
      onSuccess: [put('a', 'new')],
    })
    expect(made.succeeded).toBe(true)
    expect((await other.list('')).pairs.map(({ key }) => key)).toEqual(['a', 'b'])
  })

  test('reports an unknown outcome within its deadline while there is no majority, and recovers', async () => {
    const storage = await openEtcdStorage({
      endpoints: members.map(({ endpoint }) => endpoint),
      deadlineMs: 2_000,
    })
    storages.push(storage)
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(await storageOf(...members), put('objects/a', 'before')))
    const two = members.slice(1)
    await Promise.all(two.map(member => member.pause()))
    let told: unknown
    try {
      await expect(storage.get('objects/a')).rejects.toBeInstanceOf(StoreUnavailableError)
      told = await commit(storage, put('objects/a', 'meanwhile')).catch((error: unknown) => error)
      expect(told).toSatisfy(
        error => error instanceof OutcomeUnknownError || error instanceof StoreUnavailableError,
      )
    } finally {
      for (const member of two) member.resume()
    }
    const after = await expect
      .poll(() => commit(storage, put('objects/a', 'after')).catch(() => undefined))
      .toBeDefined()
      .then(() => commit(storage, put('objects/b', 'end')))
    await watch.reaches(after)
    const values = watch.changes.map(({ value }) => `${value}`)
    if (told instanceof StoreUnavailableError) expect(values).not.toContain('meanwhile')
    expect(values.filter(value => value === 'meanwhile').length).toBeLessThanOrEqual(1)
  })
})
