import {
  type Client,
  createClient,
  defineModel,
  definePlugin,
  Informer,
  isNotFound,
  Namespace,
  type ObjectOf,
  setControllerReference,
  setOwnerReference,
  singleValueIndex,
} from '@setpoint/controller-runtime'
import { reconcilerConformance, startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'

/** The SDK with namespaced kinds, in the server's process and over HTTP. */

const group = 'desks.example.com'

const Desk = defineModel({
  group,
  version: 'v1',
  kind: 'Desk',
  singular: 'desk',
  plural: 'desks',
  scope: 'Namespaced',
  schema: {
    spec: { type: 'object', properties: { room: { type: 'string' }, drawers: { type: 'integer' } } },
    status: { type: 'object', properties: { open: { type: 'integer' } } },
  },
  subresources: { status: true },
  indexes: [singleValueIndex({ name: 'spec.room', indexFunc: ({ spec }) => spec.room })],
})
type DeskObject = ObjectOf<typeof Desk>

const Drawer = defineModel({
  group,
  version: 'v1',
  kind: 'Drawer',
  singular: 'drawer',
  plural: 'drawers',
  scope: 'Namespaced',
  schema: { spec: { type: 'object', properties: { desk: { type: 'string' } } } },
})

const House = defineModel({
  group,
  version: 'v1',
  kind: 'House',
  singular: 'house',
  plural: 'houses',
  schema: { spec: { type: 'object' } },
})

const keyOf = ({ metadata: { namespace, name } }: Pick<DeskObject, 'metadata'>) => `${namespace}/${name}`

describe.each(['in the process', 'over HTTP'])('a client %s', place => {
  let server: TestServer
  let client: Client
  let close = () => {}

  beforeAll(async () => {
    server = await startTestServer({ models: [Desk, Drawer, House] })
    const http = place === 'over HTTP' ? await server.httpTransport() : undefined
    close = () => http?.close()
    client = http === undefined ? server.client : createClient(http)
    for (const name of ['a', 'b']) await client.create(Namespace, { metadata: { name } })
  })
  beforeEach(async () => {
    for (const desk of (await client.list(Desk)).items) await client.delete(Desk, keyOf(desk))
  })
  afterAll(async () => {
    close()
    await server.close()
  })

  test('finds an object by its namespace and name, or by its key', async () => {
    const inA = client.inNamespace('a')
    const desk = await inA.create(Desk, { metadata: { name: 'x' }, spec: { room: '1' } })
    expect(desk.metadata.namespace).toBe('a')
    await client.create(Desk, { metadata: { name: 'x', namespace: 'b' }, spec: { room: '2' } })
    expect(await inA.get(Desk, 'x')).toEqual(desk)
    expect(await client.get(Desk, 'a/x')).toEqual(desk)
    expect(await client.inNamespace('b').get(Desk, 'a/x')).toEqual(desk)
    expect((await client.inNamespace('b').get(Desk, 'x')).spec.room).toBe('2')
    expect(await inA.getIfExists(Desk, 'y')).toBeUndefined()
    expect(await client.getIfExists(Desk, 'nowhere/x')).toBeUndefined()
    await expect(client.get(Desk, 'x')).rejects.toThrow(/use client.inNamespace/)
    const missing = client.create(Desk, { metadata: { name: 'x', namespace: 'nowhere' }, spec: {} })
    await expect(missing).rejects.toSatisfy(
      error => isNotFound(error) && error.details?.kind === 'namespaces',
    )
  })

  test('lists one namespace or all', async () => {
    for (const namespace of ['b', 'a']) {
      for (const name of ['y', 'x'])
        await client.inNamespace(namespace).create(Desk, { metadata: { name }, spec: {} })
    }
    const all: string[] = []
    for await (const desk of client.items(Desk, { pageSize: 1 })) all.push(keyOf(desk))
    expect(all).toEqual(['a/x', 'a/y', 'b/x', 'b/y'])
    const { items } = await client.inNamespace('b').list(Desk, { sort: 'metadata.name' })
    expect(items.map(keyOf)).toEqual(['b/x', 'b/y'])
  })

  test('writes to the namespace of the object', async () => {
    const desk = await client.create(Desk, { metadata: { name: 'x', namespace: 'a' }, spec: {} })
    const updated = await client.update(Desk, { ...desk, spec: { room: '3' } })
    const patched = await client.patch(Desk, updated, { spec: { drawers: 2 } })
    expect(patched.spec).toEqual({ room: '3', drawers: 2 })
    expect((await client.updateStatus(Desk, { ...patched, status: { open: 1 } })).status).toEqual({ open: 1 })
    await client.inNamespace('a').patchStatus(Desk, 'x', { open: 2 })
    expect((await client.delete(Desk, 'a/x'))?.status).toEqual({ open: 2 })
  })

  test('creates or updates in its namespace', async () => {
    const inA = client.inNamespace('a')
    const owner = await inA.create(Desk, { metadata: { name: 'owner' }, spec: {} })
    const first = await inA.createOrUpdate(Drawer, 'd', draft => {
      draft.spec.desk = 'owner'
      return setControllerReference(owner, draft)
    })
    expect(first).toMatchObject({ result: 'created', object: { metadata: { namespace: 'a', name: 'd' } } })
    const applied = await inA.apply(Drawer, { metadata: { name: 'd' }, spec: { desk: 'owner' } })
    expect(applied).toMatchObject({ metadata: { uid: first.object.metadata.uid }, spec: { desk: 'owner' } })
    const other = await client.apply(Drawer, { metadata: { name: 'd', namespace: 'b' }, spec: {} })
    expect(other.metadata).toMatchObject({ namespace: 'b', name: 'd' })
    expect(() => setOwnerReference(owner, other)).toThrow(/is in the namespace a/)
    expect(() => setOwnerReference(owner, { metadata: { name: 'd' } })).toThrow(/is none/)
    await client.delete(Drawer, 'b/d')
  })

  test('does not change for cluster-scoped kinds', async () => {
    const house = await client.inNamespace('a').create(House, { metadata: { name: 'h' }, spec: {} })
    expect(house.metadata.namespace).toBeUndefined()
    expect(await client.inNamespace('b').get(House, 'h')).toEqual(house)
    await client.delete(House, 'h')
  })

  test('an informer keeps objects of the same name in several namespaces, or those of one', async () => {
    const all = new Informer(Desk, { client })
    const one = new Informer(Desk, { client: client.inNamespace('a') })
    for (const namespace of ['a', 'b'])
      await client.inNamespace(namespace).create(Desk, { metadata: { name: 'x' }, spec: { room: namespace } })
    all.start()
    one.start()
    await Promise.all([all.synced, one.synced])
    expect(all.list().map(keyOf).sort()).toEqual(['a/x', 'b/x'])
    expect(all.get('b/x')?.spec.room).toBe('b')
    expect(all.byIndex('metadata.namespace', 'a').map(keyOf)).toEqual(['a/x'])
    expect(all.byIndex('metadata.name', 'x')).toHaveLength(2)
    expect(one.list().map(keyOf)).toEqual(['a/x'])
    await client.inNamespace('b').delete(Desk, 'x')
    await expect.poll(() => all.list().map(keyOf), { timeout: 60_000 }).toEqual(['a/x'])
    await Promise.all([all.stop(), one.stop()])
  })
})

const desks = definePlugin({
  name: 'desks',
  models: [Desk, Drawer],
  setup(plugin) {
    plugin.controller(Desk, c =>
      c
        .owns(Drawer)
        // A name means a desk in the namespace of the drawer.
        .watches(Drawer, drawer => drawer.spec.desk)
        .reconcile(async (desk, { client, lister }) => {
          const { namespace = '', name, deletionTimestamp } = desk.metadata
          if (deletionTimestamp !== undefined) return
          for (let n = 0; n < (desk.spec.drawers ?? 0); n++) {
            await client.inNamespace(namespace).createOrUpdate(Drawer, `${name}-${n}`, draft => {
              draft.spec.desk = name
              return setControllerReference(desk, draft)
            })
          }
          const drawers = (await lister(Drawer)).byIndex('metadata.namespace', namespace)
          const open = drawers.filter(({ spec }) => spec.desk === name).length
          await client.patchStatus(Desk, desk, { open })
        }),
    )
  },
})

describe('a reconciler of a namespaced kind', () => {
  reconcilerConformance({
    model: Desk,
    outside: () => undefined,
    plugin: () => desks,
    objects: () => [
      { metadata: { name: 'a', namespace: 'default' }, spec: { drawers: 2 } },
      { metadata: { name: 'a', namespace: 'setpoint-system' }, spec: { drawers: 1 } },
    ],
    changes: () => [{ spec: { room: '1' } }, { spec: { drawers: 2 } }],
    isConverged: async ({ object, client }) => {
      const { namespace = '', name } = object.metadata
      const { items } = await client.inNamespace(namespace).list(Drawer)
      const wanted = object.spec.drawers ?? 0
      return (
        items.length === wanted &&
        object.status?.open === wanted &&
        items.every(({ spec }) => spec.desk === name)
      )
    },
    isCleanedUp: async ({ object, client }) =>
      (await client.inNamespace(object.metadata.namespace ?? '').list(Drawer)).items.length === 0,
  }).register(test.concurrent)
})
