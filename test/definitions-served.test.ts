import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
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
import { arrayOf, fieldsOf } from './support/json.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

describe.each(stores)('on %s, a definition', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
  })
  afterAll(() => world?.end())

  it('is served when the response to its creation arrives, again and again', async () => {
    for (let n = 0; n < 40; n++) {
      const definition = definitionOf({ plural: `quick${n}s` })
      await define(api, definition)
      const objects = objectsOf(api, definition)
      const created = await objects.create('a', { n })
      expect((await objects.list()).items.map(({ raw }) => raw)).toEqual([created.raw])
      objectOf(await api.delete(pathOf(definition)))
    }
  })

  it('is no longer served when the response to its deletion arrives', async () => {
    const definition = definitionOf({ plural: 'goners' })
    for (let n = 0; n < 20; n++) {
      await define(api, definition)
      await objectsOf(api, definition).create('a', {})
      expect((await api.delete(pathOf(definition))).status).toBe(200)
      expect((await api.get(objectsOf(api, definition).path)).status).toBe(404)
      refusalOf(await api.get(pathOf(definition)), 404)
    }
  })

  it('reports its names and conditions as Kubernetes does', async () => {
    const definition = definitionOf({
      plural: 'reports',
      names: { shortNames: ['rp'], categories: ['all', 'live'] },
    })
    await define(api, definition)
    const { status } = await eventually(async () => {
      const found = await readDefinition(api, definition)
      expect(conditionIn(found, 'Established')).toBe('True InitialNamesAccepted')
      return found
    })
    expect(status).toMatchObject({
      acceptedNames: {
        ...{ plural: 'reports', singular: 'report', kind: 'Report', listKind: 'ReportList' },
        ...{ shortNames: ['rp'], categories: ['all', 'live'] },
      },
      storedVersions: ['v1'],
      conditions: [
        { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts' },
        { type: 'Established', status: 'True', reason: 'InitialNamesAccepted' },
      ],
    })
  })

  it('is in discovery and in both OpenAPI documents at once, and gone from them with the definition', async () => {
    const definition = definitionOf({
      plural: 'shown',
      kind: 'Shown',
      group: 'shown.example.com',
      scope: 'Namespaced',
      names: { shortNames: ['sh'], categories: ['live'] },
      versions: {
        v1: {
          spec: { type: 'object', properties: { color: { type: 'string', description: 'Of the paint.' } } },
          subresources: { status: {} },
        },
        v1alpha1: {},
      },
    })
    const [groupPath, v3, v2] = ['/apis/shown.example.com', '/openapi/v3', '/openapi/v2']
    const isIn = async (path: string, accept = 'application/json') =>
      (await api.get(path, { headers: { accept } })).text.includes('shown.example.com')
    const aggregated = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
    const everywhere = async () => [
      await isIn('/apis'),
      await isIn('/apis', aggregated),
      await isIn(v3),
      await isIn(v2),
      (await api.get(groupPath)).status,
      (await api.get(`${v3}${groupPath}/v1`)).status,
    ]
    expect(await everywhere()).toEqual([false, false, false, false, 404, 404])
    await define(api, definition)
    expect(await everywhere()).toEqual([true, true, true, true, 200, 200])
    const { resources } = fieldsOf((await api.get(`${groupPath}/v1`)).body)
    expect(arrayOf(resources)).toMatchObject([
      {
        ...{ name: 'shown', singularName: 'show', namespaced: true, kind: 'Shown' },
        ...{ shortNames: ['sh'], categories: ['live'] },
      },
      { name: 'shown/status', namespaced: true, kind: 'Shown' },
    ])
    const { preferredVersion } = fieldsOf((await api.get(groupPath)).body)
    expect(fieldsOf(preferredVersion).version).toBe('v1')
    expect((await api.get(`${v3}${groupPath}/v1`)).text).toContain('Of the paint.')
    objectOf(await api.delete(pathOf(definition)))
    expect(await everywhere()).toEqual([false, false, false, false, 404, 404])
  })

  it('has the events of its establishment on a watch of definitions', async () => {
    const definition = definitionOf({ plural: 'watcheds' })
    const watch = await watchDefinition(api, definition)
    await define(api, definition)
    await watch.until(({ events }) => events.some(event => hasCondition(event, 'Established')))
    await api.delete(pathOf(definition))
    await watch.until(({ story }) => story.at(-1) === 'DELETED watcheds.live.example.com')
    await watch.close()
  })
})
