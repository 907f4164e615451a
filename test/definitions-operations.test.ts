import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import {
  conditionIn,
  define,
  definitionOf,
  hasCondition,
  objectsOf,
  pathOf,
  readDefinition,
  watchDefinition,
} from './support/definitions.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { type Exit, type RunningServer, runProgram, startSharedServer } from './support/server.ts'
import { peekAt, type StorePlace } from './support/store-peek.ts'
import { bothStores, eventually, type Store } from './support/worlds.ts'

/** What an operator does with a store that has definitions and their objects. */

let etcd: EtcdProcess
beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
  return () => etcd.stop()
})

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-operations-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

let places = 0

/** A place for a store, which is empty at first. */
async function placeOn(store: Store) {
  const prefix = `/definitions-${++places}`
  const dataDir = await temporaryFolder()
  const place: StorePlace = store === 'etcd' ? { endpoint: etcd.endpoint, prefix } : { dataDir }
  return {
    place,
    flags:
      store === 'etcd'
        ? ['--etcd-endpoints', etcd.endpoint, '--etcd-prefix', prefix]
        : ['--data-dir', dataDir],
    async serve(args: readonly string[] = []): Promise<RunningServer> {
      const options = store === 'etcd' ? { store, etcd, etcdPrefix: prefix } : { dataDir }
      const server = await startSharedServer({ ...options, args })
      onTestFinished(async () => void (await server.stop()))
      return server
    },
  }
}

async function succeeds(...args: string[]): Promise<Exit> {
  const exit = await runProgram(args)
  expect(exit.code, exit.stderr).toBe(0)
  return exit
}

const finalizers = ['example.com/held']
const crontabs = definitionOf({
  plural: 'crontabs',
  group: 'stable.example.com',
  kind: 'CronTab',
  scope: 'Namespaced',
  versions: {
    v1: {
      spec: { type: 'object', properties: { cron: { type: 'string' }, image: { type: 'string' } } },
      selectable: ['.spec.image'],
    },
    v1beta1: { spec: { type: 'object', properties: { cron: { type: 'string' } } } },
  },
  indexes: [{ path: '.spec.cron', unique: true, uniqueWithin: 'namespace' }],
})
const anchors = definitionOf({ plural: 'anchors' })

/** Stores definitions and objects: one definition has changed since its objects were stored, one is being deleted. */
async function fill(api: Api): Promise<void> {
  await define(api, crontabs)
  await define(api, anchors)
  const objects = objectsOf(api, crontabs, { namespace: 'default' })
  for (let n = 0; n < 20; n++) await objects.create(`c-${n}`, { cron: `${n}`, image: n % 2 ? 'odd' : 'even' })
  objectOf(await api.mergePatch(pathOf(crontabs), { metadata: { labels: { changed: 'yes' } } }))
  await objectsOf(api, anchors).create('a', {}, { finalizers })
  objectOf(await api.delete(pathOf(anchors)))
}

async function expectFilled(api: Api): Promise<void> {
  const objects = objectsOf(api, crontabs, { namespace: 'default' })
  expect((await objects.list({ fieldSelector: 'spec.image=odd' })).names).toHaveLength(10)
  refusalOf(await api.post(objects.path, objects.body('d', { cron: '7' })), 409)
  await objects.create('d', { cron: 'new' })
  const held = await readDefinition(api, anchors)
  expect(conditionIn(held, 'Terminating')).toBe('True InstanceDeletionInProgress')
  refusalOf(await api.post(objectsOf(api, anchors).path, objectsOf(api, anchors).body('b', {})), 403)
  objectOf(await api.mergePatch(objectsOf(api, anchors).at('a'), { metadata: { finalizers: null } }))
  await eventually(async () => refusalOf(await api.get(pathOf(anchors)), 404))
}

describe.each(bothStores)('a store on %s with definitions', store => {
  it('comes back from a backup, with its definitions in their states and all that their objects hold', async () => {
    const source = await placeOn(store)
    const server = await source.serve()
    const api = new Api(server.url)
    await fill(api)
    const before = await objectsOf(api, crontabs).list({ sort: 'metadata.name' })
    const file = join(await temporaryFolder(), 'backup')
    await succeeds('backup', file, '--server', server.url)
    const target = await placeOn(store)
    await succeeds('restore', file, ...target.flags)
    const restored = new Api((await target.serve()).url)
    const after = await objectsOf(restored, crontabs).list({ sort: 'metadata.name' })
    expect(after.items.map(({ metadata, spec }) => [metadata.name, metadata.uid, spec])).toEqual(
      before.items.map(({ metadata, spec }) => [metadata.name, metadata.uid, spec]),
    )
    await expectFilled(restored)
    // Nothing of the definition has changed, so nothing has been written to it since.
    const watch = await watchDefinition(restored, crontabs)
    await watch.synced()
    expect(watch.events.some(event => hasCondition(event, 'Established'))).toBe(true)
    await watch.close()
  })

  it('passes the check, also while one is being deleted', async () => {
    const { flags, serve } = await placeOn(store)
    const server = await serve()
    const api = new Api(server.url)
    await fill(api)
    await succeeds('status', '--server', server.url)
    await server.end()
    await succeeds('check', ...flags)
  })

  it('is not purged of a group that a definition declares, but of what a deleted one has left', async () => {
    const { flags, serve } = await placeOn(store)
    const server = await serve()
    await fill(new Api(server.url))
    if (store === 'embedded') await server.end()
    const refused = await runProgram(['purge', 'stable.example.com', '--yes', ...flags])
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining('crontabs.stable.example.com'),
    ])
    await server.restart()
    const api = new Api(server.url)
    await expectFilled(api)
    objectOf(await api.delete(pathOf(crontabs)))
    await eventually(async () => refusalOf(await api.get(pathOf(crontabs)), 404))
    await server.end()
    await succeeds('purge', 'stable.example.com', '--yes', ...flags)
    await succeeds('check', ...flags)
    await server.restart()
    await define(new Api(server.url), crontabs)
    await objectsOf(new Api(server.url), crontabs, { namespace: 'default' }).create('a', { cron: '1' })
  })

  it('encrypts the objects of a definition that the configuration names, and reencrypts them', async () => {
    const { place, flags, serve } = await placeOn(store)
    const file = join(await temporaryFolder(), 'encryption.yaml')
    const providers = ['old', 'new'].map(
      name => `{ name: ${name}, secret: ${Buffer.alloc(32, name).toString('base64')} }`,
    )
    const configure = (keys: readonly string[]) =>
      writeFile(
        file,
        `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [crontabs.stable.example.com]
  providers:
  - aesgcm: { keys: [${keys.join(', ')}] }
  - identity: {}
`,
      )
    const [old = '', newer = ''] = providers
    await configure([old])
    const server = await serve(['--encryption-provider-config', file])
    const api = new Api(server.url)
    await define(api, crontabs)
    await define(api, anchors)
    const objects = objectsOf(api, crontabs, { namespace: 'default' })
    await objects.create('a', { cron: 'hidden-cron', image: 'hidden-image' })
    await objectsOf(api, anchors).create('a', { plain: 'shown' })
    const valueAt = async (key: string) => {
      const peek = await peekAt(place)
      try {
        return (await peek.value(`objects/${key}`))?.toString('latin1') ?? ''
      } finally {
        await peek.close()
      }
    }
    const stored = await valueAt('stable.example.com/crontabs/default/a')
    expect(stored).not.toContain('hidden')
    expect(stored).toContain('old')
    expect(await valueAt('live.example.com/anchors/a')).toContain('shown')
    refusalOf(await api.post(objects.path, objects.body('b', { cron: 'hidden-cron' })), 409)
    await server.end()
    await configure([newer, old])
    await succeeds('reencrypt', '--encryption-provider-config', file, ...flags)
    expect(await valueAt('stable.example.com/crontabs/default/a')).toContain('new')
    await configure([newer])
    await server.restart()
    expect(
      (await objectsOf(new Api(server.url), crontabs, { namespace: 'default' }).list()).items[0]?.spec,
    ).toEqual({
      cron: 'hidden-cron',
      image: 'hidden-image',
    })
  })
})
