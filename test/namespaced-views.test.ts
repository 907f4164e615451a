import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { namespacesOf, placesIn, regionsOf } from './support/kinds.ts'
import { type Connection, transports } from './support/transports.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/** Server-side apply, Tables and metadata of namespaced objects. */

const everywhere = '/apis/places.example.com/v1/places'
const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
const oneMetadata = 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io'
const listMetadata = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io'

function rowsOf(body: unknown): Fields[] {
  return arrayOf(fieldsOf(body).rows).map(fieldsOf)
}

/** Returns `<namespace>/<name>` of an object. */
function keyOf(object: unknown): string {
  const { namespace, name } = fieldsOf(fieldsOf(object).metadata)
  return `${namespace}/${name}`
}

describe.each(stores)('a namespaced object on the %s store', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, ['places-plugin'])
    api = world.api
    for (const name of ['a', 'b']) await namespacesOf(api).create(name, {})
  })
  afterAll(() => world?.end())
  beforeEach(async () => {
    for (const name of ['a', 'b']) await placesIn(api, name).clear()
  })

  const apply = (path: string, body: Fields, query = '') =>
    api.request('PATCH', `${path}?fieldManager=me${query}`, body, { type: 'application/apply-patch+yaml' })
  const placeIn = (namespace: string, spec: Fields, metadata: Fields = {}) =>
    placesIn(api, namespace).body('x', spec, metadata)

  describe('is applied', () => {
    it('in each namespace on its own', async () => {
      const first = objectOf(await apply(placesIn(api, 'a').at('x'), placeIn('a', { n: '1' })), 201)
      const second = objectOf(
        await apply(placesIn(api, 'b').at('x'), placeIn('b', { n: '2' }, { namespace: 'b' })),
        201,
      )
      expect([keyOf(first.raw), keyOf(second.raw)]).toEqual(['a/x', 'b/x'])
      const merged = objectOf(await apply(placesIn(api, 'a').at('x'), placeIn('a', { owner: 'o' })))
      expect([merged.metadata.uid, merged.spec]).toEqual([first.metadata.uid, { owner: 'o' }])
      expect((await placesIn(api, 'b').read('x')).spec).toEqual({ n: '2' })
    })

    it('and owns fields, but neither the name nor the namespace', async () => {
      const body = placeIn('a', { n: '1' }, { namespace: 'a', labels: { l: '1' } })
      const { raw } = objectOf(await apply(placesIn(api, 'a').at('x'), body), 201)
      const [entry] = arrayOf(fieldsOf(raw.metadata).managedFields).map(fieldsOf)
      expect(entry?.fieldsV1).toEqual({
        'f:metadata': { 'f:labels': { 'f:l': {} } },
        'f:spec': { 'f:n': {} },
      })
      const patched = objectOf(
        await api.mergePatch(`${placesIn(api, 'a').at('x')}?fieldManager=other`, {
          metadata: { namespace: 'a' },
          spec: { owner: 'o' },
        }),
      )
      const entries = arrayOf(fieldsOf(patched.raw.metadata).managedFields).map(fieldsOf)
      expect(entries.map(({ fieldsV1 }) => fieldsV1)).toContainEqual({ 'f:spec': { 'f:owner': {} } })
    })

    it('with its status in the namespace of the path', async () => {
      await placesIn(api, 'a').create('x', {})
      await placesIn(api, 'b').create('x', {})
      const body = { ...placeIn('a', {}), status: { phase: 'Open' } }
      const { raw, status } = objectOf(await apply(`${placesIn(api, 'a').at('x')}/status`, body))
      expect([keyOf(raw), status]).toEqual(['a/x', { phase: 'Open' }])
      expect((await placesIn(api, 'b').read('x')).status).toEqual({})
    })

    it('not in a namespace that does not exist', async () => {
      for (const query of ['', '&dryRun=All']) {
        const path = placesIn(api, 'nowhere').at('x')
        const refusal = refusalOf(await apply(path, placeIn('nowhere', {}), query), 404, 'NotFound')
        expect(refusal.message).toBe('namespaces "nowhere" not found')
        expect(refusal.details).toMatchObject({ name: 'nowhere', kind: 'namespaces' })
      }
    })

    it('not with the namespace of another path', async () => {
      const path = placesIn(api, 'a').at('x')
      const other = placeIn('a', { n: '2' }, { namespace: 'b' })
      expect(refusalOf(await apply(path, other), 400).message).toContain('"b"')
      refusalOf(await api.get(path), 404)
      const made = await placesIn(api, 'a').create('x', { n: '1' })
      refusalOf(await apply(path, other), 400)
      expect((await placesIn(api, 'a').read('x')).raw).toEqual(made.raw)
    })

    it('not across namespaces', async () => {
      expect((await apply(`${everywhere}/x`, placeIn('a', {}, { namespace: 'a' }))).status).toBe(404)
    })

    it('without a namespace if its kind is cluster-scoped', async () => {
      const regions = regionsOf(api)
      const { raw } = objectOf(
        await apply(regions.at('east'), regions.body('east', {}, { namespace: 'a' })),
        201,
      )
      expect(fieldsOf(raw.metadata).namespace).toBeUndefined()
    })

    it('to be a Namespace, which then takes objects', async () => {
      const namespaces = namespacesOf(api)
      const body = { ...namespaces.body('applied', {}), metadata: { name: 'applied', labels: { l: '1' } } }
      const made = objectOf(await apply(namespaces.at('applied'), body), 201)
      expect(made).toMatchObject({ spec: { finalizers: ['kubernetes'] }, status: { phase: 'Active' } })
      objectOf(await apply(placesIn(api, 'applied').at('x'), placeIn('applied', {})), 201)
      objectOf(await api.delete(namespaces.at('applied')))
      await eventually(async () => expect((await api.get(namespaces.at('applied'))).status).toBe(404))
    })
  })

  describe('is shown', () => {
    const accepting = (accept: string) => ({ headers: { accept } })

    beforeEach(async () => {
      for (const name of ['a', 'b']) await placesIn(api, name).create('x', { n: name })
    })

    it('in the Table of its namespace, and of all with the namespace in the metadata', async () => {
      const all = (await api.get(`${everywhere}?sort=metadata.namespace`, accepting(table))).body
      expect(rowsOf(all).map(({ cells }) => arrayOf(cells)[0])).toEqual(['x', 'x'])
      expect(rowsOf(all).map(({ object }) => keyOf(object))).toEqual(['a/x', 'b/x'])
      const one = (await api.get(placesIn(api, 'b').path, accepting(table))).body
      expect(rowsOf(one).map(({ object }) => keyOf(object))).toEqual(['b/x'])
      const whole = await api.get(`${placesIn(api, 'b').path}?includeObject=Object`, accepting(table))
      expect(rowsOf(whole.body)[0]?.object).toEqual((await placesIn(api, 'b').read('x')).raw)
    })

    it('in pages of Tables across namespaces', async () => {
      const first = fieldsOf((await api.get(`${everywhere}?limit=1`, accepting(table))).body)
      const { continue: token } = fieldsOf(first.metadata)
      const next = await api.get(`${everywhere}?limit=1&continue=${token}`, accepting(table))
      expect([...rowsOf(first), ...rowsOf(next.body)].map(({ object }) => keyOf(object))).toEqual([
        'a/x',
        'b/x',
      ])
    })

    it('as metadata with its namespace', async () => {
      const { metadata } = (await placesIn(api, 'a').read('x')).raw
      const expected = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata }
      expect(fieldsOf(metadata).namespace).toBe('a')
      expect((await api.get(placesIn(api, 'a').at('x'), accepting(oneMetadata))).body).toEqual(expected)
      const list = fieldsOf((await api.get(placesIn(api, 'a').path, accepting(listMetadata))).body)
      expect([list.kind, list.items]).toEqual(['PartialObjectMetadataList', [expected]])
      const all = fieldsOf((await api.get(everywhere, accepting(listMetadata))).body)
      expect(arrayOf(all.items).map(keyOf).sort()).toEqual(['a/x', 'b/x'])
    })

    it.each(['Table', 'PartialObjectMetadata'])('in watches of its namespace and of all, as %s', async as => {
      const heard: Record<string, string[]> = { one: [], all: [] }
      const watch = (name: string, address: string): Connection =>
        transports.lines({
          url: world.server.url,
          address,
          start: 'present',
          headers: accepting(`application/json;as=${as};v=v1;g=meta.k8s.io`).headers,
          onEvent: text => {
            const { type, object } = fieldsOf(JSON.parse(text))
            const shown = as === 'Table' ? rowsOf(object)[0]?.object : object
            if (type !== 'BOOKMARK') heard[name]?.push(`${type} ${keyOf(shown)}`)
          },
        })
      const connections = [watch('one', placesIn(api, 'b').path), watch('all', everywhere)]
      try {
        await eventually(() => expect([heard.one?.length, heard.all?.length]).toEqual([1, 2]))
        objectOf(await api.mergePatch(placesIn(api, 'a').at('x'), { spec: { n: '3' } }))
        objectOf(await api.delete(placesIn(api, 'b').at('x')))
        await eventually(() => expect([heard.one?.length, heard.all?.length]).toEqual([2, 4]))
        expect(heard).toEqual({
          one: ['ADDED b/x', 'DELETED b/x'],
          all: ['ADDED a/x', 'ADDED b/x', 'MODIFIED a/x', 'DELETED b/x'],
        })
      } finally {
        for (const each of connections) each.cut()
        await Promise.all(connections.map(({ ended }) => ended))
      }
    })
  })
})
