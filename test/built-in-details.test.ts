import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, listOf, objectOf, queryText, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { startWorld, type World } from './support/worlds.ts'

/** Details in which Kubernetes' own kinds are as in Kubernetes, and other than plugins' kinds. */

let world: World
let api: Api

beforeAll(async () => {
  world = await startWorld('embedded', ['items-plugin'])
  api = world.api
})
afterAll(() => world?.end())

const items = '/apis/items.example.com/v1/items'
const at = (plural: string, name = '') => `/api/v1/namespaces/default/${plural}${name && `/${name}`}`
const create = async (plural: string, name: string, content: object = {}, metadata: object = {}) =>
  objectOf(await api.post(at(plural), { metadata: { name, ...metadata }, ...content }), 201)

const namesIn = async (path: string, query: Parameters<typeof queryText>[0]) =>
  listOf(await api.get(path + queryText(query))).names

describe('an absent field of a built-in kind equals the empty text', () => {
  const events = at('events')
  const select = (fieldSelector: string, more: object = {}) => namesIn(events, { fieldSelector, ...more })

  beforeAll(async () => {
    await create('events', 'of-cluster', { involvedObject: { kind: 'Issuer', name: 'i' }, reason: 'r' })
    const involvedObject = { kind: 'ConfigMap', namespace: 'default', name: 'c' }
    await create('events', 'of-default', { involvedObject, reason: 'r', type: 'Normal' })
  })

  it('in selectors and comparisons', async () => {
    const ofTest = 'reason=r,'
    expect(await select(`${ofTest}involvedObject.namespace=`)).toEqual(['of-cluster'])
    expect(await select(`${ofTest}involvedObject.namespace!=`)).toEqual(['of-default'])
    expect(await select(`${ofTest}involvedObject.namespace in (default)`)).toEqual(['of-default'])
    expect(await select(`${ofTest}involvedObject.namespace notin (default)`)).toEqual(['of-cluster'])
    expect(await select(`${ofTest}involvedObject.namespace<a`)).toEqual(['of-cluster'])
    expect(await select(`${ofTest}involvedObject.namespace>`)).toEqual(['of-default'])
    expect(await select(`${ofTest}involvedObject.fieldPath!=`)).toEqual([])
    expect(await select(`${ofTest}type=,source=`)).toEqual(['of-cluster'])
    const grouped = { fieldSelector: `${ofTest}regarding.namespace=` }
    expect(await namesIn('/apis/events.k8s.io/v1/events', grouped)).toEqual(['of-cluster'])
    expect(await namesIn('/api/v1/namespaces', { fieldSelector: 'status.phase=' })).toEqual([])
  })

  it('in the order of a list', async () => {
    const sorted = (direction: string) =>
      select('reason=r', { sort: `involvedObject.namespace,${direction}` })
    expect(await sorted('asc')).toEqual(['of-cluster', 'of-default'])
    expect(await sorted('desc')).toEqual(['of-default', 'of-cluster'])
  })

  it('in watches', async () => {
    const query = { watch: 'true', timeoutSeconds: '1', fieldSelector: 'reason=r,involvedObject.namespace=' }
    const lines = (await api.get(events + queryText(query))).text.trim().split('\n')
    const names = lines.map(line => fieldsOf(fieldsOf(fieldsOf(JSON.parse(line)).object).metadata).name)
    expect(names.filter(Boolean)).toEqual(['of-cluster'])
  })

  it('in the deletion of a collection', async () => {
    const selected = queryText({ fieldSelector: 'reason=r,involvedObject.namespace=', dryRun: 'All' })
    expect(listOf(await api.delete(events + selected)).names).toEqual(['of-cluster'])
  })

  it('but not of a plugin', async () => {
    objectOf(await api.post(items, { ...kindOfItems, metadata: { name: 'nothing' }, spec: {} }), 201)
    const query = { fieldSelector: 'spec.rank=,metadata.name=nothing' }
    expect(await namesIn(items, query)).toEqual([])
  })
})

const kindOfItems = { apiVersion: 'items.example.com/v1', kind: 'Item' }

it('an empty term of a field selector is ignored, of a label selector refused', async () => {
  await create('configmaps', 'found')
  for (const fieldSelector of ['metadata.name=found,', ',metadata.name=found', 'metadata.name=found,,'])
    expect(await namesIn(at('configmaps'), { fieldSelector })).toEqual(['found'])
  expect(await namesIn(items, { fieldSelector: 'metadata.name=none,' })).toEqual([])
  const watch = { fieldSelector: 'metadata.name=found,', watch: 'true', timeoutSeconds: '1' }
  expect((await api.get(at('configmaps') + queryText(watch))).text).toContain('"name":"found"')
  refusalOf(await api.get(at('configmaps') + queryText({ labelSelector: 'a=b,' })), 400)
  refusalOf(await api.get(at('configmaps') + queryText({ fieldSelector: 'metadata.name in (a,)' })), 400)
})
