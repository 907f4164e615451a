import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest'
import { defineModel } from '../api/model.ts'
import { setControllerReference } from '../api/owners.ts'
import { Informer } from '../cache/informer.ts'
import type { NewObjectOf } from '../client/bodies.ts'
import { type Client, createClient } from '../client/index.ts'
import { definePlugin } from '../plugin/plugin.ts'
import { startTestServer, type TestServer } from '../testing/test-server.ts'
import { waitFor } from '../wait/wait-for.ts'
import { ConfigMap, Event, Lease, Namespace, Secret, ServiceAccount } from './index.ts'

/** Kubernetes' kinds in the SDK. The types are checked by the compiler (`tsc -p test`). */

const Database = defineModel({
  group: 'demo.example.com',
  version: 'v1',
  kind: 'Database',
  singular: 'database',
  plural: 'databases',
  scope: 'Namespaced',
  schema: {
    spec: { type: 'object', properties: { config: { type: 'string' } } },
    status: { type: 'object', properties: { secret: { type: 'string' }, size: { type: 'string' } } },
  },
  subresources: { status: true },
})

const base64 = (text: string) => Buffer.from(text).toString('base64')

/** Keeps a password for each database in a Secret, and shows the size from a ConfigMap. */
const plugin = definePlugin({
  name: 'databases',
  models: [Database],
  setup({ controller }) {
    controller(Database, c =>
      c
        .owns(Secret)
        .watches(ConfigMap, async ({ metadata: { namespace, name } }, { lister }) =>
          (await lister(Database))
            .list()
            .filter(each => each.metadata.namespace === namespace && each.spec.config === name)
            .map(each => `${namespace}/${each.metadata.name}`),
        )
        .reconcile(async (database, { client, lister, random }) => {
          const { namespace, name } = database.metadata
          const { object: secret } = await client.createOrUpdate(Secret, `${namespace}/${name}`, draft => {
            if (draft.data?.password === undefined)
              draft.stringData = { password: random('password').toString('hex') }
            return setControllerReference(database, draft)
          })
          const config = (await lister(ConfigMap)).get(`${namespace}/${database.spec.config}`)
          await client.patchStatus(Database, database, {
            secret: secret.data?.password ?? '',
            size: config?.data?.size ?? 'unknown',
          })
        }),
    )
  },
})

let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ plugins: [plugin] })
  await server.startPlugin(plugin)
})
afterAll(() => server.close())

describe.each(['in the process', 'over HTTP'])('a client %s', place => {
  let client: Client
  let close = () => {}
  beforeAll(async () => {
    const http = place === 'over HTTP' ? await server.httpTransport() : undefined
    close = () => http?.close()
    client = http === undefined ? server.client : createClient(http)
    await client.create(Namespace, { metadata: { name: `ns-${place.slice(0, 2)}` } })
    client = client.inNamespace(`ns-${place.slice(0, 2)}`)
  })
  afterAll(() => close())

  test('writes and reads the fields of a Secret', async () => {
    const metadata = { name: 'a' }
    const made = await client.create(Secret, { metadata, stringData: { user: 'ann' } })
    expect(made).toMatchObject({ type: 'Opaque', data: { user: base64('ann') } })
    expect(Object.keys(made)).not.toContain('spec')
    const patched = await client.patch(Secret, 'a', { data: { user: null, host: base64('h') } })
    expect(patched.data).toEqual({ host: base64('h') })
    const applied = await client.apply(Secret, { metadata, data: { port: base64('1') } })
    expect(applied.data).toEqual({ host: base64('h'), port: base64('1') })
    expect(await client.update(Secret, { ...applied, data: {} })).toMatchObject({ data: {} })
    expect((await client.list(Secret, { fieldSelector: 'type=Opaque' })).items).toHaveLength(1)
    await client.delete(Secret, 'a')
  })

  test('creates or updates a kind without a spec, and changes nothing twice', async () => {
    const set = (size: string) =>
      client.createOrUpdate(ConfigMap, 'limits', draft => {
        draft.data = { ...draft.data, size }
      })
    expect((await set('1')).result).toBe('created')
    expect((await set('1')).result).toBe('unchanged')
    const { object, result } = await set('2')
    expect({ result, object }).toMatchObject({ result: 'updated', object: { data: { size: '2' } } })
    expect(Object.keys(object)).not.toContain('spec')
  })

  test('reads the other kinds', async () => {
    const account = await client.create(ServiceAccount, { metadata: { name: 'robot' } })
    expect(account.automountServiceAccountToken).toBeUndefined()
    const lease = await client.create(Lease, { metadata: { name: 'l' }, spec: { holderIdentity: 'me' } })
    expect(lease.spec?.holderIdentity).toBe('me')
    const involvedObject = { kind: 'ServiceAccount', name: 'robot', namespace: account.metadata.namespace }
    await client.create(Event, { metadata: { name: 'e' }, involvedObject, reason: 'Made' })
    const { items } = await client.list(Event, { fieldSelector: 'involvedObject.name=robot' })
    expect(items.map(({ reason }) => reason)).toEqual(['Made'])
  })

  test('an informer keeps them', async () => {
    const informer = new Informer(ConfigMap, { client })
    informer.start()
    await client.create(ConfigMap, { metadata: { name: 'cached' }, data: { a: 'b' } })
    const key = `ns-${place.slice(0, 2)}/cached`
    await expect.poll(() => informer.get(key)?.data).toEqual({ a: 'b' })
    await informer.stop()
  })

  test('a controller owns and watches them', async () => {
    await client.create(ConfigMap, { metadata: { name: 'sizes' }, data: { size: '5Gi' } })
    const database = await client.create(Database, { metadata: { name: 'db' }, spec: { config: 'sizes' } })
    const settled = (size: string) => waitFor(client, Database, 'db', each => each?.status?.size === size)
    const status = (await settled('5Gi'))?.status
    const secret = await client.get(Secret, 'db')
    expect(secret.data).toEqual({ password: status?.secret })
    expect(secret.metadata.ownerReferences).toMatchObject([{ uid: database.metadata.uid, controller: true }])
    await client.patch(ConfigMap, 'sizes', { data: { size: '6Gi' } })
    expect((await settled('6Gi'))?.status?.secret).toBe(status?.secret)
    await client.delete(Secret, 'db')
    await waitFor(client, Database, 'db', each => each?.status?.secret !== status?.secret)
  })
})

test('the types of these kinds are those of their fields', () => {
  expectTypeOf<Secret['data']>().toEqualTypeOf<Record<string, string> | undefined>()
  expectTypeOf<Secret['spec']>().toEqualTypeOf<undefined>()
  expectTypeOf<NonNullable<Namespace['status']>['phase']>().toEqualTypeOf<
    'Active' | 'Terminating' | undefined
  >()
  expectTypeOf<{ metadata: { name: 'a' } }>().toExtend<NewObjectOf<Namespace>>()
  expectTypeOf<{ metadata: { name: 'a' }; data: { a: 'b' } }>().toExtend<NewObjectOf<ConfigMap>>()
  expectTypeOf<{ metadata: { name: 'a' }; data: { a: 1 } }>().not.toExtend<NewObjectOf<ConfigMap>>()
  const misspelled = (client: Client) =>
    // @ts-expect-error: no such field
    client.create(Secret, { metadata: { name: 'a' }, stringDate: { a: 'b' } })
  expect(misspelled).toBeTypeOf('function')
})
