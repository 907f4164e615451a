import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import {
  conditionIn,
  define,
  definitionOf,
  messageIn,
  objectsOf,
  pathOf,
  readDefinition,
} from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { createAll, eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

const finalizers = ['example.com/held']

describe.each(stores)('on %s, the deletion of a definition', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
  })
  afterAll(() => world?.end())

  const isGone = (definition: Fields) =>
    eventually(async () => refusalOf(await api.get(pathOf(definition)), 404))

  it('deletes its objects in all namespaces and ends their watches', async () => {
    const definition = definitionOf({ plural: 'leaves', kind: 'Leaf', scope: 'Namespaced' })
    await define(api, definition)
    for (const namespace of ['default', 'setpoint-system'])
      await createAll(objectsOf(api, definition, { namespace }), [{ name: 'a' }, { name: 'b' }])
    const { path } = objectsOf(api, definition)
    const watching = await Watch.open(world.server.url, path)
    await watching.synced()
    objectOf(await api.delete(pathOf(definition)))
    expect((await watching.closed).code).toBe(1013)
    expect(watching.story.slice(4).sort()).toEqual(['DELETED a', 'DELETED a', 'DELETED b', 'DELETED b'])
    refusalOf(await api.get(path), 404)
    expect((await refusedWatch(world.server.url, path)).status).toBe(404)
  })

  it('waits for finalizers: nothing is created meanwhile, what is left can be read and changed', async () => {
    const definition = definitionOf({
      plural: 'anchors',
      indexes: [{ path: '.spec.code', unique: true }],
      versions: { v1: { subresources: { status: {} } } },
    })
    await define(api, definition)
    const anchors = objectsOf(api, definition)
    await createAll(anchors, [
      { name: 'a', spec: { code: '1' }, metadata: { finalizers } },
      { name: 'b', spec: { code: '2' }, metadata: { finalizers } },
      { name: 'c', spec: { code: '3' } },
    ])
    objectOf(await api.delete(pathOf(definition)))
    await eventually(async () => {
      const found = await readDefinition(api, definition)
      expect(conditionIn(found, 'Terminating')).toBe('True InstanceDeletionInProgress')
      expect(messageIn(found, 'Terminating')).toContain('2 objects')
      expect(conditionIn(found, 'Established')).toBe('True InitialNamesAccepted')
    })
    expect((await anchors.list({ sort: 'metadata.name' })).names).toEqual(['a', 'b'])
    expect((await anchors.read('a')).metadata.deletionTimestamp).toBeDefined()
    for (const path of [anchors.path, `${anchors.path}?dryRun=All`])
      expect(refusalOf(await api.post(path, anchors.body('d', {})), 403).message).toContain('terminating')
    const apply = await api.request('PATCH', `${anchors.at('d')}?fieldManager=t`, anchors.body('d', {}), {
      type: 'application/apply-patch+yaml',
    })
    refusalOf(apply, 403)
    objectOf(await api.mergePatch(anchors.at('a'), { spec: { code: '4' } }))
    objectOf(await api.mergePatch(`${anchors.at('a')}/status`, { status: { phase: 'Held' } }))
    objectOf(await api.mergePatch(anchors.at('a'), { metadata: { finalizers: null } }))
    expect((await anchors.list()).names).toEqual(['b'])
    objectOf(await api.mergePatch(anchors.at('b'), { metadata: { finalizers: null } }))
    await isGone(definition)
    refusalOf(await api.get(anchors.path), 404)
    await define(api, definition)
    await createAll(anchors, [
      { name: 'd', spec: { code: '4' } },
      { name: 'e', spec: { code: '1' } },
    ])
    objectOf(await api.delete(pathOf(definition)))
  })

  it('keeps a definition with a finalizer of its own, without objects and closed for new ones, until that is gone', async () => {
    const definition = definitionOf({ plural: 'pillars', metadata: { finalizers } })
    await define(api, definition)
    const pillars = objectsOf(api, definition)
    await pillars.create('a', {})
    objectOf(await api.delete(pathOf(definition)))
    await eventually(async () => {
      const found = await readDefinition(api, definition)
      expect(conditionIn(found, 'Terminating')).toBe('False InstanceDeletionCompleted')
      expect(found.metadata.finalizers).toEqual(finalizers)
    })
    expect((await pillars.list()).names).toEqual([])
    refusalOf(await api.post(pillars.path, pillars.body('b', {})), 403)
    objectOf(await api.mergePatch(pathOf(definition), { metadata: { finalizers: null } }))
    await isGone(definition)
  })

  it('of a collection of definitions deletes the objects of each', async () => {
    const labels = { sort: 'many' }
    const all = [1, 2, 3].map(n => definitionOf({ plural: `many${n}s`, metadata: { labels } }))
    for (const definition of all) {
      await define(api, definition)
      await objectsOf(api, definition).create('a', {})
    }
    const collection = pathOf(all[0] ?? {}).replace(/\/[^/]+$/, '')
    expect((await api.delete(`${collection}?labelSelector=sort=many`)).status).toBe(200)
    for (const definition of all) {
      await isGone(definition)
      await define(api, definition)
      expect((await objectsOf(api, definition).list()).names).toEqual([])
      objectOf(await api.delete(pathOf(definition)))
    }
  })

  it('lets another definition of the name have another scope, other indexes and another storage version', async () => {
    const first = definitionOf({
      plural: 'shapes',
      versions: {
        v1: { selectable: ['.spec.a'], spec: { type: 'object', properties: { a: { type: 'string' } } } },
      },
      indexes: [{ path: '.spec.code', unique: true }],
    })
    const second = definitionOf({
      plural: 'shapes',
      scope: 'Namespaced',
      versions: { v2: {}, v1: { served: false } },
      indexes: [{ path: '.spec.other', unique: true, uniqueWithin: 'namespace' }],
    })
    for (let n = 0; n < 3; n++) {
      await define(api, first)
      const cluster = objectsOf(api, first)
      await createAll(cluster, [{ name: 'a', spec: { a: 'x', code: '1' } }])
      expect((await cluster.list({ fieldSelector: 'spec.a=x' })).names).toEqual(['a'])
      objectOf(await api.delete(pathOf(first)))
      await define(api, second)
      const namespaced = objectsOf(api, second, { namespace: 'default' })
      const { apiVersion } = await namespaced.create('a', { other: '1', code: '1' })
      expect(apiVersion).toBe('live.example.com/v2')
      await namespaced.create('b', { other: '2', code: '1' })
      refusalOf(await api.post(namespaced.path, namespaced.body('c', { other: '1' })), 409)
      refusalOf(await api.get(cluster.path), 404)
      refusalOf(await api.get(`${namespaced.path}?fieldSelector=spec.a=x`), 400)
      objectOf(await api.delete(pathOf(second)))
    }
  })

  it('goes on after a restart, in each of its states', async () => {
    const [held, stuck] = [
      definitionOf({ plural: 'held', kind: 'Held', names: { singular: 'held' } }),
      definitionOf({ plural: 'stucks', metadata: { finalizers } }),
    ]
    await define(api, held)
    await define(api, stuck)
    const objects = objectsOf(api, held)
    await createAll(objects, [{ name: 'a', metadata: { finalizers } }])
    await objectsOf(api, stuck).create('a', {})
    objectOf(await api.delete(pathOf(held)))
    objectOf(await api.delete(pathOf(stuck)))
    await world.server.restart()
    expect((await objects.list()).names).toEqual(['a'])
    refusalOf(await api.post(objects.path, objects.body('b', {})), 403)
    refusalOf(await api.post(objectsOf(api, stuck).path, objectsOf(api, stuck).body('b', {})), 403)
    objectOf(await api.mergePatch(objects.at('a'), { metadata: { finalizers: null } }))
    objectOf(await api.mergePatch(pathOf(stuck), { metadata: { finalizers: null } }))
    await isGone(held)
    await isGone(stuck)
  })
})
