import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf, type RequestOptions, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { pluginModule, writeFiles, writePlugin } from './support/plugins.ts'
import { type ServerProcess, startServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { eventually } from './support/worlds.ts'

const routesPath = '/apis/console.api.alpha.example.com/v1'
const thingsOf = (plugin: string) => `/apis/${plugin}.example.com/v1/things`

/** A plugin with a kind of its own, whose routes use its client for its own kind and for that of the plugin `beta`. */
const alpha = {
  'index.js': pluginModule('alpha', {
    top: `
const Other = defineModel({
  group: 'beta.example.com', version: 'v1', kind: 'Thing', singular: 'thing', plural: 'things',
  schema: { spec: { type: 'object' } },
})
let kept`,
    setup: `
plugin.routes('console.api.alpha.example.com/v1', r => r
  .get('/checks/own', async ({ client }) => {
    await client.createOrUpdate(Thing, 'mine', () => {})
    return { body: (await client.list(Thing)).items.length }
  })
  .get('/checks/other', async ({ client }) => ({ body: (await client.list(Other)).items.length }))
  .get('/checks/watch-other', async ({ client, signal }) => {
    const watch = await client.watch(Other, { signal })
    watch.close()
    return { body: 'watched' }
  })
  .get('/checks/read-as', async ({ client, user }) => ({ body: (await client.as(user).list(Other)).items.length }))
  .get('/checks/write-as', async ({ client, user }) => {
    kept = client.as(user)
    return { body: (await kept.create(Other, { metadata: { generateName: 'made-' }, spec: {} })).metadata.name }
  })
  .get('/checks/keep', async ({ client, user }) => { kept = client.as(user) })
  .get('/checks/late', async () => ({ body: (await kept.list(Other)).items.length }))
  .get('/checks/forged', async ({ client }) => {
    const user = { name: 'root', groups: ['setpoint:admins'] }
    return { body: (await client.as(user).list(Other)).items.length }
  }))`,
  }),
  'resources/extensions/own.yaml':
    'apiVersion: alpha.example.com/v1\nkind: Thing\nmetadata: { name: shipped }\nspec: {}\n',
  'resources/extensions/other.yaml':
    'apiVersion: beta.example.com/v1\nkind: Thing\nmetadata: { name: shipped }\nspec: {}\n',
}
const beta = { 'index.js': pluginModule('beta') }

const thingOf = (plugin: string, name: string) => ({
  apiVersion: `${plugin}.example.com/v1`,
  kind: 'Thing',
  metadata: { name },
  spec: {},
})

/** Asks for the objects of `beta`, and follows them. */
const gamma = {
  'index.js': pluginModule('gamma', {
    top: `
const Other = defineModel({
  group: 'beta.example.com', version: 'v1', kind: 'Thing', singular: 'thing', plural: 'things',
  schema: { spec: { type: 'object' } },
})
const permissions = [{ apiGroups: ['beta.example.com'], resources: ['things'], verbs: ['list', 'watch'] }]
let watch
const seen = new Set()`,
    setup: `
plugin.controller(Thing, c => c
  .named('reader')
  .watches(Other, other => { seen.add(other.metadata.name) })
  .reconcile(() => {}))
plugin.controller(Thing, c => c.named('own').reconcile(thing => { seen.add(thing.metadata.name) }))
plugin.routes('console.api.gamma.example.com/v1', r => r
  .get('/checks/list', async ({ client }) => ({ body: (await client.list(Other)).items.length }))
  .get('/checks/seen', async () => ({ body: [...seen] }))
  .get('/checks/open', async ({ client }) => { watch = await client.watch(Other, { signal: plugin.signal }) })
  .get('/checks/end', async () => {
    for await (const event of watch) if (event.type === 'ERROR') return { body: event.object.code }
  }))`,
  }).replace('models: [Thing],', 'models: [Thing], permissions,'),
}

describe('a plugin acts as itself', () => {
  let users: Users<'ann' | 'vic'>
  let plugins: readonly string[]
  let server: ServerProcess
  let api: Api
  let admin: RequestOptions
  let viewer: RequestOptions

  beforeAll(async () => {
    plugins = [await writePlugin(alpha), await writePlugin(beta)]
    users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
    admin = { headers: users.headersOf('ann') }
    viewer = { headers: users.headersOf('vic') }
    server = await startServer({ plugins, args: users.args })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await users?.remove()
    await Promise.all((plugins ?? []).map(dir => rm(dir, { recursive: true, force: true })))
  })

  const check = (name: string, caller: RequestOptions) => api.get(`${routesPath}/checks/${name}`, caller)

  it('may do everything with its own kinds, for any caller', async () => {
    expect((await check('own', viewer)).status).toBe(200)
  })

  it('may not read, watch or ship objects of other kinds', async () => {
    for (const name of ['other', 'watch-other']) {
      const { message } = refusalOf(await check(name, admin), 403)
      expect(message).toContain('setpoint:plugin:alpha')
    }
    await eventually(async () => {
      const { status } = objectOf(await api.get(`${pluginsPath}/alpha`, admin))
      expect(status.phase).toBe('Started')
      const problems = JSON.stringify(status.problems)
      expect(problems).toContain('other.yaml:1')
      expect(problems).toContain('setpoint:plugin:alpha')
      expect(problems).not.toContain('own.yaml')
    })
    objectOf(await api.get(`${thingsOf('alpha')}/shipped`, admin))
    refusalOf(await api.get(`${thingsOf('beta')}/shipped`, admin), 404)
  })

  it('may do for the caller of a route what he may do, and nothing else', async () => {
    expect((await check('read-as', viewer)).status).toBe(200)
    expect(refusalOf(await check('write-as', viewer), 403).message).toContain('"vic"')
    const made = await check('write-as', admin)
    expect(made.status).toBe(200)
    objectOf(await api.get(`${thingsOf('beta')}/${made.text}`, admin))
  })

  it('cannot act for somebody who does not wait for its response', async () => {
    expect((await check('keep', admin)).status).toBe(204)
    refusalOf(await check('late', viewer), 403)
    refusalOf(await check('forged', viewer), 403)
  })
})

describe('a plugin that asks for permissions', () => {
  const name = 'setpoint:plugin:gamma'
  const bindingsPath = '/apis/rbac.authorization.k8s.io/v1/clusterrolebindings'
  const binding = {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: 'gamma' },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name }],
  }
  let users: Users<'ann'>
  let plugins: readonly string[]
  let admin: RequestOptions
  let server: ServerProcess | undefined
  let api: Api

  const start = async (...args: string[]) => {
    server = await startServer({ plugins, args: [...users.args, ...args] })
    api = new Api(server.url)
  }
  const check = (route: string) => api.get(`/apis/console.api.gamma.example.com/v1/checks/${route}`, admin)
  const problems = async () => {
    const { status } = objectOf(await api.get(`${pluginsPath}/gamma`, admin))
    return status.phase === 'Started' ? JSON.stringify(status.problems ?? []) : 'not started'
  }

  beforeAll(async () => {
    plugins = [await writePlugin(beta), await writePlugin(gamma)]
    users = await Users.make({ ann: ['setpoint:admins'] })
    admin = { headers: users.headersOf('ann') }
  })
  afterEach(() => server?.stop())
  afterAll(async () => {
    await users?.remove()
    await Promise.all((plugins ?? []).map(dir => rm(dir, { recursive: true, force: true })))
  })

  /** Reloads the plugin with further permissions, as source. */
  const reloadAsking = async (...more: string[]) => {
    const asking = gamma['index.js'].replace(
      'const permissions = [',
      `$&${more.map(each => `${each}, `).join('')}`,
    )
    const [, dir = ''] = plugins
    await writeFiles(dir, { 'index.js': asking })
    objectOf(await api.mergePatch(`${pluginsPath}/gamma`, { spec: { reload: randomUUID() } }, admin))
  }

  it('is told to bind its role to the service account of the controllers, if they are in other processes', async () => {
    await start('--role', 'apiserver')
    const both = `to the user ${name} and to the service account of the processes with controllers, setpoint-system:controllers`
    await eventually(async () => expect(await problems()).toContain(both))
  })

  it('has them from the moment the operator binds its role, and not after', async () => {
    await start()
    await eventually(async () => expect(await problems()).toContain(`bind the ClusterRole ${name}`))
    expect(refusalOf(await check('list'), 403).message).toContain(name)
    const create = async (plugin: string, thing: string) =>
      objectOf(await api.post(thingsOf(plugin), thingOf(plugin, thing), admin), 201)
    await create('beta', 'first')
    await create('gamma', 'mine')
    // A controller of its own kind alone runs, and the one that reads another kind does not: not even from the shared
    // cache.
    await eventually(async () => expect((await check('seen')).body).toEqual(['mine']))
    expect(await problems()).toContain('controller reader')
    await eventually(async () =>
      objectOf(await api.get(`/apis/rbac.authorization.k8s.io/v1/clusterroles/${name}`, admin)),
    )
    objectOf(await api.post(bindingsPath, binding, admin), 201)
    expect((await check('list')).status).toBe(200)
    await eventually(async () => expect(await problems()).toBe('[]'))
    await eventually(async () => expect((await check('seen')).body).toEqual(['mine', 'first']))
    await eventually(async () =>
      expect(server?.stderr()).toMatch(/a controller may read its kinds and starts/),
    )
    expect((await check('open')).status).toBe(204)
    const ended = check('end')
    await api.delete(`${bindingsPath}/gamma`, undefined, admin)
    expect((await ended).body).toBe(403)
    expect((await check('list')).status).toBe(403)
    await eventually(async () => expect(await problems()).toContain('reader","message":"it has stopped'))
    await create('beta', 'second')
    await create('gamma', 'ours')
    await eventually(async () => expect((await check('seen')).body).toEqual(['mine', 'first', 'ours']))
  })

  it('is told how to add rules to its role when a later version asks for more', async () => {
    await start()
    const rolePath = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${name}`
    objectOf(await api.post(bindingsPath, binding, admin), 201)
    await eventually(async () => expect(await problems()).toBe('[]'))
    await reloadAsking("{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }")
    const says = `no role grants get on secrets of core; the ClusterRole ${name} is older than this version of the plugin and lacks these rules`
    await eventually(async () => expect(await problems()).toContain(says))
    const { status } = objectOf(await api.get(`${pluginsPath}/gamma`, admin))
    const [, patch = ''] =
      /`kubectl patch clusterrole \S+ --type json --patch '(.*)'`/.exec(
        JSON.stringify(status.problems).replaceAll('\\"', '"'),
      ) ?? []
    objectOf(await api.jsonPatch(rolePath, JSON.parse(patch), admin))
    await eventually(async () => expect(await problems()).toBe('[]'))
  })

  it('is told of one for a resource that nothing serves', async () => {
    await start('--grant-plugins')
    await reloadAsking("{ apiGroups: [''], resources: ['secret'], verbs: ['get'] }")
    const says =
      'the permission for secret of core has no effect, because no kind has this plural; did you mean secrets?'
    await eventually(async () => expect(await problems()).toContain(says))
    await reloadAsking()
    await eventually(async () => expect(await problems()).toBe('[]'))
  })

  it('has them from the start with --grant-plugins', async () => {
    await start('--grant-plugins')
    await eventually(async () => expect(await problems()).toBe('[]'))
    expect((await check('list')).status).toBe(200)
    const { raw } = objectOf(await api.get(`${bindingsPath}/${name}`, admin))
    // Also its controllers in another process.
    expect(raw.subjects).toEqual([
      { apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name },
      { apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'setpoint:controllers' },
      { kind: 'ServiceAccount', namespace: 'setpoint-system', name: 'controllers' },
    ])
  })
})

describe('without authentication', () => {
  let plugins: readonly string[]
  let server: ServerProcess

  beforeAll(async () => {
    plugins = [await writePlugin(beta), await writePlugin(alpha)]
    server = await startServer({ plugins })
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all((plugins ?? []).map(dir => rm(dir, { recursive: true, force: true })))
  })

  it('plugins are administrators, as every caller of this machine is', async () => {
    const api = new Api(server.url)
    for (const name of ['own', 'other', 'watch-other', 'read-as', 'write-as'])
      expect((await api.get(`${routesPath}/checks/${name}`)).status).toBe(200)
    await eventually(async () => objectOf(await api.get(`${thingsOf('beta')}/shipped`)))
    expect(fieldsOf((await api.get(`${routesPath}/checks/forged`)).body).code).toBe(403)
  })
})
