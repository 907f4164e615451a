import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeHolder, reservationKey } from '../apiserver/src/registry/index.ts'
import { openEmbeddedStorage } from '../apiserver/src/storage/embedded/index.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import type { Operation, Storage } from '../apiserver/src/storage/index.ts'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { gadgetsOf } from './support/kinds.ts'
import { type Exit, type RunningServer, runProgram, startSharedServer } from './support/server.ts'
import { bothStores, copyFixture } from './support/worlds.ts'

/** `setpoint check` of what the built program has stored, before and after the store is damaged from outside. */

const prefix = '/checked'
const resource = 'demo.example.com/gadgets'
const reservationOf = (email: string) => reservationKey({ resource }, 'spec.email', email, '')

describe.each(bothStores)('setpoint check on the %s store', store => {
  let dataDir: string
  let etcd: EtcdProcess | undefined
  let demo: string
  let server: RunningServer

  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-check-'))
    demo = await copyFixture('demo-plugin')
    if (store === 'etcd') etcd = await startEtcd({ unsafeNoFsync: true })
    server = await start()
  })
  afterAll(async () => {
    await server?.stop()
    await etcd?.stop()
    await Promise.all([dataDir, demo].map(each => rm(each, { recursive: true, force: true })))
  })

  const start = () =>
    startSharedServer({ store, dataDir, plugins: [demo], ...(etcd && { etcd, etcdPrefix: prefix }) })

  function check(...args: string[]): Promise<Exit> {
    const place = etcd
      ? ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', prefix]
      : ['--data-dir', dataDir]
    return runProgram(['check', ...args, ...place])
  }

  /** Returns the problems with their keys, and whether they are repaired. */
  async function findings(
    ...args: string[]
  ): Promise<{ code: number | null; report: Fields; found: string[] }> {
    const { code, stdout } = await check('--output', 'json', ...args)
    const report = fieldsOf(JSON.parse(stdout))
    const found = arrayOf(report.findings).map(each => {
      const { problem, key, repaired } = fieldsOf(each)
      return `${problem} ${key}${repaired ? ' (repaired)' : ''}`
    })
    return { code, report, found }
  }

  async function change(operations: readonly Operation[]): Promise<void> {
    const storage: Storage = etcd
      ? await openEtcdStorage({ endpoints: [etcd.endpoint], prefix })
      : await openEmbeddedStorage({ dataDir })
    await storage.transact({ compares: [], onSuccess: operations })
    await storage.close()
  }

  it('finds nothing in what servers write, and each damage by its key, and repairs what is safe', async () => {
    const api = new Api(server.url)
    const gadgets = gadgetsOf(api)
    await gadgets.create('a', { email: 'a@example.com' })
    await gadgets.create('b', { email: 'b@example.com' })
    const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' }, data: { k: 'v' } }
    objectOf(await api.post('/api/v1/namespaces/default/configmaps', configMap), 201)
    if (store === 'embedded') {
      const refused = await check()
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('is in use by process') })
      await server.end()
    }
    // On etcd, the server goes on and writes meanwhile.
    const writing = new AbortController()
    const writes = store === 'etcd' ? changeEmails(writing.signal) : Promise.resolve()
    const healthy = await findings()
    writing.abort()
    await writes
    expect(healthy).toMatchObject({ code: 0, found: [], report: { problems: 0, repaired: 0 } })
    const { objects, reservations, kinds } = healthy.report
    expect([objects, reservations, kinds].every(count => Number(count) > 3)).toBe(true)
    await server.end()
    expect((await check()).stdout).toMatch(
      /^Checked .* objects? of \d+ kinds, \d+ reserved values\.\nNo problems\.\n$/,
    )

    const put = (key: string, text: string): Operation => ({ type: 'put', key, value: Buffer.from(text) })
    const stored = (name: string, metadata: object) =>
      `{}\n${JSON.stringify({ apiVersion: 'demo.example.com/v1', kind: 'Gadget', metadata: { name, uid: 'u', ...metadata }, spec: {} })}`
    const orphan = encodeHolder({ name: 'gone', uid: 'gone' })
    await change([
      { type: 'delete', key: reservationOf('a@example.com') },
      { type: 'put', key: reservationOf('orphan@example.com'), value: orphan },
      put(reservationOf('malformed@example.com'), 'not JSON'),
      put(`objects/${resource}/cut`, '{}\n{"apiVersion":"demo'),
      put(`objects/${resource}/renamed`, stored('other', {})),
      put(
        `objects/${resource}/many`,
        stored('many', { finalizers: Array.from({ length: 65 }, (_, n) => `a/${n}`) }),
      ),
      put('objects//configmaps/nowhere/c', stored('c', { namespace: 'nowhere' })),
      put('objects/left.example.com/things/t', stored('t', {})),
      put('migrations/left.example.com/things', '{}'),
      put('somebody/else', 'x'),
    ])
    const left = [
      `kind without a record models/left.example.com/things`,
      `malformed object objects/${resource}/cut`,
      `malformed object objects/${resource}/renamed`,
      `object in no namespace objects//configmaps/nowhere/c`,
      `object past a bound objects/${resource}/many`,
      'unknown key somebody/else',
    ]
    const safe = [
      `malformed reservation ${reservationOf('malformed@example.com')}`,
      `missing reservation objects/${resource}/a`,
      `orphaned migration migrations/left.example.com/things`,
      `orphaned reservation ${reservationOf('orphan@example.com')}`,
    ]
    for (let times = 0; times < 2; times++) {
      const damaged = await findings()
      expect(damaged.found.sort()).toEqual([...left, ...safe].sort())
      expect(damaged).toMatchObject({ code: 1, report: { problems: 10, repaired: 0 } })
    }
    const repaired = await check('--repair')
    expect(repaired).toMatchObject({ code: 1, stderr: '' })
    for (const line of safe) expect(repaired.stdout).toMatch(new RegExp(`^${line}: .* \\(repaired\\)$`, 'm'))
    expect(repaired.stdout).toMatch(/\n10 problems, 4 repaired\.\n/)
    expect((await findings('--repair')).found.sort()).toEqual(left)

    server = await start()
    const again = gadgetsOf(new Api(server.url))
    refusalOf(await again.api.post(again.path, again.body('x', { email: 'a@example.com' })), 409)
    await again.create('y', { email: 'orphan@example.com' })
    await again.create('z', { email: 'malformed@example.com' })
  })

  /** Gives an object one value after the other until the signal is aborted. */
  async function changeEmails(signal: AbortSignal): Promise<void> {
    const gadgets = gadgetsOf(new Api(server.url))
    await gadgets.create('m', { email: 'first@example.com' })
    for (let n = 0; !signal.aborted; n++)
      objectOf(await gadgets.api.mergePatch(gadgets.at('m'), { spec: { email: `m${n % 3}@example.com` } }))
  }
})
