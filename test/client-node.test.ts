import {
  ApisApi,
  CoreV1Api,
  CustomObjectsApi,
  KubeConfig,
  type KubernetesListObject,
  type KubernetesObject,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
  VersionApi,
  Watch,
} from '@kubernetes/client-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, Collection, objectOf } from './support/api.ts'
import { ClientWorld, settings } from './support/client-world.ts'
import { fieldsOf } from './support/json.ts'
import { namespacesOf, placesIn } from './support/kinds.ts'
import { eventually } from './support/worlds.ts'

const kind = { group: 'fleet.example.com', version: 'v1', plural: 'ships' }

interface Ship extends KubernetesObject {
  spec: { port?: string; crew?: number }
}

describe.each(settings)('@kubernetes/client-node, with our kubeconfig, on $title', setting => {
  let world: ClientWorld
  let api: Api
  let ships: Collection
  let config: KubeConfig
  let objects: CustomObjectsApi

  beforeAll(async () => {
    world = await ClientWorld.start(setting, ['ships-plugin', 'places-plugin'])
    api = world.api
    ships = new Collection(api, 'fleet.example.com/v1', 'Ship', 'ships')
    config = new KubeConfig()
    config.loadFromFile(world.kubeconfig)
    objects = config.makeApiClient(CustomObjectsApi)
  })
  afterAll(() => world?.end())

  it('creates, reads, replaces, patches, lists and deletes custom objects', async () => {
    const created = fieldsOf(
      await objects.createClusterCustomObject({ ...kind, body: ships.body('beagle', { port: 'Plymouth' }) }),
    )
    const read = fieldsOf(await objects.getClusterCustomObject({ ...kind, name: 'beagle' }))
    expect(read).toEqual(created)
    const body = { ...read, spec: { port: 'Falmouth' } }
    await objects.replaceClusterCustomObject({ ...kind, name: 'beagle', body })
    // The version in it is no longer the current one.
    await expect(
      objects.replaceClusterCustomObject({ ...kind, name: 'beagle', body: { ...read, spec: { crew: 1 } } }),
    ).rejects.toMatchObject({ code: 409 })
    const operations = [{ op: 'add', path: '/spec/crew', value: 74 }]
    await objects.patchClusterCustomObject({ ...kind, name: 'beagle', body: operations })
    await objects.patchClusterCustomObjectStatus({
      ...kind,
      name: 'beagle',
      body: [{ op: 'add', path: '/status', value: {} }],
    })
    const list = fieldsOf(
      await objects.listClusterCustomObject({ ...kind, labelSelector: '!x.com/none', limit: 10 }),
    )
    expect(list).toMatchObject({ kind: 'ShipList', items: [{ spec: { port: 'Falmouth', crew: 74 } }] })
    await objects.deleteClusterCustomObject({ ...kind, name: 'beagle' })
    await expect(objects.getClusterCustomObject({ ...kind, name: 'beagle' })).rejects.toMatchObject({
      code: 404,
    })
  })

  it('creates namespaces, applies objects in them, and deletes them', async () => {
    const core = config.makeApiClient(CoreV1Api)
    for (const name of ['a', 'b']) await core.createNamespace({ body: { metadata: { name } } })
    const body = { metadata: { name: 'key' }, stringData: { a: '1' } }
    const secret = await core.createNamespacedSecret({ namespace: 'a', body })
    expect(secret).toMatchObject({ kind: 'Secret', data: { a: 'MQ==' } })
    expect((await core.listNamespacedSecret({ namespace: 'a' })).items).toHaveLength(1)
    const deleted = await core.deleteNamespacedSecret({ namespace: 'a', name: 'key' })
    expect(deleted).toMatchObject({ status: 'Success', details: { name: 'key', uid: secret.metadata?.uid } })
    const places = { group: 'places.example.com', version: 'v1', plural: 'places' }
    const apply = (namespace: string, owner: string) =>
      objects.patchNamespacedCustomObject(
        {
          ...{ ...places, namespace, name: 'x', fieldManager: 'node', force: true },
          body: placesIn(api, namespace).body('x', { owner }),
        },
        setHeaderOptions('Content-Type', PatchStrategy.ServerSideApply),
      )
    await apply('a', '1')
    await apply('b', '2')
    expect(await apply('a', '3')).toMatchObject({
      metadata: { namespace: 'a', managedFields: [{ manager: 'node', operation: 'Apply' }] },
      spec: { owner: '3' },
    })
    const listed = fieldsOf(await objects.listNamespacedCustomObject({ ...places, namespace: 'b' }))
    expect(listed.items).toMatchObject([{ metadata: { namespace: 'b' }, spec: { owner: '2' } }])
    const all = fieldsOf(await objects.listCustomObjectForAllNamespaces(places))
    expect(all.items).toHaveLength(2)
    for (const name of ['a', 'b']) await core.deleteNamespace({ name })
    await eventually(async () => expect((await namespacesOf(api).list()).names).not.toContain('b'))
    expect((await placesIn(api, 'b').list()).names).toEqual([])
  })

  it('reads versions and groups', async () => {
    expect(await config.makeApiClient(VersionApi).getCode()).toMatchObject({
      major: '1',
      minor: '34',
      platform: expect.any(String),
    })
    const { groups } = await config.makeApiClient(ApisApi).getAPIVersions()
    expect(groups.map(({ name }) => name)).toContain('fleet.example.com')
  })

  it('watches', async () => {
    const events: string[] = []
    const { version } = await ships.list()
    let ended: unknown = 'open'
    const controller = await new Watch(config).watch(
      ships.path,
      { resourceVersion: version },
      (type: string, object: KubernetesObject) => events.push(`${type} ${object.metadata?.name}`),
      error => {
        ended = error
      },
    )
    await ships.create('fram', { port: 'Oslo' })
    objectOf(await api.mergePatch(ships.at('fram'), { spec: { crew: 16 } }))
    await api.delete(ships.at('fram'))
    await eventually(() => expect(events).toEqual(['ADDED fram', 'MODIFIED fram', 'DELETED fram']))
    controller.abort()
    await eventually(() => expect(ended).not.toBe('open'))
  })

  it('keeps an informer', async () => {
    const list = (): Promise<KubernetesListObject<Ship>> => objects.listClusterCustomObject(kind)
    const informer = makeInformer<Ship>(config, ships.path, list)
    const heard: string[] = []
    for (const verb of ['add', 'update', 'delete'] as const)
      informer.on(verb, ({ metadata, spec }) =>
        heard.push(`${verb} ${metadata?.name} ${spec.crew ?? ''}`.trim()),
      )
    await ships.create('vega', {})
    await informer.start()
    await eventually(() => expect(heard).toEqual(['add vega']))
    objectOf(await api.mergePatch(ships.at('vega'), { spec: { crew: 21 } }))
    await eventually(() => expect(heard).toEqual(['add vega', 'update vega 21']))
    expect(informer.get('vega')?.spec).toEqual({ crew: 21 })
    await api.delete(ships.at('vega'))
    await eventually(() => expect(heard.at(-1)).toBe('delete vega 21'))
    await informer.stop()
  })
})
