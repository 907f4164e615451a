import { once } from 'node:events'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { type AuditEvent, AuditTrail, readEvent } from './support/audit.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { devicesOf, itemsOf, vaultsOf } from './support/kinds.ts'
import { Multiplexed } from './support/multiplex.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { runProgram, type ServerProcess, startServer } from './support/server.ts'
import { transports } from './support/transports.ts'
import { Users } from './support/users.ts'
import { refusedWatch } from './support/watch.ts'
import { copyFixture } from './support/worlds.ts'

const group = 'items.example.com'
const policy = `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  nonResourceURLs: [/livez]
- level: RequestResponse
  omitManagedFields: true
  resources: [{ group: ${group}, resources: [items] }, { group: safes.example.com }, { group: writer.example.com }, { group: '' }, { group: authentication.k8s.io }]
- level: Request
  resources: [{ group: ${group}, resources: [devices, devices/status] }]
- level: Metadata
  resources: [{ group: ${group} }]
- level: Metadata
  omitStages: [RequestReceived]
`

let folder: string
let users: Users<'admin' | 'viewer' | 'member'>
let server: ServerProcess
let api: Api
let viewer: Api
let trail: AuditTrail
const plugins: string[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-audited-'))
  await writeFile(join(folder, 'policy.yaml'), policy)
  const writer = pluginModule('writer', {
    setup: `
      plugin.runnable('writer', async ({ client }) => { await client.create(Thing, { metadata: { name: 'made' }, spec: { text: 'a' } }) })
      plugin.routes('api.writer.example.com/v1', r => r
        .post('/echoes', ({ body }) => ({ body: { echoed: body } }))
        .get('/echoes/:name', () => ({ body: 'text' }))
        .get('/silences/:name', ({ log }) => { log.info({}, 'a silent request'); return new Promise(() => {}) }))`,
  })
  plugins.push(await copyFixture('items-plugin'), await copyFixture('safe-plugin'))
  const shipped = `apiVersion: writer.example.com/v1\nkind: Thing\nmetadata: { name: shipped }\nspec: { text: a }\n`
  const foreign = `apiVersion: ${group}/v1\nkind: Vault\nmetadata: { name: foreign }\nspec: { key: a }\n`
  const files = { 'index.js': writer, 'resources/extensions/a.yaml': `${shipped}---\n${foreign}` }
  plugins.push(await writePlugin(files))
  users = await Users.make({ admin: ['setpoint:admins'], viewer: ['setpoint:viewers'], member: ['team'] })
  trail = new AuditTrail(join(folder, 'audit.log'))
  server = await startServer({
    plugins,
    args: [...users.args, '--audit-log', trail.path, '--audit-policy', join(folder, 'policy.yaml')],
  })
  api = users.api(server.url, 'admin')
  viewer = users.api(server.url, 'viewer')
})
afterAll(async () => {
  await server?.stop()
  await users?.remove()
  for (const dir of [folder, ...plugins]) await rm(dir, { recursive: true, force: true })
})

/** Returns the stages of a request, with the bodies that they have. */
function story(events: readonly AuditEvent[]): string[] {
  return events.map(({ stage, requestObject, responseObject }) =>
    [stage, requestObject && 'request', responseObject && 'response'].filter(Boolean).join(' '),
  )
}

/** The annotations of Kubernetes about a request that was allowed. */
const allowedBy = (reason: string) => ({
  'authorization.k8s.io/decision': 'allow',
  'authorization.k8s.io/reason': reason,
})
const forbidden = { 'authorization.k8s.io/decision': 'forbid', 'authorization.k8s.io/reason': '' }

describe('a request', () => {
  it('has an event with all that Kubernetes says about it', async () => {
    const headers = {
      'user-agent': 'tester/1.0',
      'x-forwarded-for': '10.1.2.3, nonsense',
      'x-real-ip': '10.1.2.3',
    }
    const answer = await vaultsOf(api).api.post(
      `${vaultsOf(api).path}?fieldManager=me&access_token=hidden&b`,
      vaultsOf(api).body('full', { key: 'a' }),
      { headers },
    )
    expect(answer.status).toBe(201)
    const [received, complete] = await trail.of(answer)
    expect(complete?.raw).toEqual({
      kind: 'Event',
      apiVersion: 'audit.k8s.io/v1',
      level: 'Metadata',
      auditID: answer.headers.get('audit-id'),
      stage: 'ResponseComplete',
      requestURI: `/apis/${group}/v1/vaults?fieldManager=me&access_token=[secret]&b`,
      verb: 'create',
      user: { username: 'admin', groups: expect.arrayContaining(['setpoint:admins']) },
      sourceIPs: ['10.1.2.3', '127.0.0.1'],
      userAgent: 'tester/1.0',
      objectRef: { resource: 'vaults', name: 'full', apiGroup: group, apiVersion: 'v1' },
      responseStatus: { metadata: {}, code: 201 },
      requestReceivedTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      stageTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/),
      annotations: allowedBy('allowed by the built-in group "setpoint:admins"'),
    })
    const page = await readFile(new URL('../docs/operations/audit.md', import.meta.url), 'utf8')
    const documented = JSON.parse(/^```json\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? '')
    expect(Object.keys(complete?.raw ?? {})).toEqual(Object.keys(documented))
    expect(received).toMatchObject({ stage: 'RequestReceived', verb: 'create' })
    expect(received?.raw.stageTimestamp).toBe(received?.raw.requestReceivedTimestamp)
    expect(received?.responseStatus).toBeUndefined()
  })

  it('names the binding that allows it', async () => {
    const rbac = 'rbac.authorization.k8s.io'
    const rules = [{ verbs: ['list'], apiGroups: [group], resources: ['vaults'] }]
    const member = users.api(server.url, 'member')
    const refused = await trail.end(await member.get(vaultsOf(api).path))
    expect([refused.responseStatus?.code, refused.annotations]).toEqual([403, forbidden])
    const role = await api.post(`/apis/${rbac}/v1/clusterroles`, { metadata: { name: 'lister' }, rules })
    const roleRef = { apiGroup: rbac, kind: 'ClusterRole', name: 'lister' }
    const subjects = [{ apiGroup: rbac, kind: 'Group', name: 'team' }]
    const bindings = `/apis/${rbac}/v1/clusterrolebindings`
    const binding = await api.post(bindings, { metadata: { name: 'team-lists' }, roleRef, subjects })
    expect([role.status, binding.status]).toEqual([201, 201])
    expect((await trail.end(await member.get(vaultsOf(api).path))).annotations).toEqual(
      allowedBy('RBAC: allowed by ClusterRoleBinding "team-lists" of ClusterRole "lister" to Group "team"'),
    )
  })

  it('keeps the Audit-ID that its client gives, if it is one', async () => {
    const given = await api.get('/version', { headers: { 'audit-id': 'from-the-client.1' } })
    expect((await trail.end(given)).auditID).toBe('from-the-client.1')
    const odd = await api.get('/version', { headers: { 'audit-id': 'a b' } })
    expect((await trail.end(odd)).auditID).toMatch(/^[0-9a-f-]{36}$/)
  })

  it('of the level RequestResponse has both bodies, as JSON', async () => {
    const items = itemsOf(api)
    const yaml = `apiVersion: ${group}/v1\nkind: Item\nmetadata: { name: both }\nspec: { title: one }\n`
    const created = await api.post(items.path, yaml, { type: 'application/yaml' })
    expect(story(await trail.of(created))).toEqual(['RequestReceived', 'ResponseComplete request response'])
    const { requestObject, responseObject } = await trail.end(created)
    expect(requestObject).toEqual(items.body('both', { title: 'one' }))
    expect(responseObject).toEqual(objectOf(created, 201).raw)

    const read = await trail.end(await api.get(items.at('both')))
    expect(read).toMatchObject({ verb: 'get', responseObject: { kind: 'Item' } })
    expect(read.requestObject).toBeUndefined()
    const list = await trail.end(await api.get(items.path))
    expect(list).toMatchObject({ verb: 'list', responseObject: { kind: 'ItemList' } })
    const patch = [{ op: 'replace', path: '/spec/title', value: 'two' }]
    expect(await trail.end(await api.jsonPatch(items.at('both'), patch))).toMatchObject({
      verb: 'patch',
      requestObject: patch,
      responseObject: { spec: { title: 'two' } },
    })
    const refused = await trail.end(
      await api.mergePatch(items.at('both'), { spec: { title: 'x'.repeat(20) } }),
    )
    expect(refused).toMatchObject({
      requestObject: { spec: { title: 'x'.repeat(20) } },
      responseStatus: {
        status: 'Failure',
        reason: 'Invalid',
        code: 422,
        details: { kind: 'Item', name: 'both' },
      },
      responseObject: { kind: 'Status', code: 422 },
    })
    const options = { propagationPolicy: 'Background' }
    expect(await trail.end(await api.delete(items.at('both'), options))).toMatchObject({
      verb: 'delete',
      requestObject: options,
    })
    expect(await trail.end(await api.delete(`${items.path}?labelSelector=none`))).toMatchObject({
      verb: 'deletecollection',
    })
  })

  it('of the level Request has the body of the request', async () => {
    const devices = devicesOf(api)
    const created = await api.post(devices.path, devices.body('one', { size: 1 }))
    expect(story(await trail.of(created))).toEqual(['RequestReceived', 'ResponseComplete request'])
    const status = await api.mergePatch(`${devices.at('one')}/status`, { status: { phase: 'Up' } })
    expect(await trail.end(status)).toMatchObject({
      objectRef: { resource: 'devices', name: 'one', subresource: 'status' },
      requestObject: { status: { phase: 'Up' } },
    })
  })

  it('of the level Metadata has no body, and of the level None no event', async () => {
    const silent = await api.get('/livez')
    const vaults = vaultsOf(api)
    const created = await api.post(vaults.path, vaults.body('bare', { key: 'a' }))
    expect(story(await trail.of(created))).toEqual(['RequestReceived', 'ResponseComplete'])
    const id = silent.headers.get('audit-id')
    expect((await trail.events()).some(({ auditID }) => auditID === id)).toBe(false)
    expect(story(await trail.of(await api.get('/version')))).toEqual(['ResponseComplete'])
  })

  it('has no body that is too large, and says so', async () => {
    const items = itemsOf(api)
    const large = items.body('large', {}, { annotations: { a: 'x'.repeat(150_000) } })
    const event = await trail.end(await api.post(items.path, large))
    expect(story([event])).toEqual(['ResponseComplete'])
    expect(event.annotations['audit.k8s.io/truncated']).toBe('true')
    const uri = `${items.path}?labelSelector=${'x'.repeat(5_000)}`
    expect((await trail.end(await api.get(uri))).requestURI).toHaveLength(2_049)
  })

  it('has no managed fields, if the policy omits them', async () => {
    const items = itemsOf(api)
    const type = 'application/apply-patch+yaml'
    const applied = await api.request(
      'PATCH',
      `${items.at('managed')}?fieldManager=m`,
      items.body('managed', {}),
      { type },
    )
    expect(applied.text).toContain('managedFields')
    expect((await trail.end(applied)).responseObject).toMatchObject({ metadata: { name: 'managed' } })
    const list = await trail.end(await api.get(items.path))
    expect(JSON.stringify(list.raw)).not.toContain('managedFields')
  })

  it('for a route of a plugin is named as Kubernetes names its path', async () => {
    const path = '/apis/api.writer.example.com/v1/echoes'
    expect(await trail.end(await api.post(path, { a: 1 }))).toMatchObject({
      verb: 'create',
      objectRef: { apiGroup: 'api.writer.example.com', apiVersion: 'v1', resource: 'echoes' },
      responseStatus: { code: 200 },
    })
    expect(await trail.end(await api.get(`${path}/a`))).toMatchObject({
      verb: 'get',
      objectRef: { resource: 'echoes', name: 'a' },
    })
  })

  it('for a route that never responds is complete when its client has left', async () => {
    const left = new AbortController()
    const headers = { 'audit-id': 'silence' }
    const answer = api.get('/apis/api.writer.example.com/v1/silences/a', { headers, signal: left.signal })
    await expect.poll(() => server.stderr()).toContain('a silent request')
    left.abort()
    await expect(answer).rejects.toThrow()
    const [complete, ...more] = await trail.until(({ auditID }) => auditID === 'silence')
    expect(complete).toMatchObject({ stage: 'ResponseComplete', verb: 'get', responseStatus: undefined })
    expect(more).toEqual([])
  })

  it('of a plugin in the server is recorded with the name of the plugin', async () => {
    const events = await trail.until(({ objectRef, verb }) => objectRef?.name === 'made' && verb === 'create')
    expect(events.at(-1)).toMatchObject({
      level: 'RequestResponse',
      user: { username: 'setpoint:plugin:writer' },
      objectRef: { resource: 'things', name: 'made', apiGroup: 'writer.example.com' },
      requestObject: { metadata: { name: 'made' } },
      responseStatus: { code: 201 },
      annotations: allowedBy('the kind belongs to the plugin'),
    })
  })
})

describe('a write of the server itself', () => {
  const eventsOf = (verb: string, ref: object) =>
    trail.until(
      ({ objectRef, ...event }) =>
        event.verb === verb && Object.entries(ref).every(([key, value]) => objectRef?.[key] === value),
    )
  const reason = 'the server may do everything'
  const byServer = { username: 'setpoint:server', groups: ['setpoint:admins'] }

  it('is recorded with the user setpoint:server', async () => {
    const created = await eventsOf('create', { resource: 'namespaces', name: 'default' })
    expect(created.at(-1)).toMatchObject({
      requestURI: '/api/v1/namespaces',
      user: byServer,
      requestObject: { metadata: { name: 'default' } },
      responseStatus: { code: 201 },
      responseObject: { kind: 'Namespace', metadata: { name: 'default' } },
      annotations: allowedBy(reason),
    })
    const [role] = await eventsOf('create', { resource: 'clusterroles', name: 'view' })
    expect(role).toMatchObject({ user: byServer, responseStatus: { code: 201 } })
    const states = await eventsOf('patch', { resource: 'plugins', name: 'writer', subresource: 'status' })
    expect(states.at(-1)).toMatchObject({ user: byServer, responseStatus: { code: 200 } })
  })

  it('that empties a namespace is recorded for each object', async () => {
    const core = '/api/v1/namespaces'
    await api.post(core, { metadata: { name: 'ending' } })
    await api.post(`${core}/ending/configmaps`, { metadata: { name: 'left' } })
    await api.delete(`${core}/ending`)
    const [deletion] = await eventsOf('delete', { resource: 'configmaps', namespace: 'ending', name: 'left' })
    expect(deletion).toMatchObject({ user: byServer, requestURI: `${core}/ending/configmaps/left` })
    const [end] = await eventsOf('patch', { resource: 'namespaces', name: 'ending', subresource: 'finalize' })
    expect(end).toMatchObject({ user: byServer, objectRef: { namespace: 'ending' } })
  })

  it('of an object that a plugin ships is recorded with the plugin, also if it is forbidden', async () => {
    const user = { username: 'setpoint:plugin:writer' }
    const [created] = await eventsOf('create', { resource: 'things', name: 'shipped' })
    expect(created).toMatchObject({
      user,
      responseStatus: { code: 201 },
      annotations: allowedBy('the kind belongs to the plugin'),
    })
    const events = await trail.until(
      ({ objectRef, user: by }) => objectRef?.resource === 'vaults' && by.username === user.username,
    )
    expect(events.at(-1)).toMatchObject({
      verb: 'create',
      responseStatus: { code: 403 },
      annotations: forbidden,
    })
  })
})

it('a request that impersonates has both users', async () => {
  const headers = { 'impersonate-user': 'eve', 'impersonate-group': 'setpoint:viewers' }
  const allowed = await trail.end(await api.get(vaultsOf(api).path, { headers }))
  expect(allowed).toMatchObject({ user: { username: 'admin' }, responseStatus: { code: 200 } })
  const groups = ['setpoint:viewers', 'system:authenticated']
  expect(allowed.raw.impersonatedUser).toEqual({ username: 'eve', groups })
  const refused = await trail.end(
    await api.post(vaultsOf(api).path, vaultsOf(api).body('eve', {}), { headers }),
  )
  expect(refused).toMatchObject({
    user: { username: 'admin' },
    responseStatus: { code: 403 },
    annotations: forbidden,
  })
})

it('a request that may not impersonate has its caller only, and no decision about what it asks for', async () => {
  const headers = { 'impersonate-user': 'eve' }
  const path = vaultsOf(api).path
  const answer = await viewer.get(path, { headers })
  expect(refusalOf(answer, 403).message).toContain('cannot impersonate resource')
  const socket = await refusedWatch(server.url, path, { ...headers, ...users.headersOf('viewer') })
  for (const refused of [answer, socket]) {
    const event = await trail.end(refused)
    expect(event).toMatchObject({
      user: { username: 'viewer', groups: expect.arrayContaining(['setpoint:viewers']) },
      objectRef: { resource: 'vaults', apiGroup: group, apiVersion: 'v1' },
      responseStatus: { code: 403 },
      annotations: {},
    })
    expect(event.raw).not.toHaveProperty('impersonatedUser')
    expect(event.raw).not.toHaveProperty('annotations')
  }
})

describe('a refused request', () => {
  it.each<[string, () => Promise<Answer>, number, object]>([
    ['without a token', () => new Api(server.url).get(itemsOf(api).path), 401, { user: {}, verb: 'list' }],
    [
      'that no role allows',
      () => viewer.post(vaultsOf(api).path, vaultsOf(api).body('no', { key: 'a' })),
      403,
      { user: { username: 'viewer' }, annotations: forbidden },
    ],
    ['for a path that is not served', () => api.get('/nowhere'), 404, { verb: 'get' }],
    [
      'for an object that does not exist',
      () => api.get(vaultsOf(api).at('missing')),
      404,
      { objectRef: { resource: 'vaults', name: 'missing' } },
    ],
    ['with another method', () => api.put('/version', {}), 405, { verb: 'put' }],
    [
      'with a method that no object has',
      () => api.request('OPTIONS', vaultsOf(api).at('a')),
      405,
      { verb: 'options', objectRef: { resource: 'vaults', name: 'a' } },
    ],
    [
      'with a malformed path',
      () => api.get(`${vaultsOf(api).path}/%zz`),
      400,
      { user: { username: 'admin' } },
    ],
    ['with a malformed query', () => api.get('/version?a=%zz'), 400, {}],
    ['with a malformed body', () => api.post(itemsOf(api).path, '{'), 400, { verb: 'create' }],
  ])('%s is recorded', async (_case, send, code, expected) => {
    const answer = await send()
    refusalOf(answer, code)
    const event = await trail.end(answer)
    expect(event).toMatchObject({ responseStatus: { code, status: 'Failure' }, ...expected })
    expect(event.requestObject).toBeUndefined()
  })

  it.each<[string, string, 'admin' | undefined, number]>([
    ['without a token', `/apis/${group}/v1/vaults?a=1`, undefined, 401],
    ['for a kind that is not served', `/apis/${group}/v1/nothing?a=2`, 'admin', 404],
    ['with an unknown selector', `/apis/${group}/v1/vaults?fieldSelector=a%3D3`, 'admin', 400],
  ])('for a WebSocket %s is recorded', async (_case, path, user, code) => {
    const headers = user === undefined ? {} : users.headersOf(user)
    const answer = await refusedWatch(server.url, path, headers)
    expect(answer.status).toBe(code)
    expect(await trail.end(answer)).toMatchObject({ requestURI: path, responseStatus: { code } })
  })
})

describe('a watch', () => {
  it.each(['webSocket', 'lines', 'events'] as const)(
    'over %s has an event when it starts and when it ends',
    async transport => {
      const address = `/apis/${group}/v1/vaults?labelSelector=run%3D${transport}`
      const connection = transports[transport]({
        url: server.url,
        address,
        start: 'present',
        headers: users.headersOf('admin'),
        onEvent: () => {},
      })
      const isOfWatch = ({ requestURI }: AuditEvent) => requestURI.includes(`run%3D${transport}`)
      await expect
        .poll(async () => (await trail.events()).filter(isOfWatch).map(({ stage }) => stage))
        .toEqual(['RequestReceived', 'ResponseStarted'])
      connection.cut()
      const code = transport === 'webSocket' ? 101 : 200
      const events = await trail.until(isOfWatch)
      expect(events.map(({ stage }) => stage)).toEqual([
        'RequestReceived',
        'ResponseStarted',
        'ResponseComplete',
      ])
      for (const event of events.slice(1))
        expect(event).toMatchObject({ verb: 'watch', responseStatus: { code } })
      expect(events[0]?.objectRef).toEqual({ resource: 'vaults', apiGroup: group, apiVersion: 'v1' })
    },
  )

  it('over a socket of many has events of its own', async () => {
    const socket = await Multiplexed.open(server.url, '/apis?many', users.headersOf('admin'))
    const path = `/apis/${group}/v1/vaults?labelSelector=run%3Dmany`
    socket.subscribe('a', path)
    await socket.synced('a')
    socket.subscribe('b', `/apis/${group}/v1/nothing`)
    await socket.ends('b')
    socket.unsubscribe('a')
    const events = await trail.until(({ requestURI }) => requestURI === path)
    expect(events.map(({ stage, responseStatus }) => [stage, responseStatus?.code])).toEqual([
      ['RequestReceived', undefined],
      ['ResponseStarted', 200],
      ['ResponseComplete', 200],
    ])
    const refused = await trail.until(
      ({ objectRef, verb }) => objectRef?.resource === 'nothing' && verb === 'watch',
    )
    expect(refused.at(-1)).toMatchObject({ user: { username: 'admin' }, responseStatus: { code: 404 } })
    await socket.close()
    const handshake = await trail.until(({ requestURI }) => requestURI === '/apis?many')
    expect(handshake.map(({ stage, responseStatus }) => [stage, responseStatus?.code])).toEqual([
      ['ResponseStarted', 101],
      ['ResponseComplete', 101],
    ])
  })
})

it('no value of a sensitive kind is in the log, whatever the policy says', async () => {
  const secret = 'top0secret'
  const safes = new Collection(api, 'safes.example.com/v1', 'Safe', 'safes')
  const body = safes.body('safe', { code: secret })
  const answers = [
    await api.post(safes.path, body),
    await api.post(safes.path, safes.body('twin', { code: secret })),
    await api.post(safes.path, safes.body('bad', { code: `${secret}!` })),
    await api.post(safes.path, `{"spec":{"code":"${secret}`),
    await api.get(safes.at('safe')),
    await api.get(`${safes.path}?fieldSelector=spec.code%3D${secret}`),
    await api.get(`${safes.path}?fieldSelector=${secret}%3D1`),
    await api.get(`${safes.path}?watch=${secret}&fieldSelector=spec.code%3D${secret}`),
    await new Api(server.url).get(`${safes.path}?fieldSelector=spec.code%3D${secret}`),
    await api.mergePatch(safes.at('safe'), { spec: { code: secret } }),
    await api.put(safes.at('safe'), body),
    await api.delete(safes.at('safe')),
  ]
  for (const answer of answers) {
    const event = await trail.end(answer)
    expect(story([event])).toEqual(['ResponseComplete'])
    expect(event.level).toBe('Metadata')
  }
  // An object that is sent to the path of another kind is recorded no more than it is stored.
  for (const stray of [body, { apiVersion: 'v1', kind: 'List', items: [body] }]) {
    const strayed = await api.post(itemsOf(api).path, stray)
    refusalOf(strayed, 400)
    expect(story([await trail.end(strayed)])).toEqual(['ResponseComplete response'])
  }
  expect(await trail.text()).not.toContain(secret)
})

it('no Secret and no token of a service account is in the log', async () => {
  const secret = 'c2VjcmV0LW9mLWEtU2VjcmV0'
  const metadata = { name: 'audited' }
  const namespace = '/api/v1/namespaces/default'
  const post = (path: string, body: object) => api.post(path, { metadata, ...body })
  const stored = await post(`${namespace}/secrets`, { kind: 'Secret', apiVersion: 'v1', data: { a: secret } })
  expect(await trail.end(stored)).toMatchObject({ level: 'Metadata', responseStatus: { code: 201 } })
  const account = await post(`${namespace}/serviceaccounts`, { kind: 'ServiceAccount', apiVersion: 'v1' })
  expect(story([await trail.end(account)])).toEqual(['ResponseComplete request response'])
  const apiVersion = 'authentication.k8s.io/v1'
  const requested = await api.post(`${namespace}/serviceaccounts/audited/token`, {
    kind: 'TokenRequest',
    apiVersion,
    spec: {},
  })
  expect(await trail.end(requested)).toMatchObject({
    level: 'Metadata',
    objectRef: { resource: 'serviceaccounts', name: 'audited', subresource: 'token' },
    responseStatus: { code: 201 },
  })
  const token = String(fieldsOf(fieldsOf(requested.body).status).token)
  const review = { kind: 'TokenReview', apiVersion, spec: { token } }
  const reviewed = await api.post(`/apis/${apiVersion}/tokenreviews`, review)
  expect(await trail.end(reviewed)).toMatchObject({ level: 'Metadata', responseStatus: { code: 201 } })
  const text = await trail.text()
  expect(token.length).toBeGreaterThan(100)
  for (const hidden of [secret, token]) expect(text).not.toContain(hidden)
})

it('the metrics count events, drops and levels', async () => {
  const { text } = await api.get('/metrics')
  const countOf = (series: string) =>
    Number(
      text
        .split('\n')
        .find(line => line.startsWith(`${series} `))
        ?.slice(series.length),
    )
  expect(countOf('apiserver_audit_event_total')).toBeGreaterThan(0)
  expect(countOf('apiserver_audit_error_total{plugin="log"}')).toBe(0)
  for (const level of ['None', 'Metadata', 'Request', 'RequestResponse'])
    expect(countOf(`apiserver_audit_level_total{level="${level}"}`)).toBeGreaterThan(0)
})

it('a changed policy is in force within seconds, and an invalid one is not used', async () => {
  const vaults = vaultsOf(api)
  const write = (text: string) => writeFile(join(folder, 'policy.yaml'), text)
  await write(policy.replace('- level: None', '- level: Non'))
  await expect.poll(() => server.stderr()).toContain('failed to reload the audit policy, keeping the old one')
  await expect
    .poll(() => server.stderr())
    .toContain('rules[0].level must be one of None, Metadata, Request, RequestResponse')
  expect(story([await trail.end(await api.get(vaults.path))])).toEqual(['ResponseComplete'])
  await write(policy.replaceAll('level: Metadata', 'level: RequestResponse'))
  await expect.poll(() => server.stderr()).toContain('reloaded the audit policy')
  expect(story([await trail.end(await api.get(vaults.path))])).toEqual(['ResponseComplete response'])
  // Also if the file comes back as it was, the failure is not the last that the log says.
  const recoveries = () =>
    server.stderr().split('loaded the files of --audit-policy after a failure').length - 1
  await expect.poll(recoveries).toBe(1)
  await rename(join(folder, 'policy.yaml'), join(folder, 'away.yaml'))
  await expect.poll(() => server.stderr()).toContain('ENOENT')
  await rename(join(folder, 'away.yaml'), join(folder, 'policy.yaml'))
  await expect.poll(recoveries).toBe(2)
})

describe('without a policy', () => {
  let audited: ServerProcess
  let log: AuditTrail
  let sent: AuditEvent[]
  let isDown = true
  const receiver = createServer(async (request, response) => {
    let body = ''
    for await (const text of request.setEncoding('utf8')) body += text
    if (isDown) response.statusCode = 503
    else sent.push(...arrayOf(JSON.parse(body).items).map(readEvent))
    response.end()
  })

  beforeAll(async () => {
    sent = []
    receiver.listen(0, '127.0.0.1')
    await once(receiver, 'listening')
    const { port } = receiver.address() as AddressInfo
    log = new AuditTrail(join(folder, 'plain.log'))
    const webhook = ['--audit-webhook', `http://127.0.0.1:${port}`]
    audited = await startServer({ args: ['--audit-log', log.path, ...webhook] })
  })
  afterAll(async () => {
    await audited?.stop()
    receiver.closeAllConnections()
    receiver.close()
  })

  it('every request has one event, and a watch one more when it starts', async () => {
    const plain = new Api(audited.url)
    const answers = [await plain.get('/livez'), await plain.get('/nowhere'), await plain.get('/apis')]
    const namespaces = await plain.get('/api/v1/namespaces?watch=true&timeoutSeconds=1')
    for (const answer of answers) expect(story(await log.of(answer))).toEqual(['ResponseComplete'])
    expect(story(await log.of(namespaces))).toEqual(['ResponseStarted', 'ResponseComplete'])
    const [probe] = await log.of(answers[0] ?? namespaces)
    expect(probe).toMatchObject({ level: 'Metadata', user: { username: 'system:anonymous' } })
  })

  it('a webhook that was down gets every event in order, once it is back', async () => {
    const recorded = await log.events()
    expect(sent).toEqual([])
    isDown = false
    await expect.poll(() => sent.length).toBeGreaterThanOrEqual(recorded.length)
    expect(sent.slice(0, recorded.length).map(({ raw }) => raw)).toEqual(recorded.map(({ raw }) => raw))
  })

  it('a killed server leaves whole lines, except for the last, and the next one begins a new line', async () => {
    const plain = new Api(audited.url)
    let isKilled = false
    const load = async () => {
      while (!isKilled) await plain.get('/livez').catch(() => {})
    }
    const loads = Array.from({ length: 8 }, load)
    const before = (await log.events()).length
    await expect.poll(async () => (await log.events()).length).toBeGreaterThan(before + 200)
    await audited.kill()
    isKilled = true
    await Promise.all(loads)
    expect(() => log.events()).not.toThrow()
    expect((await log.events()).length).toBeGreaterThan(before + 200)
    await writeFile(log.path, '{"kind":"Event","cut', { flag: 'a' })
    await audited.restart()
    const answer = await plain.get('/apis')
    const line = (await readFile(log.path, 'utf8')).split('\n').find(each => each.includes('"cut'))
    expect(line).toBe('{"kind":"Event","cut')
    await expect.poll(() => readFile(log.path, 'utf8')).toContain(answer.headers.get('audit-id'))
  })

  it('a second server with the same file does not start, and says who has it', async () => {
    const { code, stdout, stderr } = await runProgram([
      ...['serve', '--listen', '127.0.0.1:0', '--data-dir', join(folder, 'second')],
      ...['--audit-log', log.path],
    ])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(
      new RegExp(
        `^setpoint: the audit log ".*plain.log" is in use by process ${audited.pid} on .*file of its own$`,
        'm',
      ),
    )
  })

  it('a stopped server writes and sends its last events', async () => {
    const answer = await new Api(audited.url).get('/apis')
    const id = answer.headers.get('audit-id')
    expect((await audited.stop()).code).toBe(0)
    expect(await log.text()).toContain(id)
    expect(sent.some(({ auditID }) => auditID === id)).toBe(true)
  })
})

it('a server without an audit log has neither Audit-ID nor metrics of it', async () => {
  const off = await startServer()
  const metrics = await new Api(off.url).get('/metrics')
  expect(metrics.headers.get('audit-id')).toBeNull()
  expect(metrics.text).not.toContain('audit')
  await off.stop()
})
