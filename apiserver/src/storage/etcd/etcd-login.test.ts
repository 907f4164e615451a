import { readFile, rm } from 'node:fs/promises'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { Etcd3, type IOptions } from 'etcd3'
import { afterEach, describe, expect, test } from 'vitest'
import { makeCertificates } from '../../../../test/support/certificates.ts'
import {
  type EtcdOptions,
  type EtcdProcess,
  patientMs,
  startEtcd,
  startEtcdCluster,
} from '../../../../test/support/etcd.ts'
import { follow } from '../../../../test/support/follow.ts'
import { startTcpProxy } from '../../../../test/support/tcp-proxy.ts'
import { type Storage, StoreUnavailableError } from '../contract.ts'
import { type EtcdStorageOptions, openEtcdStorage } from './index.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function etcdForTest(options: EtcdOptions): Promise<EtcdProcess> {
  const etcd = await startEtcd({ unsafeNoFsync: true, ...options })
  cleanups.push(() => etcd.stop())
  return etcd
}

async function storageForTest(
  members: readonly { readonly endpoint: string }[],
  options: Partial<EtcdStorageOptions>,
): Promise<Storage> {
  const endpoints = members.map(({ endpoint }) => endpoint)
  const storage = await openEtcdStorage({ endpoints, deadlineMs: patientMs, ...options })
  cleanups.push(() => storage.close())
  return storage
}

async function commit(storage: Storage, key: string): Promise<Revision> {
  const put = { type: 'put', key, value: Buffer.from('x') } as const
  return (await storage.transact({ compares: [], onSuccess: [put] })).revision
}

/** Enables authentication, with a user who may use the prefix of the storage only. */
async function enableUsers(options: IOptions): Promise<void> {
  const admin = new Etcd3(options)
  const root = await admin.user('root').create('root')
  await root.addRole(await admin.role('root').create())
  const role = await admin.role('setpoint').create()
  await role.grant({ permission: 'Readwrite', range: admin.range({ prefix: '/setpoint/' }) })
  const user = await admin.user('setpoint').create('secret')
  await user.addRole(role)
  await admin.auth.authEnable()
  admin.close()
}

async function changePassword({ endpoint }: EtcdProcess, password: string): Promise<void> {
  const admin = new Etcd3({ hosts: endpoint, auth: { username: 'root', password: 'root' } })
  await admin.user('setpoint').setPassword(password)
  admin.close()
}

/** Counts the logins that a member has handled. */
async function loginsAt({ endpoint }: EtcdProcess): Promise<number> {
  const text = await (await fetch(`${endpoint}/metrics`)).text()
  const line = text.split('\n').find(line => /^grpc_server_started_total.*"Authenticate"/.test(line))
  return Number(line?.split(' ').at(-1) ?? 0)
}

/** The cheapest bcrypt. */
const fast = ['--bcrypt-cost', '4']

describe('a storage with a user of etcd', () => {
  test('waits for a login that is slower than a member may be, and starts no other', async () => {
    // Above a second for each login.
    const etcd = await etcdForTest({ flags: ['--bcrypt-cost', '14'] })
    await enableUsers({ hosts: etcd.endpoint })
    const proxies = [await startTcpProxy(etcd), await startTcpProxy(etcd)]
    for (const proxy of proxies) cleanups.push(() => proxy.close())
    const storage = await storageForTest(proxies, { auth: { user: 'setpoint', password: 'secret' } })
    const before = await loginsAt(etcd)
    const watch = follow(storage, 'objects/', zeroRevision)
    const [revision] = await Promise.all([commit(storage, 'objects/a'), storage.head(), storage.list('')])
    await watch.reaches(revision)
    expect(await loginsAt(etcd)).toBe(before + 1)
  })

  test('uses its token at every member', async () => {
    const members = await startEtcdCluster(3, { unsafeNoFsync: true, flags: fast })
    cleanups.push(() => Promise.all(members.map(member => member.stop())))
    const [first, ...others] = members
    if (first === undefined) throw new Error('no member')
    await enableUsers({ hosts: first.endpoint })
    const proxy = await startTcpProxy(first)
    cleanups.push(() => proxy.close())
    const storage = await storageForTest([proxy, ...others], {
      auth: { user: 'setpoint', password: 'secret' },
    })
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(storage, 'objects/0'))
    const logins = async () => (await Promise.all(members.map(loginsAt))).reduce((sum, each) => sum + each)
    const before = await logins()
    // Whichever member it uses, one of these breaks the connection.
    for (const [n, member] of [proxy, ...others].entries()) {
      if (member === proxy) await proxy.refuse()
      else await others[n - 1]?.restart()
      await watch.reaches(await commit(storage, `objects/${n}`))
      if (member === proxy) await proxy.accept()
    }
    // A member that restarted may have forgotten the token.
    expect(await logins()).toBeLessThanOrEqual(before + 2)
  })

  test.each(['before', 'after'])('takes its new password over %s etcd does', async when => {
    const etcd = await etcdForTest({ flags: fast })
    await enableUsers({ hosts: etcd.endpoint })
    const auth = { user: 'setpoint', password: 'secret' }
    const storage = await storageForTest([etcd], { auth })
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(storage, 'objects/a'))
    const change = () => Object.assign(auth, { password: 'new', previousPassword: 'secret' })
    if (when === 'before') {
      change()
      await storage.head()
      await changePassword(etcd, 'new')
    } else {
      await changePassword(etcd, 'new')
      await expect(commit(storage, 'objects/b')).rejects.toBeInstanceOf(StoreUnavailableError)
      change()
      await expect.poll(() => storage.head().catch(() => undefined)).toBeDefined()
    }
    await watch.reaches(await commit(storage, 'objects/b'))
    const again = await storageForTest([etcd], { auth })
    expect((await again.list('objects/')).pairs).toHaveLength(2)
  })

  test('needs no password if etcd takes the user from its certificate', async () => {
    const files = await makeCertificates()
    cleanups.push(() => rm(files.folder, { recursive: true }))
    const etcd = await etcdForTest({ tls: files, flags: fast })
    const [ca, cert, key] = [await readFile(files.ca), await readFile(files.cert), await readFile(files.key)]
    const credentials = { rootCertificate: ca, certChain: cert, privateKey: key }
    await enableUsers({ hosts: etcd.endpoint, credentials })
    const storage = await storageForTest([etcd], { tls: { ca, cert, key } })
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(storage, 'objects/a'))
    // The role ends at the prefix.
    const other = await storageForTest([etcd], { tls: { ca, cert, key }, prefix: '/other' })
    await expect(commit(other, 'objects/a')).rejects.toBeInstanceOf(StoreUnavailableError)
  })
})
