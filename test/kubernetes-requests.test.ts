import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { decodeProtobuf } from '../apiserver/src/kubernetes/protobuf/protobuf-body.ts'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { AuditTrail } from './support/audit.ts'
import { fieldsOf } from './support/json.ts'
import { Multiplexed } from './support/multiplex.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { type Connection, transports } from './support/transports.ts'
import { Users } from './support/users.ts'
import { refusedWatch } from './support/watch.ts'

const configMaps = '/api/v1/namespaces/default/configmaps'
const watched = '/api/v1/watch/namespaces/default/configmaps'

let folder: string
let plugins: string[]
let users: Users<'ann' | 'watcher' | 'reader'>
let server: RunningServer
let ann: Api
let trail: AuditTrail

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-requests-'))
  trail = new AuditTrail(join(folder, 'audit.log'))
  users = await Users.make({ ann: ['setpoint:admins'], watcher: ['watchers'], reader: ['readers'] })
  const watches = pluginModule('watches', { kind: 'Watch', plural: 'watch' })
  const routes = pluginModule('routes', {
    setup: `plugin.routes('routes.example.com/v1', r => r.get('/watch/:what', ({ params }) => ({ body: params })))`,
  })
  plugins = [await writePlugin({ 'index.js': watches }), await writePlugin({ 'index.js': routes })]
  server = await startSharedServer({ plugins, args: [...users.args, '--audit-log', trail.path] })
  ann = users.api(server.url, 'ann')
  const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default'
  for (const [name, verbs] of [
    ['watchers', ['watch']],
    ['readers', ['get', 'list']],
  ] as const) {
    const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs }]
    objectOf(await ann.post(`${roles}/roles`, { metadata: { name }, rules }), 201)
    const apiGroup = 'rbac.authorization.k8s.io'
    const roleRef = { apiGroup, kind: 'Role', name }
    const subjects = [{ apiGroup, kind: 'Group', name }]
    objectOf(await ann.post(`${roles}/rolebindings`, { metadata: { name }, roleRef, subjects }), 201)
  }
  for (const name of ['a', 'b']) objectOf(await ann.post(configMaps, { metadata: { name } }), 201)
})
afterAll(async () => {
  await server?.stop()
  await users?.remove()
  for (const dir of [folder, ...(plugins ?? [])]) await rm(dir, { recursive: true, force: true })
})

describe('a deprecated path of a watch', () => {
  const open: Connection[] = []
  afterAll(async () => {
    for (const each of open) each.cut()
    await Promise.all(open.map(({ ended }) => ended))
  })

  /** Returns the first events as `TYPE name`. */
  async function told(
    transport: keyof typeof transports,
    address: string,
    count: number,
    user: 'ann' | 'watcher' = 'watcher',
  ): Promise<string[]> {
    const story: string[] = []
    const connection = transports[transport]({
      ...{ url: server.url, address, start: 'present', headers: users.headersOf(user) },
      onEvent(text) {
        const { type, object } = fieldsOf(JSON.parse(text))
        if (type !== 'BOOKMARK') story.push(`${type} ${fieldsOf(fieldsOf(object).metadata).name}`)
      },
    })
    open.push(connection)
    await expect.poll(() => story.length).toBeGreaterThanOrEqual(count)
    return story
  }

  it.each(['lines', 'webSocket', 'events'] as const)(
    'is that watch for a caller who may do nothing but watch, over %s',
    async transport => {
      expect(await told(transport, watched, 2)).toEqual(['ADDED a', 'ADDED b'])
      expect(await told(transport, `${watched}/b`, 1)).toEqual(['ADDED b'])
    },
  )

  it('is of all namespaces, and of kinds of the cluster and of plugins', async () => {
    expect(await told('lines', '/api/v1/watch/configmaps?fieldSelector=metadata.name=a', 1, 'ann')).toEqual([
      'ADDED a',
    ])
    expect(await told('lines', '/api/v1/watch/namespaces/default', 1, 'ann')).toEqual(['ADDED default'])
    const plugins = '/apis/plugins.setpoint.dev/v1/watch/plugins'
    expect(await told('lines', plugins, 2, 'ann')).toEqual(['ADDED routes', 'ADDED watches'])
  })

  it('can be subscribed to on a WebSocket of many watches', async () => {
    const socket = await Multiplexed.open(server.url, '/apis', users.headersOf('watcher'))
    socket.subscribe('x', watched)
    await expect.poll(() => socket.messages.length).toBeGreaterThanOrEqual(2)
    expect(socket.messages.slice(0, 2).map(({ type, name }) => `${type} ${name}`)).toEqual([
      'ADDED a',
      'ADDED b',
    ])
    await socket.close()
  })

  it('is a watch to roles and the audit log', async () => {
    const refused = await users.api(server.url, 'reader').get(watched)
    expect(refusalOf(refused, 403).message).toContain('cannot watch resource "configmaps"')
    const { verb, objectRef, requestURI } = await trail.end(refused)
    expect({ verb, objectRef, requestURI }).toEqual({
      verb: 'watch',
      objectRef: { resource: 'configmaps', namespace: 'default', apiVersion: 'v1' },
      requestURI: watched,
    })
    const { status } = await refusedWatch(server.url, watched, users.headersOf('reader'))
    expect(status).toBe(403)
  })

  it('takes no other method, and names no subresource and no kind that is not served', async () => {
    refusalOf(await ann.post(watched, { metadata: { name: 'c' } }), 400)
    refusalOf(await ann.delete(`${watched}/a`), 400)
    refusalOf(await ann.get('/api/v1/watch/namespaces/default/status'), 404)
    refusalOf(await ann.get('/api/v1/watch/namespaces/default/pods'), 404)
    refusalOf(await ann.get('/api/v1/watch'), 404)
  })

  it('is that of a kind whose plural is watch, and of a route below /watch', async () => {
    const apiVersion = 'watches.example.com/v1'
    const things = { apiVersion, kind: 'Watch', metadata: { name: 'things' } }
    objectOf(await ann.post(`/apis/${apiVersion}/watch`, things), 201)
    expect(objectOf(await ann.get(`/apis/${apiVersion}/watch/things`)).metadata.name).toBe('things')
    const route = await ann.get('/apis/routes.example.com/v1/watch/things')
    expect([route.status, route.body]).toEqual([200, { what: 'things' }])
  })
})

describe('the parameter timeout', () => {
  const paths = ['/version', '/readyz', '/apis', '/openapi/v3', configMaps, `${configMaps}/a`]

  it.each(['invalid', '5', '.s', '-', 's', '1s1', '1 s'])('%j is 400 on every path', async timeout => {
    for (const path of paths) {
      const { message } = refusalOf(await ann.get(`${path}?timeout=${encodeURIComponent(timeout)}`), 400)
      expect(message).toBe(
        `invalid timeout specified in the request URL - time: invalid duration ${JSON.stringify(timeout)}`,
      )
    }
  })

  it.each(['', '0', '0s', '34s', '1h1m1.5s', '.5m', '1.s', '+1µs'])('may be %j', async timeout => {
    for (const path of paths)
      expect((await ann.get(`${path}?timeout=${encodeURIComponent(timeout)}`)).status).toBe(200)
  })

  it("belongs to the plugin in the query of a plugin's route", async () => {
    const path = '/apis/routes.example.com/v1/watch/things'
    expect((await ann.get(`${path}?timeout=never`)).status).toBe(200)
  })
})

describe('a client that accepts nothing but protobuf', () => {
  const accept = 'application/vnd.kubernetes.protobuf;type=core.v1.ConfigMap'
  const protobuf = 'application/vnd.kubernetes.protobuf'

  /** Sends a request as Ann. Returns the object in a protobuf response. */
  async function ask(method: string, path: string, body?: object, headers: Record<string, string> = {}) {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: { ...users.headersOf('ann'), accept, 'content-type': 'application/json', ...headers },
      ...(body && { body: JSON.stringify(body) }),
    })
    expect(response.headers.get('content-type')).toBe(protobuf)
    const bytes = Buffer.from(await response.arrayBuffer())
    return { status: response.status, object: decodeProtobuf(bytes, { apiVersion: 'v1', kind: 'ConfigMap' }) }
  }

  it('gets objects, reviews and errors in it', async () => {
    const made = await ask('POST', configMaps, { metadata: { name: 'p' }, data: { a: '1' } })
    expect(made).toMatchObject({ status: 201, object: { metadata: { name: 'p' }, data: { a: '1' } } })
    const changed = await ask('PUT', `${configMaps}/p`, { metadata: { name: 'p' }, data: { a: '2' } })
    expect(changed).toMatchObject({ status: 200, object: { data: { a: '2' } } })
    expect((await ask('GET', `${configMaps}/p`)).object).toEqual(changed.object)
    const review = await ask('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', {
      spec: { nonResourceAttributes: { path: '/', verb: 'get' } },
    })
    expect(review.object).toMatchObject({ kind: 'SelfSubjectAccessReview', status: { allowed: true } })
    const secret = { metadata: { name: 'p' } }
    expect((await ask('POST', '/api/v1/namespaces/default/secrets', secret)).status).toBe(201)
    const removed = await ask('DELETE', '/api/v1/namespaces/default/secrets/p')
    expect(removed.object).toMatchObject({ kind: 'Status', status: 'Success', details: { name: 'p' } })
    for (const [code, method, path, headers] of [
      [404, 'GET', `${configMaps}/nobody`, {}],
      [401, 'GET', configMaps, { authorization: 'Bearer wrong' }],
      [403, 'GET', configMaps, { 'impersonate-user': 'nobody' }],
      // Custom kinds have no protobuf.
      [406, 'GET', '/apis/watches.example.com/v1/watch', {}],
    ] as const) {
      const { status, object } = await ask(method, path, undefined, headers)
      expect([status, object]).toEqual([code, expect.objectContaining({ kind: 'Status', code })])
    }
  })

  it('is in the audit log as a client of JSON', async () => {
    const answer = await ann.get(`${configMaps}/nobody`, { headers: { accept } })
    const { responseStatus } = await trail.end(answer)
    expect(responseStatus).toMatchObject({ code: 404, reason: 'NotFound' })
  })

  it.each([
    ['application/vnd.kubernetes.protobuf,application/json', 200, 'application/json'],
    ['application/vnd.kubernetes.protobuf, */*;q=0.1', 200, 'application/json'],
    ['application/vnd.kubernetes.protobuf', 200, protobuf],
    ['application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io', 406, 'application/json'],
    ['application/vnd.kubernetes.protobuf;q=0', 406, 'application/json'],
  ])('%s is %i and %s', async (accept, status, type) => {
    const answer = await ann.get(`${configMaps}?limit=1`, { headers: { accept } })
    expect([answer.status, answer.headers.get('content-type')]).toEqual([status, type])
  })

  it('gets a watch over HTTP in frames, and none over a WebSocket', async () => {
    const abort = new AbortController()
    const url = `${server.url}${configMaps}?watch=true&fieldSelector=metadata.name=a`
    const headers = { ...users.headersOf('ann'), accept }
    const response = await fetch(url, { headers, signal: abort.signal })
    expect(response.headers.get('content-type')).toBe(`${protobuf};stream=watch`)
    const { value } = (await response.body?.getReader().read()) ?? {}
    const frame = Buffer.from(value ?? [])
    const event = frame.subarray(4, 4 + frame.readUInt32BE())
    // The first field is the type.
    expect(event.subarray(0, 7)).toEqual(Buffer.from('\n\u0005ADDED'))
    abort.abort()
    expect((await refusedWatch(server.url, configMaps, headers)).status).toBe(406)
  })
})

it.each(['Table', 'PartialObjectMetadata'])('a review as nothing but %s is 406', async as => {
  const reviews = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
  const body = { spec: { nonResourceAttributes: { path: '/', verb: 'get' } } }
  const accept = `application/json;as=${as};v=v1;g=meta.k8s.io`
  refusalOf(await ann.post(reviews, body, { headers: { accept } }), 406)
  const either = await ann.post(reviews, body, { headers: { accept: `${accept},application/json` } })
  expect([either.status, fieldsOf(either.body).kind]).toEqual([201, 'SelfSubjectAccessReview'])
})
