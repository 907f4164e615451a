import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, listOf, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { namespacesOf, placesIn } from './support/kinds.ts'
import type { RunningServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

const patience = { timeout: 120_000 }
const everywhere = '/apis/places.example.com/v1/places'

/** Resolves when a namespace has been removed. */
async function ended(api: Api, name: string): Promise<void> {
  await expect.poll(async () => (await api.get(namespacesOf(api).at(name))).status, patience).toBe(404)
}

/** Resolves when a namespace that is being deleted has conditions. */
function conditionsAre(api: Api, name: string, conditions: readonly object[]): Promise<void> {
  return expect
    .poll(async () => (await namespacesOf(api).read(name)).status, patience)
    .toMatchObject({ phase: 'Terminating', conditions })
}

describe.each(stores)('a namespace on the %s store', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, ['places-plugin'])
    api = world.api
  })
  afterAll(() => world?.end())

  it('is active from its creation on', async () => {
    const made = await namespacesOf(api).create('fresh', {})
    expect(made).toMatchObject({
      apiVersion: 'v1',
      kind: 'Namespace',
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    })
    const at = namespacesOf(api).at('fresh')
    const changed = objectOf(
      await api.mergePatch(at, { metadata: { labels: { a: 'b' } }, spec: { finalizers: [] } }),
    )
    expect(changed).toMatchObject({ spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } })
    objectOf(await api.mergePatch(`${at}/status`, { status: { phase: 'Terminating' } }))
    expect((await namespacesOf(api).read('fresh')).status).toEqual({ phase: 'Active' })
    const tooLong = namespacesOf(api).body('n'.repeat(64), {})
    expect(refusalOf(await api.post(namespacesOf(api).path, tooLong), 422).causes).toMatchObject([
      { field: 'metadata.name' },
    ])
  })

  it.each(['default', 'setpoint-system'])('%s always exists and cannot be deleted', async name => {
    expect((await namespacesOf(api).read(name)).status).toEqual({ phase: 'Active' })
    const at = namespacesOf(api).at(name)
    expect(refusalOf(await api.delete(at), 403, 'Forbidden').message).toContain(name)
    const foreground = { propagationPolicy: 'Foreground' }
    refusalOf(await api.delete(at, foreground), 403)
    refusalOf(await api.delete(namespacesOf(api).path), 405)
    expect((await namespacesOf(api).read(name)).metadata.deletionTimestamp).toBeUndefined()
  })

  it('that does not exist takes no objects', async () => {
    const places = placesIn(api, 'nowhere')
    for (const path of [places.path, `${places.path}?dryRun=All`]) {
      const refusal = refusalOf(await api.post(path, places.body('x', {})), 404)
      expect(refusal.message).toBe('namespaces "nowhere" not found')
      expect(refusal.details).toMatchObject({ name: 'nowhere', kind: 'namespaces' })
    }
    expect((await places.list()).names).toEqual([])
    refusalOf(await api.get(places.at('x')), 404)
  })

  it('is removed after the objects in it, and takes none meanwhile', async () => {
    await namespacesOf(api).create('full', {})
    const places = placesIn(api, 'full')
    await places.create('free', {})
    await places.create('held', {}, { finalizers: ['example.com/hold'] })
    const watch = await Watch.open(world.server.url, namespacesOf(api).at('full'))
    const marked = objectOf(await api.delete(namespacesOf(api).at('full')))
    expect(marked.status).toEqual({ phase: 'Terminating' })
    expect(marked.metadata.deletionTimestamp).toBeDefined()
    const refusal = refusalOf(await api.post(places.path, places.body('late', {})), 403)
    expect(refusal.causes).toEqual([
      {
        reason: 'NamespaceTerminating',
        field: 'metadata.namespace',
        message: 'namespace full is being terminated',
      },
    ])
    await expect.poll(async () => (await places.list()).names, patience).toEqual(['held'])
    expect((await places.read('held')).metadata.deletionTimestamp).toBeDefined()
    // Objects can still be changed.
    objectOf(await api.mergePatch(places.at('held'), { spec: { n: '1' } }))
    objectOf(await api.mergePatch(places.at('held'), { metadata: { finalizers: null } }))
    await ended(api, 'full')
    await watch.until(({ story }) => story.includes('DELETED full'))
    // It is modified again if its objects keep it for long.
    expect([...new Set(watch.story)]).toEqual(['ADDED full', 'MODIFIED full', 'DELETED full'])
    watch.close()
    expect((await places.list()).names).toEqual([])
    // The name is free again.
    await namespacesOf(api).create('full', {})
    await places.create('late', {})
    objectOf(await api.delete(namespacesOf(api).at('full')))
    await ended(api, 'full')
  })

  it('says in its conditions which objects keep it', async () => {
    await namespacesOf(api).create('kept', {}, { finalizers: ['example.com/hold'] })
    await placesIn(api, 'kept').create('here', {}, { finalizers: ['mine'] })
    await placesIn(api, 'kept').create('there', {}, { finalizers: ['mine', 'yours'] })
    const configMap = { metadata: { name: 'x', finalizers: ['yours'] } }
    objectOf(await api.post('/api/v1/namespaces/kept/configmaps', configMap), 201)
    const at = namespacesOf(api).at('kept')
    objectOf(await api.delete(at))
    const successes = [
      { type: 'NamespaceDeletionDiscoveryFailure', status: 'False', reason: 'ResourcesDiscovered' },
      { type: 'NamespaceDeletionGroupVersionParsingFailure', status: 'False', reason: 'ParsedGroupVersions' },
      { type: 'NamespaceDeletionContentFailure', status: 'False', reason: 'ContentDeleted' },
    ]
    await conditionsAre(api, 'kept', [
      ...successes,
      {
        ...{ type: 'NamespaceContentRemaining', status: 'True', reason: 'SomeResourcesRemain' },
        message:
          'Some resources are remaining: configmaps. has 1 resource instances, places.places.example.com has 2 resource instances',
      },
      {
        ...{ type: 'NamespaceFinalizersRemaining', status: 'True', reason: 'SomeFinalizerRemain' },
        message: 'Some finalizers are remaining: mine in 2 resource instances, yours in 2 resource instances',
      },
    ])
    const release = { metadata: { finalizers: null } }
    for (const name of ['here', 'there'])
      objectOf(await api.mergePatch(placesIn(api, 'kept').at(name), release))
    objectOf(await api.mergePatch('/api/v1/namespaces/kept/configmaps/x', release))
    const removed = { status: 'False', reason: 'ContentRemoved', message: 'All content successfully removed' }
    await conditionsAre(api, 'kept', [
      ...successes,
      { type: 'NamespaceContentRemaining', ...removed },
      { type: 'NamespaceFinalizersRemaining', ...removed },
    ])
    objectOf(await api.mergePatch(at, release))
    await ended(api, 'kept')
  })

  it('waits for finalizers of its own', async () => {
    await namespacesOf(api).create('own', {}, { finalizers: ['example.com/hold'] })
    const at = namespacesOf(api).at('own')
    objectOf(await api.delete(at))
    const emptied = async () => (await namespacesOf(api).read('own')).spec.finalizers
    await expect.poll(emptied, patience).toEqual([])
    objectOf(await api.mergePatch(at, { metadata: { finalizers: null } }))
    await ended(api, 'own')
  })

  it('has a subresource that changes its finalizers only', async () => {
    const made = await namespacesOf(api).create('final', {})
    const at = `${namespacesOf(api).at('final')}/finalize`
    refusalOf(await api.get(at), 405)
    refusalOf(await api.mergePatch(at, {}), 405)
    const spec = { finalizers: ['kubernetes', 'example.com/hold'] }
    const changed = objectOf(
      await api.put(at, { ...made.raw, metadata: { name: 'final', labels: { a: 'b' } }, spec }),
    )
    expect(changed.spec).toEqual(spec)
    expect(changed.metadata.labels).toEqual({ 'kubernetes.io/metadata.name': 'final' })
    objectOf(await api.delete(namespacesOf(api).at('final')))
    const left = async () => (await namespacesOf(api).read('final')).spec.finalizers
    await expect.poll(left, patience).toEqual(['example.com/hold'])
    objectOf(await api.put(at, { ...made.raw, metadata: { name: 'final' }, spec: {} }))
    refusalOf(await api.get(namespacesOf(api).at('final')), 404)
  })

  it('may begin with finalizers, which have a domain', async () => {
    const namespaces = namespacesOf(api)
    const finalizers = ['example.com/hold']
    const made = await namespaces.create('begun', { finalizers })
    expect(made.spec.finalizers).toEqual(['example.com/hold', 'kubernetes'])
    const at = `${namespaces.at('begun')}/finalize`
    const change = (...finalizers: unknown[]) =>
      api.put(at, { ...made.raw, metadata: { name: 'begun' }, spec: { finalizers } })
    for (const wrong of ['hold', '/hold', 'a b/hold', 'example.com/a/b', 1]) {
      refusalOf(
        await api.post(namespaces.path, { metadata: { name: 'x' }, spec: { finalizers: [wrong] } }),
        422,
      )
      refusalOf(await change('kubernetes', wrong), 422)
    }
    for (const right of ['orphan', 'foregroundDeletion', 'example.com/other'])
      expect(objectOf(await change(right, 'example.com/hold')).spec.finalizers).toContain(right)
    objectOf(await api.mergePatch(namespaces.at('begun'), { metadata: { labels: { a: 'b' } } }))
    objectOf(await change('kubernetes'))
    objectOf(await api.delete(namespaces.at('begun')))
    await ended(api, 'begun')
  })

  it('is emptied before its removal, although its finalizers were gone before the deletion', async () => {
    const made = await namespacesOf(api).create('emptied', {})
    const at = namespacesOf(api).at('emptied')
    await placesIn(api, 'emptied').create('x', {}, { finalizers: ['example.com/hold'] })
    objectOf(await api.put(`${at}/finalize`, { ...made.raw, metadata: { name: 'emptied' }, spec: {} }))
    expect(objectOf(await api.delete(`${at}?dryRun=All`)).spec.finalizers).toEqual(['kubernetes'])
    const marked = objectOf(await api.delete(at))
    expect(marked.spec.finalizers).toEqual(['kubernetes'])
    expect(marked.metadata.deletionTimestamp).toBeDefined()
    objectOf(await api.mergePatch(placesIn(api, 'emptied').at('x'), { metadata: { finalizers: null } }))
    await ended(api, 'emptied')
    refusalOf(await api.get(placesIn(api, 'emptied').at('x')), 404)
  })

  it('ends although the server is killed while it is being deleted', patience, async () => {
    await namespacesOf(api).create('killed', {})
    const places = placesIn(api, 'killed')
    await Promise.all(Array.from({ length: 40 }, (_, n) => places.create(`p-${n}`, { seat: `${n}` })))
    const watch = await Watch.open(world.server.url, everywhere)
    objectOf(await api.delete(namespacesOf(api).at('killed')))
    await watch.until(({ story }) => story.some(line => line.startsWith('DELETED')))
    await world.server.restart()
    await ended(api, 'killed')
    expect(
      listOf(await api.get(everywhere)).items.map(({ raw }) => fieldsOf(raw.metadata).namespace),
    ).not.toContain('killed')
    await namespacesOf(api).create('killed', {})
    // Its unique values are free.
    await places.create('again', { seat: '7' })
  })
})

describe('a namespace with objects of a plugin that is not installed', () => {
  it(
    'says in its conditions which ones they are, and stays until the plugin is there',
    patience,
    async () => {
      const world = await startSharedWorld('embedded', ['places-plugin'])
      const { api, plugins, server } = world
      try {
        await namespacesOf(api).create('stuck', {})
        await placesIn(api, 'stuck').create('x', {})
        await server.restart({ plugins: [] })
        objectOf(await api.delete(namespacesOf(api).at('stuck')))
        const kind = 'places.places.example.com'
        await conditionsAre(api, 'stuck', [
          {
            ...{ type: 'NamespaceDeletionDiscoveryFailure', status: 'True', reason: 'DiscoveryFailed' },
            message: `Not served here: ${kind}`,
          },
          { type: 'NamespaceDeletionGroupVersionParsingFailure', status: 'False' },
          {
            ...{ type: 'NamespaceDeletionContentFailure', status: 'True', reason: 'ContentDeletionFailed' },
            message: `Failed to delete all resource types, 1 remaining: ${kind} is not served here`,
          },
          {
            ...{ type: 'NamespaceContentRemaining', status: 'True', reason: 'SomeResourcesRemain' },
            message: `Some resources are remaining: ${kind} has 1 resource instances`,
          },
          { type: 'NamespaceFinalizersRemaining', status: 'False', reason: 'ContentRemoved' },
        ])
        await server.restart({ plugins })
        await ended(api, 'stuck')
      } finally {
        await world.end()
      }
    },
  )
})

describe('a namespace of two servers', () => {
  let world: SharedWorld
  let other: RunningServer

  beforeAll(async () => {
    world = await startSharedWorld('etcd', ['places-plugin'])
    other = await world.another()
  })
  afterAll(() => world?.end())

  it('never has an object after its removal, whichever server creates it', patience, async () => {
    const sides = [world.api, new Api(other.url)]
    for (let round = 0; round < 5; round++) {
      const name = `race-${round}`
      await namespacesOf(world.api).create(name, {})
      let isOver = false
      const refusals = new Set<number>()
      const writers = sides.flatMap((api, side) =>
        Array.from({ length: 4 }, async (_, writer) => {
          const places = placesIn(api, name)
          for (let n = 0; !isOver; n++) {
            const { status } = await api.post(places.path, places.body(`p-${side}-${writer}-${n}`, {}))
            if (status !== 201) refusals.add(status)
          }
        }),
      )
      const [here, there] = sides
      if (here === undefined || there === undefined) throw new Error('no server')
      objectOf(await there.delete(namespacesOf(there).at(name)))
      await ended(here, name)
      const at = placesIn(here, name).path
      // As seen by the store, after every write that was under way.
      isOver = true
      await Promise.all(writers)
      expect(listOf(await here.get(at)).names).toEqual([])
      for (const status of refusals) expect([403, 404]).toContain(status)
    }
  })
})
