import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, type Api, listOf, objectOf, queryText, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** Details in which Kubernetes' own kinds are as in Kubernetes, and other than plugins' kinds. */

let world: SharedWorld
let api: Api

beforeAll(async () => {
  world = await startSharedWorld('embedded', ['items-plugin'])
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

describe('null in a body of a built-in kind', () => {
  const status = '/api/v1/namespaces/nulls/status'
  const condition = { type: 'T', status: 'True', reason: 'R', message: 'm' }
  const withNull = { status: { conditions: [{ ...condition, lastTransitionTime: null }] } }
  const named = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'nulls' } }

  beforeAll(async () => {
    objectOf(await api.post('/api/v1/namespaces', { metadata: { name: 'nulls' } }), 201)
  })

  it.each<[way: string, send: () => Promise<Answer>]>([
    ['a merge patch', () => api.mergePatch(status, withNull)],
    ['a replacement', () => api.put(status, { ...named, ...withNull })],
    [
      'a JSON patch',
      () =>
        api.jsonPatch(status, [{ op: 'add', path: '/status/conditions', value: withNull.status.conditions }]),
    ],
    [
      'a strategic merge patch',
      () => api.request('PATCH', status, withNull, { type: 'application/strategic-merge-patch+json' }),
    ],
    [
      'an apply',
      () =>
        api.request(
          'PATCH',
          `${status}?fieldManager=m&force=true`,
          { ...named, ...withNull },
          {
            type: 'application/apply-patch+yaml',
          },
        ),
    ],
  ])('is an absent field in the items of a list: %s', async (_way, send) => {
    objectOf(await api.mergePatch(status, { status: { conditions: null } }))
    expect(objectOf(await send()).status.conditions).toEqual([condition])
  })

  it('is the empty text in a map, and in labels and annotations', async () => {
    const metadata = { labels: { l: null, m: 'x' }, annotations: { 'example.com/note': null } }
    const written = await create(
      'configmaps',
      'maps',
      { data: { a: null }, binaryData: { b: null } },
      metadata,
    )
    expect(written.metadata).toMatchObject({
      labels: { l: '', m: 'x' },
      annotations: { 'example.com/note': '' },
    })
    expect(written.raw).toMatchObject({ data: { a: '' }, binaryData: { b: '' } })
    const add = [{ op: 'add', path: '/metadata/annotations/added', value: null }]
    const patched = objectOf(await api.jsonPatch(at('configmaps', 'maps'), add))
    expect(patched.metadata.annotations).toEqual({ 'example.com/note': '', added: '' })
    const applied = await api.request(
      'PATCH',
      `${at('configmaps', 'noted')}?fieldManager=m`,
      'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: noted\n  annotations:\n    example.com/note:\n',
      { type: 'application/apply-patch+yaml' },
    )
    expect(objectOf(applied, 201).metadata.annotations).toEqual({ 'example.com/note': '' })
    const hard = { pods: null, 'requests.cpu': '1' }
    const quota = await create('resourcequotas', 'zero', { spec: { hard } })
    expect(quota.spec.hard).toEqual({ pods: '0', 'requests.cpu': '1' })
    objectOf(await api.delete(at('resourcequotas', 'zero')))
  })

  it('is an empty item in a list, and absent in fields of items', async () => {
    const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default'
    const rule = { apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }
    const role = { metadata: { name: 'r' }, rules: [{ ...rule, resourceNames: null }] }
    expect(objectOf(await api.post(`${roles}/roles`, role), 201).raw.rules).toEqual([rule])
    const user = { kind: 'User', name: 'u' }
    const binding = {
      metadata: { name: 'b' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'r' },
      subjects: [{ ...user, namespace: null }],
    }
    expect(objectOf(await api.post(`${roles}/rolebindings`, binding), 201).raw.subjects).toMatchObject([user])
    const account = await create('serviceaccounts', 's', {
      secrets: [{ name: 'x', uid: null }],
      imagePullSecrets: [null],
    })
    expect(account.raw).toMatchObject({ secrets: [{ name: 'x' }], imagePullSecrets: [{}] })
  })
})

describe('a write to the status of a built-in kind', () => {
  const status = '/api/v1/namespaces/noted/status'
  const named = { apiVersion: 'v1', kind: 'Namespace' }

  it('changes the metadata too, but not the spec', async () => {
    const note = (value: string) => ({ annotations: { 'example.com/note': value } })
    const { metadata, spec } = objectOf(
      await api.post('/api/v1/namespaces', { metadata: { name: 'noted' } }),
      201,
    )
    const patch = { metadata: note('patched'), spec: { finalizers: [] } }
    const patched = objectOf(await api.mergePatch(status, patch))
    expect(patched.metadata).toMatchObject({ uid: metadata.uid, ...note('patched') })
    expect(patched.spec).toEqual(spec)
    const replacement = { ...named, metadata: { name: 'noted', labels: { team: 'a' } } }
    const { raw } = objectOf(await api.put(status, replacement))
    expect(raw.metadata).toMatchObject({ labels: { team: 'a' } })
    expect(raw.metadata).not.toHaveProperty('annotations')
    const quota = await create('resourcequotas', 'noted', { spec: { hard: { pods: '1' } } })
    const path = `${at('resourcequotas', 'noted')}/status`
    const changed = objectOf(await api.mergePatch(path, { metadata: note('quota'), spec: { hard: null } }))
    expect([changed.metadata.annotations, changed.spec]).toEqual([
      { 'example.com/note': 'quota' },
      quota.spec,
    ])
    objectOf(await api.delete(at('resourcequotas', 'noted')))
  })

  it('owns the metadata that it applies', async () => {
    objectOf(await api.post('/api/v1/namespaces', { metadata: { name: 'owned' } }), 201)
    const path = '/api/v1/namespaces/owned/status?fieldManager=m'
    const body = { ...named, metadata: { name: 'owned', labels: { team: 'a' } } }
    const type = 'application/apply-patch+yaml'
    const { labels, managedFields } = fieldsOf(
      objectOf(await api.request('PATCH', path, body, { type })).raw.metadata,
    )
    expect(labels).toMatchObject({ team: 'a' })
    expect(managedFields).toContainEqual(
      expect.objectContaining({
        ...{ manager: 'm', operation: 'Apply', subresource: 'status' },
        fieldsV1: { 'f:metadata': { 'f:labels': { 'f:team': {} } } },
      }),
    )
    const nothing = { ...named, metadata: { name: 'owned' } }
    const without = objectOf(await api.request('PATCH', path, nothing, { type }))
    expect(without.metadata.labels).not.toHaveProperty('team')
  })
})

it('objects of built-in kinds have no generation', async () => {
  const { raw } = await create('configmaps', 'counted', { data: { a: '1' } }, { generation: 7 })
  expect(fieldsOf(raw.metadata).generation).toBeUndefined()
  const changed = objectOf(await api.mergePatch(at('configmaps', 'counted'), { data: { a: '2' } }))
  expect(changed.raw.metadata).not.toHaveProperty('generation')
  objectOf(await api.post('/api/v1/namespaces', { metadata: { name: 'ended' } }), 201)
  const ended = objectOf(await api.delete('/api/v1/namespaces/ended'))
  expect(ended.metadata.deletionTimestamp).toBeDefined()
  expect(ended.raw.metadata).not.toHaveProperty('generation')
})

describe('items of lists of built-in kinds have no apiVersion and kind', () => {
  const itemsOf = async (path: string) => arrayOf(fieldsOf((await api.get(path)).body).items).map(fieldsOf)

  it('and nothing else is missing', async () => {
    const { raw } = await create('configmaps', 'listed', { data: { a: '1' } })
    const { apiVersion: _apiVersion, kind: _kind, ...item } = raw
    for (const query of ['', '&limit=1', '&page=1&size=5', '&resourceVersion=0'])
      expect(await itemsOf(`${at('configmaps')}?fieldSelector=metadata.name%3Dlisted${query}`)).toEqual([
        item,
      ])
    const both = await itemsOf(`${at('configmaps')}?fieldSelector=metadata.name+in+(found,listed)`)
    expect(both.map(({ kind }) => kind)).toEqual([undefined, undefined])
    expect(await itemsOf(`${at('configmaps')}?fieldSelector=metadata.name%3Dnone`)).toEqual([])
    const events = await itemsOf('/apis/events.k8s.io/v1/events')
    expect(events.filter(event => event.kind !== undefined || event.metadata === undefined)).toEqual([])
  })

  it('but watches and reads have them, and plugins have them everywhere', async () => {
    const kind = { apiVersion: 'v1', kind: 'ConfigMap' }
    expect((await api.get(at('configmaps', 'found'))).body).toMatchObject(kind)
    const watch = queryText({ watch: 'true', timeoutSeconds: '1', fieldSelector: 'metadata.name=found' })
    const [event = ''] = (await api.get(at('configmaps') + watch)).text.split('\n')
    expect(JSON.parse(event).object).toMatchObject(kind)
    expect(await itemsOf(`${items}?fieldSelector=metadata.name%3Dnothing`)).toMatchObject([kindOfItems])
  })
})

describe('a DELETE responds', () => {
  const statusOf = (name: string, kind: string, uid: string, group?: string) => ({
    ...{ kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' },
    details: { name, ...(group !== undefined && { group }), kind, uid },
  })

  it('with a Status if it removes the object', async () => {
    const { uid } = (await create('configmaps', 'removed')).metadata
    const path = at('configmaps', 'removed')
    const removed = statusOf('removed', 'configmaps', uid)
    expect((await api.delete(`${path}?dryRun=All`)).body).toEqual(removed)
    const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json'
    expect((await api.delete(path, undefined, { headers: { accept } })).body).toEqual(removed)
    const group = 'coordination.k8s.io'
    const leases = `/apis/${group}/v1/namespaces/default/leases`
    const lease = objectOf(await api.post(leases, { metadata: { name: 'l' }, spec: {} }), 201)
    const { body } = await api.delete(`${leases}/l`)
    expect(body).toEqual(statusOf('l', 'leases', lease.metadata.uid, group))
  })

  it('with the object if it waits for finalizers, and when they are gone', async () => {
    await create('configmaps', 'held', {}, { finalizers: ['example.com/hold'] })
    for (const _time of [1, 2])
      expect(objectOf(await api.delete(at('configmaps', 'held'))).metadata.deletionTimestamp).toBeDefined()
    expect(
      objectOf(await api.mergePatch(at('configmaps', 'held'), { metadata: { finalizers: null } })).kind,
    ).toBe('ConfigMap')
  })

  it('with the object of the kinds of which Kubernetes returns it, and of a plugin', async () => {
    await create('serviceaccounts', 'returned')
    expect(objectOf(await api.delete(at('serviceaccounts', 'returned'))).kind).toBe('ServiceAccount')
    await create('resourcequotas', 'returned', { spec: { hard: { pods: '1' } } })
    expect(objectOf(await api.delete(at('resourcequotas', 'returned'))).kind).toBe('ResourceQuota')
    expect(objectOf(await api.delete(`${items}/nothing`)).kind).toBe('Item')
  })
})
