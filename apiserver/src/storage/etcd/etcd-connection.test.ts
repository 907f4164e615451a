import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { Etcd3 } from 'etcd3'
import { afterEach, describe, expect, test } from 'vitest'
import { type EtcdOptions, type EtcdProcess, patientMs, startEtcd } from '../../../../test/support/etcd.ts'
import { follow } from '../../../../test/support/follow.ts'
import { startTcpProxy } from '../../../../test/support/tcp-proxy.ts'
import {
  type Operation,
  OutcomeUnknownError,
  type Storage,
  StoreFullError,
  StoreUnavailableError,
} from '../contract.ts'
import { type CallObserver, type EtcdStorageOptions, etcdDefaults, openEtcdStorage } from './index.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function etcdForTest(options: EtcdOptions = {}): Promise<EtcdProcess> {
  const etcd = await startEtcd({ unsafeNoFsync: true, ...options })
  cleanups.push(() => etcd.stop())
  return etcd
}

async function storageForTest(endpoint: string, options: Partial<EtcdStorageOptions> = {}): Promise<Storage> {
  const storage = await openEtcdStorage({ endpoints: [endpoint], deadlineMs: patientMs, ...options })
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

describe('the storage on etcd', () => {
  test('opens without etcd, reports it as unavailable, and works once etcd runs', async () => {
    const gone = await startEtcd({ unsafeNoFsync: true })
    await gone.stop()
    const storage = await storageForTest(gone.endpoint, { deadlineMs: etcdDefaults.deadlineMs })
    const watch = follow(storage, 'objects/', zeroRevision)
    await expect(storage.get('a')).rejects.toBeInstanceOf(StoreUnavailableError)
    await expect(storage.head()).rejects.toBeInstanceOf(StoreUnavailableError)
    await expect(commit(storage, put('a', '1'))).rejects.toBeInstanceOf(StoreUnavailableError)
    await etcdForTest({ port: gone.port })
    await expect.poll(() => storage.head().catch(() => undefined)).toBeDefined()
    await watch.reaches(await commit(storage, put('objects/a', '1')))
    expect((await storage.get('objects/a')).pair?.value.toString()).toBe('1')
  })

  test('gives every call a deadline when etcd stalls', async () => {
    const etcd = await etcdForTest()
    const storage = await storageForTest(etcd.endpoint, { deadlineMs: 300 })
    const revision = await commit(await storageForTest(etcd.endpoint), put('a', '1'))
    await etcd.pause()
    try {
      const unsent = await Promise.allSettled([
        storage.get('a'),
        storage.list(''),
        storage.head(),
        storage.compact(revision),
      ])
      for (const one of unsent)
        expect(one).toMatchObject({ status: 'rejected', reason: expect.any(StoreUnavailableError) })
      await expect(commit(storage, put('a', '2'))).rejects.toSatisfy(
        error => error instanceof OutcomeUnknownError || error instanceof StoreUnavailableError,
      )
    } finally {
      etcd.resume()
    }
  })

  test('ends a waiting call when its signal is aborted and when the storage closes', async () => {
    const etcd = await etcdForTest()
    const storage = await storageForTest(etcd.endpoint, { deadlineMs: 60_000 })
    await storage.head()
    await etcd.pause()
    const controller = new AbortController()
    const aborted = storage.get('a', { signal: controller.signal })
    const closed = storage.get('a')
    const written = commit(storage, put('a', '1'))
    controller.abort(new Error('no longer wanted'))
    await expect(aborted).rejects.toThrow('no longer wanted')
    await storage.close()
    await expect(closed).rejects.toBeInstanceOf(StoreUnavailableError)
    await expect(written).rejects.toBeInstanceOf(OutcomeUnknownError)
    await expect(storage.get('a')).rejects.toBeInstanceOf(StoreUnavailableError)
  })

  test('uses the next endpoint when one refuses connections, and tells which one it uses', async () => {
    const etcd = await etcdForTest()
    const refusing = await startTcpProxy(etcd)
    await refusing.refuse()
    for (let i = 0; i < 4; i++) {
      const used: string[] = []
      const storage = await openEtcdStorage({
        endpoints: [refusing.endpoint, etcd.endpoint],
        onMember: endpoint => used.push(endpoint),
      })
      await commit(storage, put('a', `${i}`))
      expect((await storage.get('a')).pair?.value.toString()).toBe(`${i}`)
      expect(used.at(-1)).toBe(etcd.endpoint)
      await storage.close()
    }
  })

  test('stays within its prefix when another prefix starts with the same text', async () => {
    const etcd = await etcdForTest()
    const one = await storageForTest(etcd.endpoint, { prefix: '/app' })
    const other = await storageForTest(etcd.endpoint, { prefix: '/app2/' })
    const revision = await commit(one, put('a', 'one'))
    const later = await commit(other, put('a', 'other'))
    expect((await one.list('')).pairs.map(p => p.value.toString())).toEqual(['one'])
    expect(await one.head()).toEqual({ current: later, written: revision })
    expect(await other.head()).toEqual({ current: later, written: later })
    const watch = follow(one, '', zeroRevision)
    const last = await commit(one, put('tiptoe', 'x'), put('t', 'y'))
    await watch.reaches(last)
    expect(watch.changes.map(c => c.key).sort()).toEqual(['a', 't', 'tiptoe'])
    expect((await one.list('t')).pairs.map(p => p.key)).toEqual(['t', 'tiptoe'])
    await expect(commit(one, put('tip', 'x'))).rejects.toBeInstanceOf(RangeError)
  })

  test('bounds pages by bytes and lists everything', async () => {
    const etcd = await etcdForTest()
    const storage = await storageForTest(etcd.endpoint)
    const value = Buffer.alloc(200_000, 'x')
    const keys = Array.from({ length: 60 }, (_, i) => `objects/${String(i).padStart(3, '0')}`)
    for (const key of keys) await commit(storage, put(key, value))
    // After small values, the storage requests the most pairs.
    await commit(storage, ...Array.from({ length: 100 }, (_, i) => put(`small/${i}`, 'x')))
    expect((await storage.list('small/')).pairs).toHaveLength(100)
    const seen: string[] = []
    let largest = 0
    let after: string | undefined
    let revision: Revision | undefined
    for (let more = true, pages = 0; more; pages++) {
      const page = await storage.list('objects/', {
        ...(after !== undefined && { after }),
        ...(revision !== undefined && { revision }),
      })
      seen.push(...page.pairs.map(p => p.key))
      if (pages > 0) largest = Math.max(largest, page.pairs.length * value.length)
      ;({ more, revision } = page)
      after = page.pairs.at(-1)?.key
    }
    expect(seen).toEqual(keys)
    expect(largest).toBeLessThanOrEqual(etcdDefaults.pageBytes + value.length)
  })

  test('lists values whose first page would exceed the largest response', async () => {
    const etcd = await etcdForTest()
    const value = Buffer.alloc(1_000_000, 'x')
    const writer = await storageForTest(etcd.endpoint)
    const keys = Array.from({ length: 36 }, (_, i) => `objects/${String(i).padStart(3, '0')}`)
    for (const key of keys) await commit(writer, put(key, value))
    expect(keys.length * value.length).toBeGreaterThan(etcdDefaults.receiveBytes)
    const { pairs } = await (await storageForTest(etcd.endpoint)).list('objects/', { limit: keys.length })
    expect(pairs.length).toBeGreaterThan(0)
    expect(pairs.every(pair => pair.value.equals(value))).toBe(true)
  })

  test('measures each call by its operation', async () => {
    const etcd = await etcdForTest()
    const seen: string[] = []
    const observe: CallObserver = (operation, key, seconds) => {
      seen.push(`${operation} ${key}`)
      expect(seconds).toBeGreaterThan(0)
    }
    const storage = await storageForTest(etcd.endpoint, { observe })
    const key = 'objects/a'
    const { revision } = await storage.transact({
      compares: [{ key, modRevision: zeroRevision }],
      onSuccess: [put(key, '1')],
    })
    await commit(storage, put(key, '2'))
    await commit(storage, { type: 'delete', key })
    await storage.get(key)
    await storage.head()
    await storage.list('objects/')
    await storage.compact(revision)
    await expect(storage.list('objects/', { revision })).resolves.toBeDefined()
    await expect(storage.list('objects/', { revision: toRevision(revision + 100) })).rejects.toBeDefined()
    expect(seen).toEqual([
      'create objects/a',
      'update objects/a',
      'delete objects/a',
      'get objects/a',
      'head ',
      'list objects/',
      'compact ',
      'list objects/',
      'list objects/',
    ])
  })

  test('rejects a transaction that is too large for etcd, and changes nothing', async () => {
    const etcd = await etcdForTest()
    const storage = await storageForTest(etcd.endpoint)
    const half = Buffer.alloc(900_000, 'x')
    await expect(commit(storage, put('a', half), put('b', half))).rejects.toBeInstanceOf(RangeError)
    await expect(commit(storage, put('a', '1'), put('a', '2'))).rejects.toBeInstanceOf(RangeError)
    expect((await storage.list('')).pairs).toEqual([])
  })

  test('reports a full store, and still reads', async () => {
    const etcd = await etcdForTest({ flags: ['--quota-backend-bytes', `${8 * 1024 * 1024}`] })
    const storage = await storageForTest(etcd.endpoint)
    const value = Buffer.alloc(1_000_000, 'x')
    const fill = async () => {
      for (let i = 0; i < 40; i++) await commit(storage, put(`objects/${i}`, value))
    }
    await expect(fill()).rejects.toBeInstanceOf(StoreFullError)
    expect((await storage.get('objects/0')).pair?.value.length).toBe(value.length)
  })

  test('distinguishes compacted revisions from future ones', async () => {
    const etcd = await etcdForTest()
    const storage = await storageForTest(etcd.endpoint)
    const first = await commit(storage, put('a', '1'))
    const second = await commit(storage, put('a', '2'))
    await storage.compact(second)
    await storage.compact(first)
    await expect(storage.list('', { revision: first })).rejects.toMatchObject({ name: 'CompactedError' })
    await expect(storage.list('', { revision: toRevision(second + 100) })).rejects.toMatchObject({
      name: 'FutureRevisionError',
    })
  })

  test('logs in with user and password, and again after etcd forgets the token', async () => {
    // The lowest cost of a login. By default it is a second's work for a busy machine.
    const etcd = await etcdForTest({ flags: ['--bcrypt-cost', '4'] })
    const admin = new Etcd3({ hosts: etcd.endpoint })
    const root = await admin.user('root').create('secret')
    await root.addRole(await admin.role('root').create())
    await admin.auth.authEnable()
    admin.close()
    const auth = { user: 'root', password: 'secret' }
    const storage = await storageForTest(etcd.endpoint, { auth })
    const watch = follow(storage, 'objects/', zeroRevision)
    // A write does not wait for a slow login as long as a read does.
    await storage.head()
    await watch.reaches(await commit(storage, put('objects/a', '1')))
    await etcd.restart()
    await expect.poll(() => storage.head().catch(() => undefined)).toBeDefined()
    await watch.reaches(await commit(storage, put('objects/a', '2')))
    expect(watch.changes.map(c => `${c.value}`)).toEqual(['1', '2'])

    const wrong = await storageForTest(etcd.endpoint, { auth: { ...auth, password: 'wrong' } })
    await expect(commit(wrong, put('objects/b', '1'))).rejects.toBeInstanceOf(StoreUnavailableError)
    await expect(wrong.get('a')).rejects.toThrow('check the user and the password')
    const nobody = await storageForTest(etcd.endpoint)
    await expect(commit(nobody, put('objects/b', '1'))).rejects.toBeInstanceOf(StoreUnavailableError)
    await expect(nobody.get('a')).rejects.toThrow('--etcd-user')
    expect((await storage.get('objects/b')).pair).toBeUndefined()
  })

  test('uses TLS with certificates on both sides, and is rejected without one', async () => {
    const tls = await certificates()
    const etcd = await etcdForTest({ tls })
    const [ca, cert, key] = await Promise.all([tls.ca, tls.cert, tls.key].map(path => readFile(path)))
    if (!ca || !cert || !key) throw new Error('no certificates')
    const storage = await storageForTest(etcd.endpoint, { tls: { ca, cert, key } })
    const watch = follow(storage, 'objects/', zeroRevision)
    await watch.reaches(await commit(storage, put('objects/a', '1')))
    const nobody = await storageForTest(etcd.endpoint, { tls: { ca } })
    await expect(commit(nobody, put('objects/b', '1'))).rejects.toSatisfy(
      error => error instanceof StoreUnavailableError || error instanceof OutcomeUnknownError,
    )
    const untrusting = await storageForTest(etcd.endpoint, { tls: { cert, key } })
    await expect(commit(untrusting, put('objects/b', '1'))).rejects.toBeInstanceOf(StoreUnavailableError)
    expect((await storage.get('objects/b')).pair).toBeUndefined()
    await expect(untrusting.get('a')).rejects.toThrow('--etcd-ca')
    const plain = await storageForTest(etcd.endpoint.replace('https:', 'http:'), { deadlineMs: 1_000 })
    await expect(plain.get('a')).rejects.toThrow('if etcd there uses TLS')
    const withoutTls = await etcdForTest()
    const secure = withoutTls.endpoint.replace('http:', 'https:')
    const mistaken = await storageForTest(secure, { tls: { ca }, deadlineMs: 1_000 })
    await expect(mistaken.get('a')).rejects.toThrow('if etcd there does not use TLS')
  })

  test.each([
    [[]],
    [['']],
    [['http://user:password@host:2379']],
    [['http://host:2379/path']],
    [['ftp://host:2379']],
    [['http://one:2379', 'https://two:2379']],
  ])('rejects invalid endpoints: %j', async endpoints => {
    await expect(openEtcdStorage({ endpoints })).rejects.toBeInstanceOf(RangeError)
  })
})

/** Makes a root, and one certificate for both server and client. */
async function certificates(): Promise<{ ca: string; cert: string; key: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-tls-'))
  cleanups.push(() => rm(folder, { recursive: true, force: true }))
  const openssl = (...args: string[]) => promisify(execFile)('openssl', args, { cwd: folder })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  await openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=ca',
  )
  await openssl('req', ...newKey, '-keyout', 'key.pem', '-out', 'request.pem', '-subj', '/CN=setpoint')
  await writeFile(
    join(folder, 'names'),
    'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n',
  )
  const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'names', '-days', '2']
  await openssl('x509', '-req', '-in', 'request.pem', ...signing, '-out', 'cert.pem')
  return { ca: join(folder, 'ca.pem'), cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') }
}
