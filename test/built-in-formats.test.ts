import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Answer, type Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { devicesOf, namespacesOf } from './support/kinds.ts'
import { encodeBody, encodeMessage } from './support/protobuf.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** What only built-in kinds take: protobuf bodies and strategic merge patches. */

const protobufType = 'application/vnd.kubernetes.protobuf'
const strategicType = 'application/strategic-merge-patch+json'

/** Bodies that client-go sends. See `fixtures/kubernetes-types/README.md`. */
const recorded = readFileSync(new URL('fixtures/kubernetes-types/bodies.jsonl', import.meta.url), 'utf8')
  .trim()
  .split('\n')
  .map(line => JSON.parse(line))

function bodiesOf(name: string): Buffer[] {
  const found = recorded.filter(each => each.name === name)
  return found.map(({ protobuf }) => Buffer.from(protobuf, 'base64'))
}

let world: SharedWorld
let api: Api
let configMaps: Collection

beforeAll(async () => {
  world = await startSharedWorld('embedded', ['items-plugin'])
  api = world.api
  configMaps = new Collection(api, 'v1', 'ConfigMap', 'configmaps', 'default')
})
afterAll(() => world?.end())
beforeEach(() => configMaps.clear())

const send = (method: string, path: string, body: Buffer | undefined, headers = {}) =>
  api.request(method, path, body, { type: protobufType, headers })
const create = async (name: string, content: object, metadata: object = {}) => {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, ...metadata }, ...content }
  return objectOf(await api.post(configMaps.path, object), 201)
}

describe('a protobuf body', () => {
  it('creates an object, and the response is JSON', async () => {
    const [body] = bodiesOf('POST /api/v1/namespaces')
    const answer = await send('POST', '/api/v1/namespaces', body)
    const { kind, metadata } = objectOf(answer, 201)
    expect([kind, metadata.name, metadata.labels]).toMatchObject(['Namespace', 'a', { team: 'a' }])
    expect(answer.headers.get('content-type')).toBe('application/json')
    objectOf(await api.delete(namespacesOf(api).at('a')))
  })

  it('may leave times out, which decode to null', async () => {
    const event = encodeMessage(
      [1, encodeMessage([1, 'timeless'], [3, 'default'])],
      [2, encodeMessage([2, 'default'])],
      [6, ''],
      [7, ''],
    )
    const body = encodeBody({ apiVersion: 'v1', kind: 'Event' }, event)
    const { raw } = objectOf(await send('POST', '/api/v1/namespaces/default/events', body), 201)
    expect(raw.involvedObject).toEqual({ namespace: 'default' })
    expect(raw).not.toHaveProperty('firstTimestamp')
  })

  it('replaces an object', async () => {
    await create('a', { data: { old: '1' } })
    const [body] = bodiesOf('PUT /api/v1/namespaces/default/configmaps/a')
    const { raw, metadata } = objectOf(await send('PUT', configMaps.at('a'), body))
    expect([raw.data, metadata.labels]).toEqual([{ k: 'v', empty: '' }, { team: 'a' }])
    expect((await configMaps.read('a')).raw).toEqual(raw)
  })

  it('has times, as in the Lease of a leader election', async () => {
    const lease = new Collection(api, 'coordination.k8s.io/v1', 'Lease', 'leases', 'default')
    const time = encodeMessage([1, 1_700_000_000], [2, 123_456_789])
    const spec = encodeMessage([1, 'me'], [2, 15], [3, time], [4, time], [5, 0])
    const body = encodeBody(
      { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' },
      encodeMessage([1, encodeMessage([1, 'elected.example.com'])], [2, spec]),
    )
    const made = objectOf(await send('POST', lease.path, body), 201)
    const times = { acquireTime: '2023-11-14T22:13:20.123456Z', renewTime: '2023-11-14T22:13:20.123456Z' }
    expect(made.spec).toEqual({
      holderIdentity: 'me',
      leaseDurationSeconds: 15,
      leaseTransitions: 0,
      ...times,
    })
  })

  it('has a review, and a role without rules', async () => {
    const reviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
    const [review] = bodiesOf(`POST ${reviews}`)
    const { status, body } = await send('POST', reviews, review)
    expect([status, fieldsOf(body).status]).toMatchObject([201, { allowed: true }])
    const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles'
    const [role] = bodiesOf(`POST ${roles}`)
    expect(objectOf(await send('POST', roles, role), 201).metadata.name).toBe('a')
  })

  it('has the options of a deletion', async () => {
    await create('a', {})
    const [plain, dryRun, otherUid, otherVersion] = bodiesOf('DELETE /api/v1/namespaces/default/configmaps/a')
    expect(refusalOf(await send('DELETE', configMaps.at('a'), otherUid), 409).message).toContain('uid')
    expect(refusalOf(await send('DELETE', configMaps.at('a'), otherVersion), 409).message).toContain('7')
    objectOf(await send('DELETE', configMaps.at('a'), dryRun))
    objectOf(await api.get(configMaps.at('a')))
    expect((await send('DELETE', configMaps.at('a'), plain)).status).toBe(200)
    refusalOf(await api.get(configMaps.at('a')), 404)
  })

  it('deletes a collection', async () => {
    await create('a', {})
    const [body] = bodiesOf('DELETE /api/v1/namespaces/default/configmaps')
    expect((await send('DELETE', configMaps.path, body)).status).toBe(200)
    expect((await configMaps.list()).names).toEqual([])
  })

  it('obeys dryRun, and is checked as JSON is', async () => {
    const body = encodeBody(
      { apiVersion: 'v1', kind: 'ConfigMap' },
      encodeMessage([1, encodeMessage([1, 'Not a name'])]),
    )
    expect(refusalOf(await send('POST', configMaps.path, body), 422).causes).toMatchObject([
      { field: 'metadata.name' },
    ])
    const [good] = bodiesOf('PUT /api/v1/namespaces/default/configmaps/a')
    expect((await send('POST', `${configMaps.path}?dryRun=All`, good)).status).toBe(201)
    refusalOf(await api.get(configMaps.at('a')), 404)
  })

  it('is refused if it is malformed, cut off, or of another kind', async () => {
    const [body = Buffer.alloc(0)] = bodiesOf('POST /api/v1/namespaces')
    const message = async (path: string, given: Buffer, method = 'POST') =>
      refusalOf(await send(method, path, given), 400).message
    expect(await message('/api/v1/namespaces', body.subarray(0, 30))).toContain('not valid protobuf')
    expect(await message('/api/v1/namespaces', Buffer.from('{}'))).toContain('6b 38 73 00')
    expect(await message(configMaps.path, body)).toContain('this path takes kind "ConfigMap"')
    expect(await message(configMaps.at('a'), body, 'DELETE')).toContain('must be a DeleteOptions object')
    const pod = encodeBody({ apiVersion: 'v1', kind: 'Pod' }, encodeMessage())
    expect(await message(configMaps.path, pod)).toContain('no kind "Pod" is registered for version "v1"')
    expect(refusalOf(await send('POST', configMaps.path, Buffer.alloc(0)), 400).message).toContain('empty')
  })

  it('is refused by other kinds, which say what they take', async () => {
    const devices = devicesOf(api)
    const [options] = bodiesOf('DELETE /api/v1/namespaces/default/configmaps/a')
    for (const answer of [
      await send('POST', devices.path, options),
      await send('PUT', devices.at('a'), options),
      await send('DELETE', devices.at('a'), options),
    ])
      expect(refusalOf(answer, 415).message).toContain('only application/json and application/yaml')
    const builtIn = await api.request('POST', configMaps.path, 'a', { type: 'text/plain' })
    expect(refusalOf(builtIn, 415).message).toContain(protobufType)
  })

  it('cannot be a patch', async () => {
    const [options] = bodiesOf('DELETE /api/v1/namespaces/default/configmaps/a')
    expect(refusalOf(await send('PATCH', configMaps.at('a'), options), 415).message).toContain(strategicType)
  })
})

describe('a strategic merge patch', () => {
  const patch = (name: string, document: unknown, query = '', headers = {}): Promise<Answer> =>
    api.request('PATCH', `${configMaps.at(name)}${query}`, document, { type: strategicType, headers })

  it('merges lists by item, and obeys directives', async () => {
    await create('a', { data: { a: '1', b: '2' } }, { finalizers: ['x.example.com/a', 'x.example.com/b'] })
    const merged = objectOf(
      await patch('a', {
        metadata: {
          finalizers: ['x.example.com/c'],
          '$deleteFromPrimitiveList/finalizers': ['x.example.com/a'],
          '$setElementOrder/finalizers': ['x.example.com/c', 'x.example.com/b'],
        },
        data: { b: null, c: '3' },
      }),
    )
    expect(merged.metadata.finalizers).toEqual(['x.example.com/c', 'x.example.com/b'])
    expect(merged.raw.data).toEqual({ a: '1', c: '3' })
    const replaced = objectOf(await patch('a', { data: { $patch: 'replace', d: '4' } }))
    expect(replaced.raw.data).toEqual({ d: '4' })
    const retained = objectOf(await patch('a', { data: { $retainKeys: ['e'], e: '5' } }))
    expect(retained.raw.data).toEqual({ e: '5' })
  })

  it('merges owners by uid', async () => {
    const owner = (uid: string, name: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', name, uid })
    const [one, two] = ['11111111-0000-4000-8000-000000000000', '22222222-0000-4000-8000-000000000000']
    await create('a', {}, { ownerReferences: [owner(one, 'one')], finalizers: ['x.example.com/a'] })
    const { raw } = objectOf(await patch('a', { metadata: { ownerReferences: [owner(two, 'two')] } }))
    expect(arrayOf(fieldsOf(raw.metadata).ownerReferences)).toHaveLength(2)
    const left = objectOf(
      await patch('a', { metadata: { ownerReferences: [{ uid: one, $patch: 'delete' }] } }),
    )
    expect(fieldsOf(left.raw.metadata).ownerReferences).toEqual([owner(two, 'two')])
  })

  it('counts a repeated event, as client-go does', async () => {
    const events = new Collection(api, 'v1', 'Event', 'events', 'default')
    const involvedObject = { apiVersion: 'v1', kind: 'ConfigMap', name: 'a', namespace: 'default' }
    const event = {
      ...events.body('a.1', undefined),
      involvedObject,
      reason: 'Tested',
      count: 1,
      type: 'Normal',
    }
    expect((await api.post(events.path, event)).status).toBe(201)
    const lastTimestamp = '2026-01-31T10:00:00Z'
    const patched = await api.request(
      'PATCH',
      events.at('a.1'),
      { count: 2, lastTimestamp },
      { type: strategicType },
    )
    expect([patched.status, patched.body]).toMatchObject([200, { count: 2, lastTimestamp, reason: 'Tested' }])
  })

  it('loses none of many concurrent patches', async () => {
    await create('a', {})
    const keys = Array.from({ length: 16 }, (_, at) => `k${at}`)
    for (const answer of await Promise.all(keys.map(key => patch('a', { data: { [key]: '1' } }))))
      objectOf(answer)
    expect(Object.keys(fieldsOf((await configMaps.read('a')).raw.data)).sort()).toEqual(keys.sort())
  })

  it('with a stale version is refused with 409', async () => {
    const { metadata } = await create('a', {})
    objectOf(await patch('a', { data: { a: '1' } }))
    const stale = { metadata: { resourceVersion: metadata.version }, data: { a: '2' } }
    refusalOf(await patch('a', stale), 409, 'Conflict')
  })

  it('obeys dryRun and fieldValidation', async () => {
    await create('a', { data: { a: '1' } })
    expect(objectOf(await patch('a', { data: { a: '2' } }, '?dryRun=All')).raw.data).toEqual({ a: '2' })
    expect((await configMaps.read('a')).raw.data).toEqual({ a: '1' })
    const twice = '{"data":{"a":"2","a":"3"}}'
    expect(refusalOf(await patch('a', twice, '?fieldValidation=Strict'), 400).message).toContain('data.a')
    const warned = await patch('a', twice)
    expect(objectOf(warned).raw.data).toEqual({ a: '3' })
    expect(warned.headers.get('warning')).toContain('duplicate field')
    const unknown = await patch('a', { colour: { $patch: 'replace', red: 1 } }, '?fieldValidation=Strict')
    expect(unknown.status).toBe(200)
    expect(
      refusalOf(await patch('a', { colour: { red: 1 } }, '?fieldValidation=Strict'), 400).message,
    ).toContain('colour')
  })

  it('is tracked as an update of its manager', async () => {
    const config = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data: { a: '1' } }
    const type = 'application/apply-patch+yaml'
    objectOf(await api.request('PATCH', `${configMaps.at('a')}?fieldManager=one`, config, { type }), 201)
    const { raw } = objectOf(await patch('a', { data: { b: '2' } }, '?fieldManager=two'))
    expect(fieldsOf(raw.metadata).managedFields).toMatchObject([
      { manager: 'one', operation: 'Apply', fieldsV1: { 'f:data': { 'f:a': {} } } },
      { manager: 'two', operation: 'Update', fieldsV1: { 'f:data': { 'f:b': {} } } },
    ])
  })

  it.each([
    ['an unknown directive', { data: { $patch: 'merge' } }, '$patch must be delete or replace'],
    ['a list in place of an object', [], 'must be an object'],
    [
      'an order of a field that the kind does not have',
      { '$setElementOrder/x': ['a'] },
      '$setElementOrder/x',
    ],
    ['an item without its merge key', { metadata: { ownerReferences: [{ name: 'a' }] } }, 'no uid'],
  ])('is refused with %s', async (_what, document, message) => {
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'b', uid: 'b' }
    await create('a', { data: { a: '1' } }, { ownerReferences: [owner], finalizers: ['x.example.com/a'] })
    expect(refusalOf(await patch('a', document), 400).message).toContain(message)
  })

  it('needs the object to exist', async () => {
    refusalOf(await patch('none', { data: {} }), 404)
  })
})

describe('the OpenAPI documents', () => {
  const contentOf = async (document: string, path: string, method: string) => {
    const { paths } = fieldsOf((await api.get(`/openapi/v3/${document}`)).body)
    const { content } = fieldsOf(fieldsOf(fieldsOf(fieldsOf(paths)[path])[method]).requestBody)
    return Object.keys(fieldsOf(content))
  }
  const configMap = '/api/v1/namespaces/{namespace}/configmaps/{name}'

  it('list protobuf and strategic merge patches for the kinds that take them', async () => {
    expect(await contentOf('api/v1', configMap, 'patch')).toContain(strategicType)
    expect(await contentOf('api/v1', configMap, 'put')).toContain(protobufType)
    expect(await contentOf('api/v1', configMap, 'delete')).toContain(protobufType)
    const device = '/apis/items.example.com/v1/devices/{name}'
    expect(await contentOf('apis/items.example.com/v1', device, 'patch')).not.toContain(strategicType)
    expect(await contentOf('apis/items.example.com/v1', device, 'put')).not.toContain(protobufType)
  })

  it('say which lists a strategic merge patch merges', async () => {
    const { components } = fieldsOf((await api.get('/openapi/v3/api/v1')).body)
    const schemas = fieldsOf(fieldsOf(components).schemas)
    const meta = fieldsOf(fieldsOf(schemas['io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta']).properties)
    expect(meta).toMatchObject({
      finalizers: { 'x-kubernetes-patch-strategy': 'merge' },
      ownerReferences: { 'x-kubernetes-patch-strategy': 'merge', 'x-kubernetes-patch-merge-key': 'uid' },
    })
  })
})
