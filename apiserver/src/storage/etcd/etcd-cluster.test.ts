import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { Etcd3 } from 'etcd3'
import { afterEach, describe, expect, test } from 'vitest'
import { type EtcdOptions, type EtcdProcess, startEtcd } from '../../../../test/support/etcd.ts'
import { follow } from '../../../../test/support/follow.ts'
import { startTcpProxy, type TcpProxy } from '../../../../test/support/tcp-proxy.ts'
import { OutcomeUnknownError, type Storage, StoreUnavailableError, WrongStoreError } from '../contract.ts'
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

async function proxyForTest(etcd: EtcdProcess): Promise<TcpProxy> {
  const proxy = await startTcpProxy(etcd)
  cleanups.push(() => proxy.close())
  return proxy
}

/** Opens a storage that keeps its errors in the log. */
async function storageOn(
  members: readonly { readonly endpoint: string }[],
  options: Partial<EtcdStorageOptions> = {},
): Promise<{ storage: Storage; errors: string[] }> {
  const errors: string[] = []
  const log: Logger = { ...silentLogger, error: (_, message) => void errors.push(message) }
  const endpoints = members.map(({ endpoint }) => endpoint)
  const storage = await openEtcdStorage({ endpoints, deadlineMs: 10_000, log, ...options })
  cleanups.push(() => storage.close())
  return { storage, errors }
}

async function commit(storage: Storage, key: string): Promise<Revision> {
  const put = { type: 'put', key, value: Buffer.from('x') } as const
  return (await storage.transact({ compares: [], onSuccess: [put] })).revision
}

/** Waits until calls succeed again. */
async function back(storage: Storage): Promise<void> {
  await expect
    .poll(() =>
      storage.head().then(
        () => 'back',
        () => 'away',
      ),
    )
    .toBe('back')
}

async function withUser(etcd: EtcdProcess): Promise<void> {
  const admin = new Etcd3({ hosts: etcd.endpoint })
  const root = await admin.user('root').create('secret')
  await root.addRole(await admin.role('root').create())
  await admin.auth.authEnable()
  admin.close()
}

/** The call is refused, with both members in the message. */
async function refused(call: Promise<unknown>, ...members: readonly { endpoint: string }[]): Promise<void> {
  await expect(call).rejects.toSatisfy(
    error =>
      error instanceof WrongStoreError && members.every(({ endpoint }) => error.message.includes(endpoint)),
  )
}

describe('members of two clusters', () => {
  test('are not used at the start, until one of them cannot be reached', async () => {
    const [one, other] = [await etcdForTest(), await etcdForTest()]
    const { storage: direct } = await storageOn([other])
    await commit(direct, 'objects/theirs')
    const wrong = await proxyForTest(other)
    const { storage, errors } = await storageOn([one, wrong])
    const watch = follow(storage, 'objects/', zeroRevision)
    const calls = [() => storage.head(), () => storage.list(''), () => commit(storage, 'objects/a')]
    for (const call of [...calls, ...calls]) await refused(call(), one, wrong)
    expect(new Set(errors).size).toBe(errors.length)
    await wrong.refuse()
    await back(storage)
    // Whichever cluster was asked first, the one that is left is used.
    await watch.reaches(await commit(storage, 'objects/a'))
    expect(watch.changes.map(({ key }) => key)).toEqual(['objects/a'])
  })

  test('are not used at the start either if both have the same user', async () => {
    const flags = ['--bcrypt-cost', '4']
    const [one, other] = [await etcdForTest({ flags }), await etcdForTest({ flags })]
    const { storage: direct } = await storageOn([other])
    // A token names an entry of the log, which the other cluster has not reached.
    await commit(direct, 'objects/theirs')
    for (const etcd of [one, other]) await withUser(etcd)
    const { storage } = await storageOn([one, other], { auth: { user: 'root', password: 'secret' } })
    await refused(commit(storage, 'objects/a'), one, other)
    await refused(storage.head(), one, other)
  })

  test('a member of another cluster that appears later is refused like one that cannot be reached', async () => {
    const [one, other] = [await etcdForTest(), await etcdForTest()]
    const [right, wrong] = [await proxyForTest(one), await proxyForTest(other)]
    await wrong.refuse()
    const { storage, errors } = await storageOn([right, wrong])
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(storage, 'objects/a'))
    await wrong.accept()
    await right.refuse()
    for (let n = 0; n < 3; n++) {
      await expect(storage.list('')).rejects.toBeInstanceOf(WrongStoreError)
      await expect(commit(storage, 'objects/b')).rejects.toSatisfy(
        error => error instanceof StoreUnavailableError || error instanceof OutcomeUnknownError,
      )
    }
    expect(errors).toHaveLength(1)
    expect(errors[0]).toContain(wrong.endpoint)
    const { storage: theirs } = await storageOn([other])
    expect((await theirs.list('')).pairs).toEqual([])
    await right.accept()
    await back(storage)
    await watch.reaches(await commit(storage, 'objects/c'))
    expect(watch.changes.map(({ key }) => key)).toEqual(['objects/a', 'objects/c'])
  })

  test('another cluster at the same address is refused, until the first one is back', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-cluster-'))
    cleanups.push(() => rm(folder, { recursive: true }))
    const one = await etcdForTest({ dataDir: join(folder, 'one') })
    const { storage } = await storageOn([one])
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(storage, 'objects/a'))
    await one.kill()
    const other = await startEtcd({ unsafeNoFsync: true, port: one.port })
    await expect.poll(() => storage.head().catch((error: Error) => error.name)).toBe('WrongStoreError')
    await expect(commit(storage, 'objects/b')).rejects.toBeInstanceOf(WrongStoreError)
    await other.stop()
    await one.restart()
    await back(storage)
    await watch.reaches(await commit(storage, 'objects/c'))
    expect(watch.changes.map(({ key }) => key)).toEqual(['objects/a', 'objects/c'])
  })
})

describe('a store that goes back', () => {
  test('is refused for good by who knew it before, and taken as it is by who starts then', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'setpoint-restored-'))
    cleanups.push(() => rm(folder, { recursive: true }))
    const [dataDir, older] = [join(folder, 'data'), join(folder, 'older')]
    const etcd = await etcdForTest({ dataDir })
    const { storage, errors } = await storageOn([etcd])
    await commit(storage, 'objects/kept')
    await etcd.kill('SIGTERM')
    await cp(dataDir, older, { recursive: true })
    await etcd.restart()
    await back(storage)
    await commit(storage, 'objects/lost')
    await etcd.kill()
    await rm(dataDir, { recursive: true })
    await cp(older, dataDir, { recursive: true })
    await etcd.restart()
    await expect.poll(() => storage.list('').catch((error: Error) => error.name)).toBe('WrongStoreError')
    await expect(commit(storage, 'objects/kept')).rejects.toBeInstanceOf(WrongStoreError)
    expect(errors).toEqual(['refusing all requests'])
    const { storage: started } = await storageOn([etcd])
    expect((await started.list('')).pairs.map(({ key }) => key)).toEqual(['objects/kept'])
    await commit(started, 'objects/new')
    // It has grown past the revision that the other one knew.
    await commit(started, 'objects/new')
    await expect(storage.head()).rejects.toBeInstanceOf(WrongStoreError)
  })
})
