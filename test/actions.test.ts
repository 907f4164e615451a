import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { AuditTrail } from './support/audit.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { writePlugin } from './support/plugins.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { eventually } from './support/worlds.ts'

/** Actions of a plugin's kinds, in the program with users and roles. */

const group = 'shop.example.com'
const base = `/apis/${group}/v1`
const objectAt = (namespace: string, name: string) => `${base}/namespaces/${namespace}/databases/${name}`

const plugin = {
  'index.js': `
import { ApiError, defineModel, definePlugin } from '@setpoint/controller-runtime'

const spec = { type: 'object' }
const names = { group: '${group}', version: 'v1', scope: 'Namespaced', schema: { spec } }
const Database = defineModel({
  ...names, kind: 'Database', singular: 'database', plural: 'databases',
  versions: [{ name: 'v1beta1', deprecated: 'use v1', schema: { spec }, toHub: () => ({ spec: {} }), fromHub: () => ({ spec: {} }) }],
})
const Key = defineModel({ ...names, kind: 'Key', singular: 'key', plural: 'keys', sensitive: true })

export default definePlugin({
  name: 'shop',
  models: [Database, Key],
  setup(plugin) {
    plugin.action(Database, 'backup', {
      summary: 'Copies the database.',
      input: { type: 'object', required: ['to'], properties: { to: { type: 'string', enum: ['a', 'full', 'as'] } } },
      output: { type: 'object', properties: { user: { type: 'string' }, apiVersion: { type: 'string' } } },
      async run({ object, input, user, client }) {
        if (input.to === 'full') throw new ApiError('TooManyRequests', 'the bucket is full')
        if (input.to === 'as') await client.as(user).delete(Database, 'a/' + object.metadata.name)
        return { user: user.name, apiVersion: object.apiVersion }
      },
    })
    plugin.action(Key, 'rotate', {
      input: { type: 'object', properties: { seed: { type: 'string' } } },
      run() {},
    })
    plugin.action(Key, 'echo', { input: { type: 'object' }, output: { type: 'object' }, run: ({ input }) => input })
    plugin.action(Key, 'closed', { input: { type: 'object', additionalProperties: false }, run() {} })
  },
})
`,
}

let folder: string
let dir: string
let users: Users<'ann' | 'bob'>
let server: RunningServer
let trail: AuditTrail
let ann: Api
let bob: Api

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-actions-'))
  dir = await writePlugin(plugin)
  users = await Users.make({ ann: ['setpoint:admins'], bob: [] })
  trail = new AuditTrail(join(folder, 'audit.log'))
  server = await startSharedServer({ plugins: [dir], args: [...users.args, '--audit-log', trail.path] })
  ann = users.api(server.url, 'ann')
  bob = users.api(server.url, 'bob')
  const rbac = '/apis/rbac.authorization.k8s.io/v1'
  for (const name of ['a', 'b']) objectOf(await ann.post('/api/v1/namespaces', { metadata: { name } }), 201)
  for (const [kind, namespace, name] of [
    ['Database', 'a', 'db'],
    ['Database', 'b', 'db'],
    ['Key', 'a', 'k'],
  ]) {
    const body = { apiVersion: `${group}/v1`, kind, metadata: { name }, spec: {} }
    objectOf(await ann.post(`${base}/namespaces/${namespace}/${kind?.toLowerCase()}s`, body), 201)
  }
  const rules = [{ apiGroups: [group], resources: ['databases/backup'], verbs: ['create'] }]
  objectOf(await ann.post(`${rbac}/namespaces/a/roles`, { metadata: { name: 'backup' }, rules }), 201)
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'backup' }
  const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'bob' }]
  const binding = { metadata: { name: 'backup' }, roleRef, subjects }
  objectOf(await ann.post(`${rbac}/namespaces/a/rolebindings`, binding), 201)
  await eventually(async () => expect((await backup(bob)).status).toBe(200))
})
afterAll(async () => {
  await server?.stop()
  await users?.remove()
  await Promise.all([folder, dir].map(each => rm(each, { recursive: true, force: true })))
})

const backup = (api: Api, to = 'a', namespace = 'a') =>
  api.post(`${objectAt(namespace, 'db')}/backup`, { to })

it('runs for those whom a role in the namespace allows to create the subresource', async () => {
  const answer = await backup(bob)
  expect(answer).toMatchObject({ status: 200, body: { user: 'bob', apiVersion: `${group}/v1` } })
  const refused = refusalOf(await backup(bob, 'a', 'b'), 403)
  expect(refused.message).toContain('cannot create resource "databases/backup"')
  refusalOf(await bob.get(objectAt('a', 'db')), 403)
  expect((await backup(ann, 'a', 'b')).status).toBe(200)
})

it("acts for its caller with the caller's rights", async () => {
  const { message } = refusalOf(await backup(bob, 'as'), 403)
  expect(message).toContain('"bob" cannot delete')
})

it('responds with the status of an ApiError that it throws', async () => {
  expect(refusalOf(await backup(bob, 'full'), 429).message).toBe('the bucket is full')
})

it('gets fields that its input does not declare, unless the input is closed', async () => {
  const at = `${base}/namespaces/a/keys/k`
  const passed = await ann.post(`${at}/echo?fieldValidation=Strict`, { more: 1 })
  expect(passed).toMatchObject({ status: 200, body: { more: 1 } })
  expect(passed.headers.get('warning')).toBe(null)
  expect(refusalOf(await ann.post(`${at}/closed`, { more: 1 }), 422).causes).toMatchObject([
    { field: 'more' },
  ])
})

it('is not found without its namespace, and the error says where it is', async () => {
  expect(refusalOf(await ann.post(`${base}/keys/k/rotate`, {}), 404).message).toBe(
    `nothing is served at ${base}/keys/k/rotate: keys are in namespaces, at .../namespaces/<namespace>/keys/<name>/rotate`,
  )
  const { message } = refusalOf(await ann.post(`${base}/keys/k/rotat`, {}), 404)
  expect(message).toBe(`nothing is served at ${base}/keys/k/rotat`)
})

it('refuses other methods, dry runs, other types and duplicate fields', async () => {
  const path = `${objectAt('a', 'db')}/backup`
  const other = await ann.get(path)
  refusalOf(other, 405)
  expect(other.headers.get('allow')).toBe('POST')
  expect(refusalOf(await ann.post(`${path}?dryRun=All`, { to: 'a' }), 400).message).toContain(
    'takes no dryRun',
  )
  const type = { headers: { 'content-type': 'text/plain' } }
  refusalOf(await ann.post(path, { to: 'a' }, type), 415)
  refusalOf(await ann.request('POST', path, '{"to":"a","to":"full"}'), 400)
  expect(refusalOf(await ann.post(path, { to: 'x' }), 422).causes).toMatchObject([{ field: 'to' }])
  refusalOf(await ann.post(`${objectAt('a', 'db')}/restore`, {}), 404)
  refusalOf(await ann.post(`${objectAt('a', 'nowhere')}/backup`, { to: 'a' }), 404)
})

it('is served in every version of the kind, with the object at the hub', async () => {
  const path = objectAt('a', 'db').replace('/v1/', '/v1beta1/')
  const answer = await ann.post(`${path}/backup`, { to: 'a' })
  expect(answer.body).toMatchObject({ apiVersion: `${group}/v1` })
  expect(answer.headers.get('warning')).toContain('use v1')
})

it('is in discovery and in the API documents', async () => {
  const { resources } = fieldsOf((await ann.get(base)).body)
  const found = arrayOf(resources).filter(each => fieldsOf(each).name === 'databases/backup')
  expect(found).toEqual([
    { name: 'databases/backup', singularName: '', namespaced: true, kind: '', verbs: ['create'] },
  ])
  const { paths } = fieldsOf((await ann.get(`/openapi/v3${base}`)).body)
  const at = fieldsOf(fieldsOf(paths)[`${base}/namespaces/{namespace}/databases/{name}/backup`])
  expect(at.post).toMatchObject({
    operationId: 'createShopExampleComV1NamespacedDatabaseBackup',
    summary: 'Copies the database.',
    requestBody: { required: true, content: { 'application/json': { schema: { required: ['to'] } } } },
    responses: { '200': { content: { 'application/json': { schema: { properties: { user: {} } } } } } },
    'x-kubernetes-action': 'post',
    'x-kubernetes-group-version-kind': { group, version: 'v1', kind: 'Database' },
  })
})

it('is audited, without the bodies of a sensitive kind', async () => {
  const done = await ann.post(`${base}/namespaces/a/keys/k/rotate`, { seed: 'hidden' })
  expect(done).toMatchObject({ status: 204, text: '' })
  const event = await trail.end(done)
  expect(event).toMatchObject({
    verb: 'create',
    objectRef: { resource: 'keys', subresource: 'rotate', namespace: 'a', name: 'k' },
  })
  expect(await trail.text()).not.toContain('hidden')
})

it('responds with 503 while its plugin is disabled', async () => {
  const enable = (enabled: boolean) =>
    ann.request(
      'PATCH',
      `${pluginsPath}/shop`,
      { spec: { enabled } },
      {
        headers: { 'content-type': 'application/merge-patch+json' },
      },
    )
  objectOf(await enable(false))
  await eventually(async () => {
    const { message } = refusalOf(await backup(ann), 503)
    expect(message).toContain('disabled')
  })
  objectOf(await enable(true))
  await eventually(async () => expect((await backup(ann)).status).toBe(200))
})
