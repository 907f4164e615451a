import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import {
  applyDefinition,
  conditionIn,
  define,
  definitionOf,
  messageIn,
  objectsOf,
  pathOf,
  readDefinition,
} from './support/definitions.ts'
import { startEtcd } from './support/etcd.ts'
import type { Fields } from './support/json.ts'
import { pluginModule, pluginStates, writePlugin } from './support/plugins.ts'
import { type RunningServer, type ServerOptions, startSharedServer } from './support/server.ts'
import { withStoreAt } from './support/store-peek.ts'
import { refusedWatch } from './support/watch.ts'
import { eventually } from './support/worlds.ts'

/** Definitions whose kinds this server cannot serve. */

async function start(options: ServerOptions = {}): Promise<RunningServer> {
  const server = await startSharedServer(options)
  onTestFinished(async () => void (await server.stop()))
  return server
}

async function temporaryFolder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'setpoint-unserved-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  return dir
}

async function latePlugin(parts: Parameters<typeof pluginModule>[1] = {}): Promise<string> {
  const dir = await writePlugin({ 'index.js': pluginModule('late', parts) })
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  return dir
}

/** Changes a stored definition in a store that no server uses, as another release of the program might. */
function changeStored(dataDir: string, name: string, change: (text: string) => string): Promise<void> {
  const key = `objects/apiextensions.k8s.io/customresourcedefinitions/${name}`
  return withStoreAt({ dataDir }, async storage => {
    const { pair } = await storage.get(key)
    const before = pair?.value.toString() ?? ''
    const value = change(before)
    expect(value).not.toBe(before)
    await storage.transact({ compares: [], onSuccess: [{ type: 'put', key, value: Buffer.from(value) }] })
  })
}

const established = async (api: Api, definition: Fields) =>
  conditionIn(await readDefinition(api, definition), 'Established')

it.each([
  ['a rule that does not compile', '"rule":"self.a == self.b"', '"rule":"self.a.nonsense("'],
  ['a pattern that is no regular expression', '"pattern":"^x"', '"pattern":"(x"'],
])(
  'with %s it responds with 503 and the reason, its objects can be deleted, and other kinds go on',
  async (_, good, bad) => {
    const dataDir = await temporaryFolder()
    const server = await start({ dataDir })
    const api = new Api(server.url)
    const spec = {
      type: 'object',
      properties: { a: { type: 'string', pattern: '^x' }, b: { type: 'string' } },
      'x-kubernetes-validations': [{ rule: 'self.a == self.b' }],
    }
    const broken = definitionOf({ plural: 'brokens', versions: { v1: { spec } } })
    const other = definitionOf({ plural: 'others' })
    await define(api, broken)
    await define(api, other)
    const objects = objectsOf(api, broken)
    await objects.create('a', { a: 'x', b: 'x' })
    await objects.create('held', { a: 'x', b: 'x' }, { finalizers: ['example.com/f'] })
    await eventually(async () => expect(await established(api, broken)).toBe('True InitialNamesAccepted'))
    await server.end()
    await changeStored(dataDir, 'brokens.live.example.com', text => text.replace(good, bad))
    await server.restart()
    expect(refusalOf(await api.get(objects.path), 503).message).toMatch(/brokens\.live\.example\.com/)
    for (const answer of [
      await api.get(objects.at('a')),
      await api.post(objects.path, objects.body('b', { a: 'x', b: 'x' })),
      await api.mergePatch(objects.at('a'), { spec: { b: 'y' } }),
      await refusedWatch(server.url, objects.path),
    ])
      refusalOf(answer, 503)
    await objectsOf(api, other).create('a', {})
    expect((await api.get('/openapi/v3/apis/live.example.com/v1')).status).toBe(200)
    expect((await api.get('/readyz')).status).toBe(200)
    expect((await api.delete(objects.at('a'))).status).toBe(200)
    expect((await api.delete(objects.at('held'))).status).toBe(200)
    objectOf(await api.mergePatch(objects.at('held'), { metadata: { finalizers: null } }))
    await applyDefinition(api, broken)
    expect((await objects.list()).names).toEqual([])
    await objects.create('b', { a: 'x', b: 'x' })
  },
)

it('the objects of a kind that cannot be served go when its definition is deleted', async () => {
  const dataDir = await temporaryFolder()
  const server = await start({ dataDir })
  const api = new Api(server.url)
  const spec = { type: 'object', properties: { a: { type: 'string', pattern: '^x' } } }
  const broken = definitionOf({ plural: 'brokens', versions: { v1: { spec } } })
  await define(api, broken)
  await objectsOf(api, broken).create('a', { a: 'x' })
  await eventually(async () => expect(await established(api, broken)).toBe('True InitialNamesAccepted'))
  await server.end()
  await changeStored(dataDir, 'brokens.live.example.com', text => text.replace('^x', '(x'))
  await server.restart()
  refusalOf(await api.get(objectsOf(api, broken).path), 503)
  objectOf(await api.delete(pathOf(broken)))
  await eventually(async () => refusalOf(await api.get(pathOf(broken)), 404))
  await define(api, broken)
  expect((await objectsOf(api, broken).list()).names).toEqual([])
})

it('a definition of another scope than the objects that a plugin has left says so, and is served once they are gone', async () => {
  const server = await start({ plugins: [await latePlugin()] })
  const api = new Api(server.url)
  const cluster = definitionOf({ group: 'late.example.com', plural: 'things' })
  const namespaced = definitionOf({ group: 'late.example.com', plural: 'things', scope: 'Namespaced' })
  await objectsOf(api, cluster).create('a', {})
  await server.restart({ plugins: [] })
  await define(api, namespaced)
  await eventually(async () => expect(await established(api, namespaced)).toBe('False NotServed'))
  expect(messageIn(await readDefinition(api, namespaced), 'Established')).toMatch(/scope.*"a"/)
  // Every kind that comes or goes lets definitions try again that wait for a name. This one does not.
  const { metadata } = await readDefinition(api, namespaced)
  for (let n = 0; n < 20; n++) await define(api, definitionOf({ plural: `others${n}s` }))
  expect((await readDefinition(api, namespaced)).metadata.version).toBe(metadata.version)
  expect(server.stderr().match(/cannot be served/g)?.length).toBeLessThan(5)
  await server.restart({ plugins: [await latePlugin({ group: 'elsewhere.example.com' })] })
  objectOf(await api.delete(pathOf(namespaced)))
  await define(api, cluster)
  expect((await objectsOf(api, cluster).list()).names).toEqual(['a'])
  await api.delete(objectsOf(api, cluster).at('a'))
  objectOf(await api.delete(pathOf(cluster)))
  await define(api, namespaced)
  await objectsOf(api, namespaced, { namespace: 'default' }).create('a', {})
})

it('a definition whose names a plugin has on another server only stays established, and its status is not written again and again', async () => {
  const etcd = await startEtcd({ unsafeNoFsync: true })
  onTestFinished(() => etcd.stop())
  const shared = { store: 'etcd', etcd, etcdPrefix: '/unserved' } as const
  const plain = await start(shared)
  const withPlugin = await start({ ...shared, plugins: [await latePlugin()] })
  const api = new Api(plain.url)
  const definition = definitionOf({ group: 'late.example.com', plural: 'things' })
  await eventually(async () =>
    expect((await pluginStates(new Api(withPlugin.url))).get('late')?.phase).toBe('Started'),
  )
  await define(api, definition)
  await eventually(async () => expect(await established(api, definition)).toBeDefined())
  const { metadata } = await readDefinition(api, definition)
  for (let n = 0; n < 20; n++) {
    await define(new Api(withPlugin.url), definitionOf({ plural: `others${n}s` }))
    await define(api, definitionOf({ plural: `more${n}s` }))
  }
  const now = await readDefinition(api, definition)
  expect(Number(now.metadata.version) - Number(metadata.version)).toBeLessThan(10)
  expect(withPlugin.stderr().match(/cannot be served/g)?.length ?? 0).toBeLessThan(100)
})
