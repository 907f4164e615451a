import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import {
  applyDefinition,
  define,
  definitionOf,
  objectsOf,
  pathOf,
  type VersionParts,
} from './support/definitions.ts'
import type { Fields } from './support/json.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/** What clients see of a definition that changes. Under load: definitions-under-load.test.ts. */

const gauges = (versions: Readonly<Record<string, VersionParts>>) =>
  definitionOf({ plural: 'gauges', versions })
const spec: Fields = { type: 'object', properties: { op: { type: 'string' }, color: { type: 'string' } } }
const first = gauges({ v1: { spec } })
const withColumn = gauges({ v1: { spec, columns: [{ name: 'Op', type: 'string', jsonPath: '.spec.op' }] } })

describe.each(stores)('on %s, a definition that changes', store => {
  let world: SharedWorld
  let api: Api
  const open: Watch[] = []

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    await Promise.all(open.splice(0).map(each => each.cut()))
    objectOf(await api.delete(pathOf(first)))
  })

  async function watch(path: string): Promise<Watch> {
    const opened = await Watch.open(world.server.url, path)
    open.push(opened)
    return opened
  }

  it('ends the watches of its objects with 1013, and they resume where they were', async () => {
    await define(api, first)
    const objects = objectsOf(api, first)
    const { path } = objects
    await objects.create('a', { op: '1' })
    const watching = await watch(path)
    const version = await watching.synced()
    await applyDefinition(api, withColumn)
    expect(await watching.closed).toMatchObject({ code: 1013 })
    expect(watching.story).toEqual(['ADDED a'])
    await objects.create('b', { op: '1' })
    const resumed = await watch(`${path}?version=${version}`)
    const { metadata } = await objects.create('c', { op: '1' })
    await resumed.reaches(metadata.version)
    expect(resumed.story).toEqual(['ADDED b', 'ADDED c'])
  })

  it('ends a stream of a version that is no longer served, which is then not found', async () => {
    const both = gauges({ v1: { spec }, v1beta1: { spec } })
    await define(api, both)
    const { path } = objectsOf(api, both, { version: 'v1beta1' })
    const stream = await fetch(`${world.server.url}${path}?watch=true`)
    const watching = await watch(path)
    await applyDefinition(api, gauges({ v1: { spec }, v1beta1: { spec, served: false } }))
    expect(await watching.closed).toMatchObject({ code: 1013 })
    expect(await stream.text()).toBe('')
    refusalOf(await api.get(path), 404)
    expect((await refusedWatch(world.server.url, path)).status).toBe(404)
    expect((await api.get('/apis/live.example.com/v1beta1')).status).toBe(404)
  })

  it('ends no watch when only its labels, other annotations or conditions change', async () => {
    await define(api, first)
    const objects = objectsOf(api, first)
    const { path } = objects
    const watching = await watch(path)
    await watching.synced()
    objectOf(await api.mergePatch(pathOf(first), { metadata: { labels: { a: 'b' } } }))
    objectOf(await api.mergePatch(pathOf(first), { metadata: { annotations: { 'example.com/a': 'b' } } }))
    objectOf(await api.mergePatch(pathOf(first), { metadata: { finalizers: ['example.com/f'] } }))
    objectOf(await api.mergePatch(pathOf(first), { metadata: { finalizers: null } }))
    const conditions = [{ type: 'example.com/Seen', status: 'True', reason: 'Seen', message: 'seen' }]
    objectOf(await api.mergePatch(`${pathOf(first)}/status`, { status: { conditions } }))
    const { metadata } = await objects.create('a', { op: '1' })
    await watching.reaches(metadata.version)
    expect(watching.story).toEqual(['ADDED a'])
  })

  it('shows objects as its new schema does, those from before too, without another version', async () => {
    await define(api, gauges({ v1: { spec } }))
    const objects = objectsOf(api, first)
    const { metadata } = await objects.create('a', { op: '1', color: 'red' })
    const size = { type: 'integer', default: 3 }
    await applyDefinition(
      api,
      gauges({ v1: { spec: { type: 'object', properties: { op: { type: 'string' }, size } } } }),
    )
    const shown = await objects.read('a')
    expect([shown.metadata.version, shown.spec]).toEqual([metadata.version, { op: '1', size: 3 }])
    expect((await objects.list()).items.map(({ raw }) => raw)).toEqual([shown.raw])
    await applyDefinition(api, gauges({ v1: { spec } }))
    expect((await objects.read('a')).spec).toEqual({ op: '1', color: 'red' })
  })

  it('stores objects in its new storage version when they are written, and serves both', async () => {
    await define(api, gauges({ v1: { spec }, v2: { spec } }))
    const [v1, v2] = ['v1', 'v2'].map(version => objectsOf(api, first, { version }))
    if (v1 === undefined || v2 === undefined) throw new Error('no version')
    const { metadata } = await v1.create('a', { op: '1' })
    await applyDefinition(api, gauges({ v1: { spec, storage: false }, v2: { spec, storage: true } }))
    for (const [version, each] of [v1, v2].entries()) {
      const { apiVersion, metadata: shown } = await each.read('a')
      expect([apiVersion, shown]).toEqual([`live.example.com/v${version + 1}`, metadata])
    }
    objectOf(await v1.api.mergePatch(v1.at('a'), { spec: { op: '2' } }))
    expect([(await v1.read('a')).spec, (await v2.read('a')).spec]).toEqual([{ op: '2' }, { op: '2' }])
    const { status } = objectOf(await api.get(pathOf(first)))
    expect(status.storedVersions).toEqual(['v1', 'v2'])
  })
})
