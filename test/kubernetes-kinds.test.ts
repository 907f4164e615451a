import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Api, listOf, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { startWorld, stores, type World } from './support/worlds.ts'

/** Kubernetes' own kinds, as Kubernetes 1.34 has them. */
describe.each(stores)('the built-in kinds on the %s store', store => {
  let world: World
  let api: Api

  beforeAll(async () => {
    world = await startWorld(store, [])
    api = world.api
    objectOf(await api.post('/api/v1/namespaces', { metadata: { name: 'a' } }), 201)
  })
  afterAll(() => world?.end())

  const at = (plural: string, name = '') => `/api/v1/namespaces/a/${plural}${name && `/${name}`}`
  const create = async (plural: string, name: string, content: object) =>
    objectOf(await api.post(at(plural), { metadata: { name }, ...content }), 201).raw
  const replace = (plural: string, name: string, content: object) =>
    api.put(at(plural, name), { metadata: { name }, ...content })
  const fieldsRefused = (answer: Answer) => refusalOf(answer, 422).causes.map(({ field }) => field)

  /** Returns the rows of a table, by the names of its columns, without the ages. */
  const table = async (path: string): Promise<Fields[]> => {
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    const { columnDefinitions, rows } = fieldsOf((await api.get(path, { headers: { accept } })).body)
    const columns = arrayOf(columnDefinitions).map(column => String(fieldsOf(column).name))
    return arrayOf(rows).map(row => {
      const cells = arrayOf(fieldsOf(row).cells)
      return Object.fromEntries(columns.map((column, index) => [column, cells[index]]))
    })
  }

  it('take bodies without apiVersion and kind, but not with others', async () => {
    expect(await create('configmaps', 'bare', { data: { a: '1' } })).toMatchObject({
      apiVersion: 'v1',
      kind: 'ConfigMap',
    })
    refusalOf(await api.post(at('configmaps'), { kind: 'Secret', metadata: { name: 'x' } }), 400)
    refusalOf(await api.post(at('configmaps'), { apiVersion: 'v2', metadata: { name: 'x' } }), 400)
  })

  it('have no spec and no status unless they declare them', async () => {
    const created = await create('configmaps', 'plain', { data: { a: '1' } })
    expect(Object.keys(created).sort()).toEqual(['apiVersion', 'data', 'kind', 'metadata'])
    const warned = await api.mergePatch(at('configmaps', 'plain'), { status: { phase: 'x' } })
    expect(warned.headers.get('warning')).toContain('unknown field \\"status\\"')
    const strict = await api.mergePatch(`${at('configmaps', 'plain')}?fieldValidation=Strict`, { extra: 1 })
    expect(refusalOf(strict, 400).message).toContain('unknown field "extra"')
  })

  it('count a change of any field as a new generation', async () => {
    await create('configmaps', 'counted', { data: { a: '1' } })
    const next = objectOf(await api.mergePatch(at('configmaps', 'counted'), { data: { a: '2' } }))
    expect(next.metadata.generation).toBe(2)
    const labelled = await api.mergePatch(at('configmaps', 'counted'), { metadata: { labels: { l: 'm' } } })
    expect(objectOf(labelled).metadata.generation).toBe(2)
  })

  it('are applied field by field in all their fields', async () => {
    const apply = (manager: string, data: object) =>
      api.request(
        'PATCH',
        `${at('configmaps', 'applied')}?fieldManager=${manager}`,
        { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'applied' }, data },
        { type: 'application/apply-patch+yaml' },
      )
    objectOf(await apply('one', { a: '1' }), 201)
    expect(objectOf(await apply('two', { b: '2' })).raw.data).toEqual({ a: '1', b: '2' })
    expect(refusalOf(await apply('two', { a: '2' }), 409).causes).toMatchObject([{ field: '.data.a' }])
    expect(objectOf(await apply('one', {})).raw.data).toEqual({ b: '2' })
  })

  it('are deleted as a collection, but for namespaces', async () => {
    await create('configmaps', 'gone', { metadata: { name: 'gone', labels: { end: 'now' } } })
    listOf(await api.delete(`${at('configmaps')}?labelSelector=end%3Dnow`))
    refusalOf(await api.get(at('configmaps', 'gone')), 404)
    refusalOf(await api.delete('/api/v1/namespaces'), 405)
  })

  describe('ConfigMap', () => {
    it('has text and bytes under distinct keys', async () => {
      const content = { data: { 'a.txt': 'ä' }, binaryData: { b: 'AAE=' } }
      expect(await create('configmaps', 'both', content)).toMatchObject(content)
      const refused = (content: object) =>
        api.post(at('configmaps'), { metadata: { name: 'refused' }, ...content }).then(fieldsRefused)
      expect(await refused({ data: { 'a b': '' } })).toEqual(['data[a b]'])
      expect(await refused({ data: { '..': '' } })).toEqual(['data[..]'])
      expect(await refused({ data: { a: 1 } })).toEqual(['data.a'])
      expect(await refused({ data: { a: '' }, binaryData: { a: '' } })).toEqual(['data.a'])
      expect(await refused({ binaryData: { a: 'no' } })).toEqual(['binaryData.a'])
      const half = 'x'.repeat(600_000)
      expect(await refused({ data: { a: half, b: half } })).toEqual(['data'])
    })

    it('is immutable once it says so', async () => {
      await create('configmaps', 'fixed', { data: { a: '1' }, immutable: true })
      const labelled = { metadata: { name: 'fixed', labels: { l: 'm' } }, data: { a: '1' }, immutable: true }
      objectOf(await replace('configmaps', 'fixed', labelled))
      expect(fieldsRefused(await replace('configmaps', 'fixed', { data: { a: '2' } }))).toEqual([
        'immutable',
        'data',
      ])
      objectOf(await api.delete(at('configmaps', 'fixed')))
    })

    it('shows the number of its values', async () => {
      await create('configmaps', 'shown', { data: { a: '1', b: '2' }, binaryData: { c: '' } })
      expect(await table(at('configmaps', 'shown'))).toMatchObject([{ Name: 'shown', Data: 3 }])
    })
  })
})
