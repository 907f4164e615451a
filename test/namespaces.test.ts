import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, Collection, listOf, objectOf, readObject, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { placesIn, regionsOf } from './support/kinds.ts'
import { Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

const everywhere = '/apis/places.example.com/v1/places'

describe.each(stores)('a namespaced kind on the %s store', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, ['places-plugin'])
    api = world.api
    for (const name of ['a', 'a-b', 'b']) await createNamespace(api, name)
  })
  afterAll(() => world?.end())

  const clear = () => Promise.all(['a', 'a-b', 'b'].map(name => placesIn(api, name).clear()))
  const keys = (items: readonly { readonly raw: Record<string, unknown> }[]) =>
    items.map(({ raw }) => {
      const { namespace, name } = fieldsOf(raw.metadata)
      return `${textOf(namespace)}/${textOf(name)}`
    })
  const list = async (path: string) => keys(listOf(await api.get(path)).items)

  it('keeps objects of the same name apart', async () => {
    await clear()
    const first = await placesIn(api, 'a').create('x', { n: '1' })
    const second = await placesIn(api, 'b').create('x', { n: '2' })
    expect(first.metadata.uid).not.toBe(second.metadata.uid)
    expect(fieldsOf(first.raw.metadata).namespace).toBe('a')
    objectOf(await api.mergePatch(placesIn(api, 'a').at('x'), { spec: { n: '3' } }))
    objectOf(
      await api.put(`${placesIn(api, 'b').at('x')}/status`, { ...second.raw, status: { phase: 'On' } }),
    )
    expect((await placesIn(api, 'a').read('x')).spec).toEqual({ n: '3' })
    expect(await placesIn(api, 'b').read('x')).toMatchObject({ spec: { n: '2' }, status: { phase: 'On' } })
    objectOf(await api.delete(placesIn(api, 'a').at('x')))
    refusalOf(await api.get(placesIn(api, 'a').at('x')), 404)
    expect(await list(everywhere)).toEqual(['b/x'])
  })

  it('answers a creation with the object and its location', async () => {
    await clear()
    const places = placesIn(api, 'a')
    const answer = await api.post(places.path, places.body('here', {}))
    expect(objectOf(answer, 201).metadata.name).toBe('here')
    expect(answer.headers.get('location')).toBe(places.at('here'))
    const generated = await api.post(places.path, places.body(undefined, {}, { generateName: 'g-' }))
    expect(generated.headers.get('location')).toMatch(/\/namespaces\/a\/places\/g-[a-z0-9]{5}$/)
  })

  it('refuses a body of another namespace, and takes one without', async () => {
    await clear()
    const places = placesIn(api, 'a')
    const other = places.body('x', {}, { namespace: 'b' })
    expect(refusalOf(await api.post(places.path, other), 400).message).toContain('"b"')
    const made = await places.create('x', {}, { namespace: 'a' })
    refusalOf(await api.put(places.at('x'), other), 400)
    refusalOf(await api.mergePatch(places.at('x'), { metadata: { namespace: 'b' } }), 400)
    refusalOf(
      await api.jsonPatch(places.at('x'), [{ op: 'replace', path: '/metadata/namespace', value: 'b' }]),
      400,
    )
    refusalOf(await api.post(places.path, places.body('y', {}, { namespace: 7 })), 400)
    const same = objectOf(await api.mergePatch(places.at('x'), { metadata: { namespace: null } }))
    expect(same.raw).toEqual(made.raw)
  })

  it('names an object without its namespace when it refuses an apply', async () => {
    const places = placesIn(api, 'a')
    const answer = await api.request(
      'PATCH',
      `${places.at('x')}?fieldManager=one`,
      places.body('x', {}, { labels: 7 }),
      { type: 'application/apply-patch+yaml' },
    )
    const { message, details } = refusalOf(answer, 422)
    expect(message).toContain('Place.places.example.com "x" is invalid')
    expect(details.name).toBe('x')
  })

  it('drops the namespace of an object of a cluster-scoped kind', async () => {
    const made = await regionsOf(api).create('north', {}, { namespace: 'a' })
    expect(fieldsOf(made.raw.metadata).namespace).toBeUndefined()
    objectOf(await api.put(regionsOf(api).at('north'), made.raw))
    expect(
      refusalOf(await api.get('/apis/places.example.com/v1/namespaces/a/regions'), 404).message,
    ).toContain('nothing is served at')
    expect(
      refusalOf(await api.get(`${regionsOf(api).path}?fieldSelector=metadata.namespace=a`), 400).message,
    ).toContain('metadata.namespace')
  })

  it('lists and watches across all namespaces, and nothing else', async () => {
    const places = placesIn(api, 'a')
    for (const answer of [
      await api.post(everywhere, places.body('x', {}, { namespace: 'a' })),
      await api.delete(everywhere),
      await api.put(everywhere, {}),
    ]) {
      expect(refusalOf(answer, 405).message).toContain(
        'places are in namespaces, at .../namespaces/<namespace>/places',
      )
      expect(answer.headers.get('allow')).toBe('GET, HEAD')
    }
    const hint = 'places are in namespaces, at .../namespaces/<namespace>/places/<name>'
    expect(refusalOf(await api.get(`${everywhere}/x`), 404).message).toMatch(hint)
    expect(refusalOf(await api.delete(`${everywhere}/x`), 404).message).toMatch(hint)
  })

  it('orders lists by namespace and name, and ties of a sort by name and namespace', async () => {
    await clear()
    for (const [namespace, name] of [
      ['b', 'x'],
      ['a', 'y'],
      ['a-b', 'x'],
      ['a', 'x'],
      ['a-b', 'z'],
    ] as const)
      await placesIn(api, namespace).create(name, { n: 'same' })
    // The order of keys: "-" is before "/".
    const byKey = ['a-b/x', 'a-b/z', 'a/x', 'a/y', 'b/x']
    expect(await list(`${everywhere}?limit=10`)).toEqual(byKey)
    expect(await list(`${everywhere}?sort=spec.n`)).toEqual(['a/x', 'a-b/x', 'b/x', 'a/y', 'a-b/z'])
    expect(await list(`${everywhere}?sort=metadata.name,desc`)).toEqual([
      'a-b/z',
      'a/y',
      'a/x',
      'a-b/x',
      'b/x',
    ])
    expect(await list(`${everywhere}?sort=metadata.name&sort=metadata.namespace,desc`)).toEqual([
      ...['b/x', 'a-b/x', 'a/x', 'a/y', 'a-b/z'],
    ])
    expect(
      await list(`${everywhere}?fieldSelector=metadata.namespace in (a-b,b)&sort=metadata.name`),
    ).toEqual([...['a-b/x', 'b/x', 'a-b/z']])
    expect(await list(`${placesIn(api, 'a').path}?sort=metadata.name`)).toEqual(['a/x', 'a/y'])
    expect(await list(placesIn(api, 'nowhere').path)).toEqual([])
  })

  it('continues a list within the namespace', async () => {
    await clear()
    for (const name of ['p', 'q', 'r']) await placesIn(api, 'a').create(name, {})
    await placesIn(api, 'b').create('p', {})
    const { path } = placesIn(api, 'a')
    const first = listOf(await api.get(`${path}?limit=1`))
    const { remainingItemCount, continue: token } = fieldsOf(first.raw.metadata)
    expect(remainingItemCount).toBe(2)
    expect(await list(`${path}?limit=5&continue=${textOf(token)}`)).toEqual(['a/q', 'a/r'])
    const refusal = refusalOf(await api.get(`${placesIn(api, 'b').path}?continue=${textOf(token)}`), 400)
    expect(refusal.message).toContain('another namespace')
  })

  it('holds a unique value in the whole kind, or in each namespace', async () => {
    await clear()
    await placesIn(api, 'a').create('x', { code: 'c', seat: '1' })
    const places = placesIn(api, 'b')
    const refusal = refusalOf(await api.post(places.path, places.body('x', { code: 'c' })), 409)
    expect(refusal.causes).toEqual([
      { reason: 'FieldValueDuplicate', field: 'spec.code', message: expect.stringContaining('"a/x"') },
    ])
    await places.create('x', { seat: '1' })
    const taken = refusalOf(await api.post(places.path, places.body('y', { seat: '1' })), 409)
    expect(taken.causes).toMatchObject([{ field: 'spec.seat', message: expect.stringContaining('"b/x"') }])
    objectOf(await api.delete(places.at('x')))
    await places.create('y', { seat: '1' })
    refusalOf(await api.post(placesIn(api, 'a').path, places.body('y', { seat: '1' })), 409)
  })

  it('deletes a collection in its namespace only', async () => {
    await clear()
    await placesIn(api, 'a').create('x', {})
    await placesIn(api, 'b').create('x', {})
    expect(keys(listOf(await api.delete(placesIn(api, 'a').path)).items)).toEqual(['a/x'])
    expect(await list(everywhere)).toEqual(['b/x'])
  })

  it('sends the events of one namespace, of one name, or of all', async () => {
    await clear()
    await placesIn(api, 'a').create('x', {})
    await placesIn(api, 'b').create('x', {})
    const { url } = world.server
    const paths = [placesIn(api, 'a').path, placesIn(api, 'b').at('x'), everywhere]
    const watches = await Promise.all(paths.map(path => Watch.open(url, path)))
    await placesIn(api, 'a').create('y', {})
    objectOf(await api.delete(placesIn(api, 'a').at('x')))
    objectOf(await api.mergePatch(placesIn(api, 'b').at('x'), { spec: { n: '1' } }))
    objectOf(await api.delete(placesIn(api, 'b').at('x')))
    const story = ({ changes }: Watch) =>
      changes.map(({ type, raw }) => {
        const { namespace, name } = fieldsOf(fieldsOf(raw.object).metadata)
        return `${type} ${namespace}/${name}`
      })
    const [inA, one, all] = watches
    if (inA === undefined || one === undefined || all === undefined) throw new Error('no watch')
    await one.until(watch => story(watch).length === 3)
    expect(story(one)).toEqual(['ADDED b/x', 'MODIFIED b/x', 'DELETED b/x'])
    await inA.until(watch => story(watch).length === 3)
    expect(story(inA)).toEqual(['ADDED a/x', 'ADDED a/y', 'DELETED a/x'])
    await all.until(watch => story(watch).length === 6)
    expect(story(all)).toEqual([
      ...['ADDED a/x', 'ADDED b/x', 'ADDED a/y', 'DELETED a/x', 'MODIFIED b/x', 'DELETED b/x'],
    ])
    for (const watch of watches) watch.close()
  })

  it('is namespaced in discovery', async () => {
    const { body } = await api.get('/apis/places.example.com/v1')
    const entries = arrayOf(fieldsOf(body).resources).map(fieldsOf)
    const scopes = entries.map(({ name, namespaced }) => [name, namespaced])
    expect(Object.fromEntries(scopes)).toEqual({
      places: true,
      'places/status': true,
      labels: true,
      regions: false,
    })
    expect(fieldsOf((await api.get('/api')).body)).toMatchObject({ kind: 'APIVersions', versions: ['v1'] })
    const core = fieldsOf((await api.get('/api/v1')).body)
    expect(core).toMatchObject({ kind: 'APIResourceList', groupVersion: 'v1' })
    const ofNamespaces = arrayOf(core.resources).filter(each =>
      textOf(fieldsOf(each).name).startsWith('namespaces'),
    )
    expect(ofNamespaces).toMatchObject([
      { name: 'namespaces', namespaced: false, kind: 'Namespace', shortNames: ['ns'] },
      { name: 'namespaces/status' },
      { name: 'namespaces/finalize' },
    ])
    const groups = arrayOf(fieldsOf((await api.get('/apis')).body).groups).map(each => fieldsOf(each).name)
    expect(groups).not.toContain('')
  })

  it('lets a controller own objects in the namespace of the owner', async () => {
    await clear()
    await placesIn(api, 'a').create('desk', { labels: 2 })
    await placesIn(api, 'b').create('desk', { labels: 1 })
    const labels = '/apis/places.example.com/v1/labels'
    const all = ['a/desk-0', 'a/desk-1', 'b/desk-0']
    await expect.poll(() => list(`${labels}?limit=9`), { timeout: 60_000 }).toEqual(all)
    // A deleted dependent is made again: its event leads to the owner in the same namespace.
    objectOf(await api.delete('/apis/places.example.com/v1/namespaces/b/labels/desk-0'))
    await expect.poll(() => list(`${labels}?limit=9`), { timeout: 60_000 }).toEqual(all)
    objectOf(await api.delete(placesIn(api, 'a').at('desk')))
    await expect.poll(() => list(`${labels}?limit=9`), { timeout: 60_000 }).toEqual(['b/desk-0'])
    await clear()
  })

  it('collects a dependent whose owner is in another namespace', async () => {
    await clear()
    const owner = await placesIn(api, 'a').create('owner', {})
    const reference = {
      apiVersion: owner.apiVersion,
      kind: owner.kind,
      name: owner.metadata.name,
      uid: owner.metadata.uid,
    }
    const labels = (namespace: string) => labelsIn(api, namespace)
    await labels('a').create('same', {}, { ownerReferences: [reference] })
    await labels('b').create('other', {}, { ownerReferences: [reference] })
    const region = await regionsOf(api).create('south', {})
    const southern = {
      apiVersion: region.apiVersion,
      kind: 'Region',
      name: 'south',
      uid: region.metadata.uid,
    }
    await labels('b').create('southern', {}, { ownerReferences: [southern] })
    // Never collected: a cluster-scoped object cannot have an owner in a namespace.
    await regionsOf(api).create('west', {}, { ownerReferences: [{ ...reference, uid: 'gone' }] })
    const left = () => list('/apis/places.example.com/v1/labels?limit=9')
    await expect.poll(left, { timeout: 60_000 }).toEqual(['a/same', 'b/southern'])
    objectOf(await api.delete(regionsOf(api).at('south')))
    await expect.poll(left, { timeout: 60_000 }).toEqual(['a/same'])
    objectOf(await api.delete(placesIn(api, 'a').at('owner')))
    await expect.poll(left, { timeout: 60_000 }).toEqual([])
    expect((await regionsOf(api).read('west')).metadata.name).toBe('west')
  })
})

function labelsIn(api: Api, namespace: string): Collection {
  return new Collection(api, 'places.example.com/v1', 'Label', 'labels', namespace)
}

async function createNamespace(api: Api, name: string): Promise<void> {
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }
  readObject((await api.post('/api/v1/namespaces', body)).body)
}
