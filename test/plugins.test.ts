import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Api, type ApiObject, Collection, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { gadgetsOf, itemsOf, pluginsPath } from './support/kinds.ts'
import { pluginModule, pluginStates, writeFiles, writePlugin } from './support/plugins.ts'
import { type RunningServer, startServer, startSharedServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import {
  copyFixture,
  eventually,
  type SharedWorld,
  startSharedWorld,
  startWorld,
  stores,
} from './support/worlds.ts'

const thingsOf = (api: Api, group: string) => new Collection(api, `${group}/v1`, 'Thing', 'things')

describe.each(stores)('a plugin in plain JavaScript, outside the repository, on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let gadgets: Collection

  beforeAll(async () => {
    world = await startSharedWorld(store, ['demo-plugin', 'items-plugin'])
    api = world.api
    gadgets = gadgetsOf(api)
  })
  afterAll(() => world?.end())

  it('is Started when the listening line is printed, and its Plugin object says so', async () => {
    const states = await pluginStates(api)
    for (const name of ['demo', 'items']) {
      expect(states.get(name)?.phase).toBe('Started')
      expect(JSON.stringify(states.get(name)?.object.status.conditions)).toContain(
        '"type":"Ready","status":"True"',
      )
    }
    expect(objectOf(await api.get(`${pluginsPath}/demo`)).kind).toBe('Plugin')
  })

  it('gets its Plugin object back, with its status, after someone deleted it', async () => {
    const { uid } = objectOf(await api.delete(`${pluginsPath}/demo`)).metadata
    await eventually(async () => {
      const { metadata, status } = objectOf(await api.get(`${pluginsPath}/demo`))
      expect(metadata.uid).not.toBe(uid)
      expect(status).toMatchObject({ phase: 'Started', kinds: ['gadgets.demo.example.com'] })
    })
  })

  it('has the objects of its YAML', async () => {
    const one = await eventually(() => gadgets.read('shipped-one'))
    expect(one.spec).toEqual({ email: 'one@example.com', n: 1, tags: ['a', 'b'] })
    expect(one.metadata.labels).toEqual({ 'demo.example.com/shipped': 'yes' })
    expect((await eventually(() => gadgets.read('shipped-two'))).spec).toEqual({ email: 'two@example.com' })
  })

  it('has its three types of index', async () => {
    await gadgets.create('g-1', { email: 'g1@example.com', n: 7, tags: ['x', 'y'] })
    await gadgets.create('g-2', { email: 'g2@example.com', n: 20, tags: ['y'] })
    refusalOf(
      await api.post(gadgets.path, gadgets.body('g-3', { email: 'g1@example.com' })),
      409,
      'AlreadyExists',
    )
    const mine = 'metadata.name in (g-1,g-2)'
    expect((await gadgets.list({ sort: 'spec.n', fieldSelector: mine })).names).toEqual(['g-2', 'g-1'])
    expect((await gadgets.list({ fieldSelector: ['spec.tags=x', mine] })).names).toEqual(['g-1'])
    expect((await gadgets.list({ fieldSelector: 'spec.email=g2@example.com' })).names).toEqual(['g-2'])
  })

  it('has its schema', async () => {
    const { causes } = refusalOf(
      await api.post(gadgets.path, gadgets.body('bad', { n: 101, tags: 'x' })),
      422,
    )
    expect(causes.map(({ field }) => field).sort()).toEqual(['spec.email', 'spec.n', 'spec.tags'])
  })

  it('has the routes of its router and of decorated classes, but none of other classes', async () => {
    await eventually(async () => expect((await gadgets.read('shipped-one')).status.phase).toBe('Ready'))
    const summary = await api.get('/apis/console.api.demo.example.com/v1/gadgets/shipped-one/summary')
    expect([summary.status, summary.body]).toEqual([
      200,
      { name: 'shipped-one', phase: 'Ready', user: expect.any(String) },
    ])
    const mail = await api.get('/apis/uc.api.demo.example.com/v1/gadgets/shipped-one/mail')
    expect([mail.status, mail.body]).toEqual([200, { email: 'one@example.com' }])
    refusalOf(await api.get('/apis/uc.api.demo.example.com/v1/hidden'), 404)
    expect(world.server.stderr()).toContain('ForgottenEndpoint')
  })

  it('has its routes in discovery, with the resources that Kubernetes reads in their paths', async () => {
    const groups = arrayOf(fieldsOf((await api.get('/apis')).body).groups).map(fieldsOf)
    const entry = (name: string, ...verbs: string[]) => ({
      ...{ name, singularName: '', namespaced: false, kind: '', verbs },
    })
    const resources = {
      'console.api.demo.example.com': [entry('gadgets/summary', 'get'), entry('gadgets')],
      'uc.api.demo.example.com': [entry('gadgets/mail', 'get'), entry('fail')],
    }
    for (const [name, entries] of Object.entries(resources)) {
      const version = { groupVersion: `${name}/v1`, version: 'v1' }
      const group = { name, versions: [version], preferredVersion: version }
      expect(groups.filter(each => each.name === name)).toEqual([group])
      expect((await api.get(`/apis/${name}`)).body).toEqual({ kind: 'APIGroup', apiVersion: 'v1', ...group })
      expect((await api.get(`/apis/${name}/v1`)).body).toEqual({
        kind: 'APIResourceList',
        apiVersion: 'v1',
        groupVersion: `${name}/v1`,
        resources: entries,
      })
    }
    refusalOf(await api.get('/apis/uc.api.demo.example.com/v2'), 404)
    expect(groups.map(({ name }) => name)).toContain('demo.example.com')
  })

  it("passes a refusal on to the route's caller, responds with 404 and 405 elsewhere, and survives a handler's exception", async () => {
    refusalOf(await api.get('/apis/uc.api.demo.example.com/v1/gadgets/nobody/mail'), 404)
    refusalOf(await api.get('/apis/uc.api.demo.example.com/v1/nothing'), 404)
    const answer = await api.post('/apis/uc.api.demo.example.com/v1/gadgets/shipped-one/mail', {})
    refusalOf(answer, 405)
    expect(answer.headers.get('allow')).toContain('GET')
    refusalOf(await api.get('/apis/uc.api.demo.example.com/v1/fail'), 500)
    expect((await api.get('/apis/uc.api.demo.example.com/v1/gadgets/shipped-one/mail')).status).toBe(200)
  })

  it('reconciles: status is written on create and on every change', async () => {
    await gadgets.create('r-1', { email: 'r1@example.com' })
    await eventually(async () =>
      expect((await gadgets.read('r-1')).status).toEqual({ phase: 'Ready', seen: 'r1@example.com' }),
    )
    objectOf(await api.mergePatch(gadgets.at('r-1'), { spec: { email: 'r1b@example.com' } }))
    await eventually(async () => expect((await gadgets.read('r-1')).status.seen).toBe('r1b@example.com'))
    expect((await gadgets.read('r-1')).metadata.finalizers).toEqual(['demo.example.com/cleanup'])
  })

  it('cleans up before it removes the finalizer of a deleted object', async () => {
    await gadgets.create('f-1', { email: 'f1@example.com' })
    await eventually(async () => expect((await gadgets.read('f-1')).status.phase).toBe('Ready'))
    const watch = await Watch.open(world.server.url, gadgets.at('f-1'))
    await watch.synced()
    objectOf(await api.delete(gadgets.at('f-1')))
    await watch.until(({ story }) => story.includes('DELETED f-1'))
    const [last] = watch.changes.slice(-1)
    expect(fieldsOf(fieldsOf(last?.raw.object).status).phase).toBe('CleanedUp')
    refusalOf(await api.get(gadgets.at('f-1')), 404)
    await watch.close()
  })

  it('keeps an object whose clean-up fails, until it succeeds', async () => {
    await gadgets.create('s-1', { email: 's1@example.com', tags: ['stuck'] })
    await eventually(async () => expect((await gadgets.read('s-1')).status.phase).toBe('Ready'))
    const marked = objectOf(await api.delete(gadgets.at('s-1')))
    await eventually(() => expect(world.server.stderr()).toContain('this gadget cannot be cleaned up'))
    expect((await gadgets.read('s-1')).metadata.deletionTimestamp).toBe(marked.metadata.deletionTimestamp)
    objectOf(await api.mergePatch(gadgets.at('s-1'), { spec: { tags: [] } }))
    await eventually(async () => refusalOf(await api.get(gadgets.at('s-1')), 404))
  })

  it('continues with others when it cannot reconcile one', async () => {
    await gadgets.create('t-1', { email: 't1@example.com', tags: ['throws'] })
    await gadgets.create('t-2', { email: 't2@example.com' })
    await eventually(async () => expect((await gadgets.read('t-2')).status.phase).toBe('Ready'))
    await eventually(() => expect(world.server.stderr()).toContain('this gadget cannot be reconciled'))
    expect((await gadgets.read('t-1')).status).toEqual({})
    objectOf(await api.mergePatch(gadgets.at('t-1'), { spec: { tags: [] } }))
    await eventually(async () => expect((await gadgets.read('t-1')).status.phase).toBe('Ready'))
  })
})

describe('plugins that fail', () => {
  let server: RunningServer
  let api: Api
  const dirs: string[] = []

  beforeAll(async () => {
    const good = await writePlugin({ 'index.js': pluginModule('good') })
    const route = (path: string) =>
      `plugin.routes('good.example.com/v1', r => r.get('${path}', () => ({ body: 1 })))`
    const setupOf = (name: string, setup: string) => ({ 'index.js': pluginModule(name, { setup }) })
    const failing: Record<string, Parameters<typeof writePlugin>> = {
      throws: [{ 'index.js': "throw new Error('the module is broken')" }],
      syntax: [{ 'index.js': 'export default {' }],
      reserved: [{ 'index.js': pluginModule('reserved', { group: 'x.setpoint.dev' }) }],
      'reserved-itself': [{ 'index.js': pluginModule('reserved-itself', { group: 'setpoint.dev' }) }],
      kubernetes: [{ 'index.js': pluginModule('kubernetes', { group: 'apps.k8s.io' }) }],
      'empty-group': [{ 'index.js': pluginModule('empty-group', { group: '' }) }],
      'second-kind': [{ 'index.js': pluginModule('second-kind', { group: 'good.example.com' }) }],
      'setup-throws': [
        { 'index.js': pluginModule('setup-throws', { setup: "throw new Error('setup is broken')" }) },
      ],
      'shadows-generated': [
        { 'index.js': pluginModule('shadows-generated', { setup: route('/things/:name') }) },
      ],
      'bad-schema': [
        {
          'index.js': pluginModule('bad-schema').replace(
            "type: 'object', properties",
            "type: 'objekt', properties",
          ),
        },
      ],
      'reserved-route': [
        {
          'index.js': pluginModule('reserved-route', {
            setup: "plugin.routes('x.setpoint.dev/v1', r => r.get('/a', () => ({})))",
          }),
        },
      ],
      'route-to-nothing': [setupOf('route-to-nothing', "plugin.routes('a.example.com/v1')")],
      'route-of-an-object': [setupOf('route-of-an-object', 'plugin.routes(new (class A {})())')],
      'route-of-no-group': [setupOf('route-of-no-group', "plugin.routes('a_b/v1', () => {})")],
      'route-pattern': [
        setupOf('route-pattern', "plugin.routes('a.example.com/v1', r => r.get('/*', () => {}))"),
      ],
      'controller-of-nothing': [setupOf('controller-of-nothing', 'plugin.controller(undefined, () => {})')],
      'rejects-with-nothing': [setupOf('rejects-with-nothing', 'return Promise.reject()')],
      'no-export': [{ 'index.js': 'export const nothing = 1' }],
      'no-module': [{}],
    }
    for (const args of Object.values(failing)) dirs.push(await writePlugin(...args))
    // The first plugin is the first to declare its kind.
    server = await startSharedServer({ plugins: [good, ...dirs], args: ['--log-level', 'error'] })
    dirs.push(good)
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all(dirs.map(dir => rm(dir, { recursive: true, force: true })))
  })

  it.each([
    ['reserved', /the kind Thing .*reserved.*setpoint\.dev.*; use a sub-domain of your own/s],
    ['reserved-itself', /reserved/],
    ['empty-group', /empty group/],
    ['kubernetes', /apps\.k8s\.io.*reserved/],
    ['second-kind', /good/],
    ['setup-throws', /setup is broken \(index\.js:8\)/],
    ['shadows-generated', /things.*(Thing|good)/s],
    ['bad-schema', /the kind Thing: schema\.spec\.type .*"objekt"/],
    ['route-to-nothing', /routes of a\.example\.com\/v1 need a function/],
    ['route-of-an-object', /routes needs a class, not an instance/],
    ['route-of-no-group', /"a_b\/v1" must have the form <group>\/<version>/],
    ['route-pattern', /route GET \/\* in a\.example\.com\/v1 has no valid pattern/],
    ['controller-of-nothing', /controller needs a model/],
    ['rejects-with-nothing', /setup has failed: it has thrown undefined/],
    ['reserved-route', /reserved/],
  ])('%s is Failed and says why', async (name, message) => {
    const state = await eventually(async () => {
      const found = (await pluginStates(api)).get(name)
      expect(found?.phase).toBe('Failed')
      return found
    })
    expect(state?.message).toMatch(message)
    expect(JSON.stringify(state?.object.status.conditions)).toContain('"status":"False"')
  })

  it.each([/the module is broken/, /SyntaxError/, /default export/, /does not exist/])(
    'a folder that cannot be loaded is Failed and says why: %s',
    async message => {
      await eventually(async () => {
        const messages = [...(await pluginStates(api)).values()]
          .filter(({ phase }) => phase === 'Failed')
          .map(state => state.message)
        expect(messages.filter(text => message.test(text))).toHaveLength(1)
      })
    },
  )

  it('have a line each in the verbose readiness, including those that cannot be loaded', async () => {
    const { text } = await api.get('/readyz?verbose')
    expect(text).toMatch(/^\[\+\]plugin\/setup-throws failed$/m)
    expect(text).toMatch(/^\[\+\]plugin\/setpoint-plugin-\S+ failed$/m)
    // Probes have no credentials, so an exception's message stays in the Plugin object.
    expect(text).not.toMatch(/broken|SyntaxError|index\.js/)
  })

  it('do not affect other plugins and the server', async () => {
    expect((await pluginStates(api)).get('good')?.phase).toBe('Started')
    const things = thingsOf(api, 'good.example.com')
    expect((await things.create('one', { text: 'x' })).spec).toEqual({ text: 'x' })
    expect((await things.read('one')).spec).toEqual({ text: 'x' })
    expect((await api.get('/readyz')).status).toBe(200)
  })

  it.each([
    ['setup-throws', /setup is broken/],
    ['bad-schema', /the kind Thing: schema\.spec\.type .*"objekt"/],
  ])('have kinds that respond with 503 and the reason: %s', async (name, reason) => {
    const things = thingsOf(api, `${name}.example.com`)
    for (const request of [api.get(things.path), api.post(things.path, things.body('a', { text: 'x' }))]) {
      expect(refusalOf(await request, 503, 'ServiceUnavailable').message).toMatch(reason)
    }
  })
})

describe.each(stores)('the objects of a plugin that has failed, on the %s store', store => {
  it('can be deleted and lose their finalizers, but refuse every other write', async () => {
    const indexes =
      "[singleValueIndex({ name: 'spec.text', unique: true, indexFunc: thing => thing.spec.text })]"
    const sound = pluginModule('stuck', { indexes })
    const dir = await writePlugin({ 'index.js': sound })
    const world = await startWorld(store, [], { args: ['--plugin', dir] })
    try {
      const before = thingsOf(world.api, 'stuck.example.com')
      const finalizers = ['stuck.example.com/one', 'stuck.example.com/two']
      await before.create('held', { text: 'held' }, { finalizers })
      await before.create('free', { text: 'free' })
      await before.create('kept', { text: 'kept' }, { finalizers })
      await world.server.kill('SIGTERM')
      await writeFile(
        join(dir, 'index.js'),
        pluginModule('stuck', { indexes, setup: "throw new Error('setup is broken')" }),
      )
      await world.server.restart()
      const api = new Api(world.server.url)
      const things = thingsOf(api, 'stuck.example.com')
      await eventually(async () => expect((await pluginStates(api)).get('stuck')?.phase).toBe('Failed'))
      const patch = (name: string, change: object) => api.mergePatch(things.at(name), change)
      for (const refused of [
        api.get(things.path),
        api.get(things.at('held')),
        api.post(things.path, things.body('new', {})),
        api.delete(things.path),
        patch('held', { spec: { text: 'other' } }),
        patch('held', { metadata: { finalizers: null, labels: { 'stuck.example.com/a': 'b' } } }),
        api.put(things.at('free'), things.body('free', { text: 'other' })),
      ])
        expect(refusalOf(await refused, 503, 'ServiceUnavailable').message).toMatch(/setup is broken/)
      objectOf(await api.delete(things.at('free')))
      refusalOf(await api.delete(things.at('free')), 404, 'NotFound')
      const deleting = objectOf(await api.delete(things.at('held')))
      expect(deleting.metadata.finalizers).toEqual(finalizers)
      expect(deleting.metadata.deletionTimestamp).toBeDefined()
      const half = objectOf(await patch('held', { metadata: { finalizers: finalizers.slice(1) } }))
      expect(half.metadata.finalizers).toEqual(finalizers.slice(1))
      objectOf(await patch('held', { metadata: { finalizers: null } }))
      objectOf(await patch('kept', { metadata: { finalizers: null } }))
      await world.server.kill('SIGTERM')
      await writeFile(join(dir, 'index.js'), sound)
      await world.server.restart()
      const mended = thingsOf(new Api(world.server.url), 'stuck.example.com')
      const { names } = await eventually(() => mended.list())
      expect(names).toEqual(['kept'])
      expect((await mended.read('kept')).metadata.finalizers).toEqual([])
      // Their unique values are free again.
      for (const text of ['held', 'free']) await mended.create(`again-${text}`, { text })
    } finally {
      await world.end()
      await rm(dir, { recursive: true, force: true })
    }
  })
})

describe('a folder that can be loaded after it could not', () => {
  it('is listed only under the name of its plugin', async () => {
    const dir = await writePlugin({ 'index.js': 'export default {' })
    const server = await startServer({ plugins: [dir] })
    try {
      const api = new Api(server.url)
      await eventually(async () => {
        expect([...(await pluginStates(api)).values()].map(({ phase }) => phase)).toEqual(['Failed'])
      })
      await writeFile(join(dir, 'index.js'), pluginModule('mended'))
      await server.kill('SIGTERM')
      await server.restart()
      await eventually(async () => {
        expect([...(await pluginStates(api)).keys()]).toEqual(['mended'])
      })
    } finally {
      await server.stop()
      await rm(dir, { recursive: true, force: true })
    }
  })
})

describe("a handler's result", () => {
  const answers: Record<string, string> = {
    nothing: 'undefined',
    text: "{ body: 'text' }",
    bytes: '{ body: new Uint8Array([65]) }',
    json: '{ status: 201, body: [1] }',
    'a-number': '7',
    'no-body': '({ total: 5, bdy: 6 })',
    'a-list': '[1]',
    'a-fetch-response': "new Response('x')",
    'odd-status': '{ status: 999 }',
    'text-status': "{ status: '200' }",
    'a-stream': '{ body: new ReadableStream() }',
    'a-function': '{ body: () => 1 }',
    'a-circle': '(() => { const a = {}; a.a = a; return { body: a } })()',
    'a-uri-error': "decodeURIComponent('%')",
    'a-length': "({ headers: { 'Content-Length': '1' }, body: 'text' })",
    'a-line-break': "({ headers: { 'x-a': 'b\\r\\nc: d' }, body: 'text' })",
  }
  let server: RunningServer
  let dir: string

  beforeAll(async () => {
    const routes = Object.entries(answers).map(([name, text]) => `r.get('/${name}', () => (${text}))`)
    const setup = `plugin.routes('a.example.com/v1', r => { ${routes.join('\n')} })`
    dir = await writePlugin({ 'index.js': pluginModule('answers', { setup }) })
    server = await startSharedServer({ plugins: [dir] })
  })
  afterAll(async () => {
    await server?.stop()
    await rm(dir, { recursive: true, force: true })
  })

  it.each([
    ['nothing', 204, ''],
    ['text', 200, 'text'],
    ['bytes', 200, 'A'],
    ['json', 201, '[1]'],
  ])('is sent as it is meant: %s', async (name, status, body) => {
    const answer = await fetch(`${server.url}/apis/a.example.com/v1/${name}`)
    expect([answer.status, await answer.text()]).toEqual([status, body])
  })

  it.each([
    ['a-number', /not a number/],
    ['no-body', /the content in body: unknown key total .*; unknown key bdy .*, did you mean body\?/],
    ['a-list', /not a Array/],
    ['a-fetch-response', /not a Response/],
    ['odd-status', /an integer from 200 to 599, is 999/],
    ['text-status', /an integer from 200 to 599, is \\"200\\"/],
    ['a-stream', /the body must be a string, bytes, or a value that JSON can express/],
    ['a-function', /the body must be a string, bytes, or a value that JSON can express/],
    ['a-circle', /circular/],
    ['a-uri-error', /URI malformed/],
  ])('is a 500 if it is invalid, and the log names plugin, route and reason: %s', async (name, reason) => {
    const path = `/apis/a.example.com/v1/${name}`
    const answer = await new Api(server.url).get(path)
    expect(refusalOf(answer, 500).message).toBe(
      "plugin answers failed to handle this request; see the server's log",
    )
    await eventually(async () => {
      const line = server
        .stderr()
        .split('\n')
        .find(text => text.includes(`"route":"GET ${path}"`))
      expect(line).toMatch(/"plugin":"answers"/)
      expect(line).toMatch(reason)
    })
  })

  it.each(['a-length', 'a-line-break'])(
    'is a 500 without its headers if one of them breaks the response: %s',
    async name => {
      const answer = await new Api(server.url).get(`/apis/a.example.com/v1/${name}`)
      expect(refusalOf(answer, 500).message).toContain('plugin answers')
      expect(answer.headers.get('x-a')).toBeNull()
    },
  )
})

describe('two plugins whose routes meet', () => {
  it('the second fails with a message that names both, and the first keeps serving', async () => {
    const routes =
      "plugin.routes('shared.example.com/v1', r => r.get('/a/:id', () => ({ body: plugin.signal.aborted })))"
    const dirs = [
      await writePlugin({ 'index.js': pluginModule('first', { setup: routes }) }),
      await writePlugin({ 'index.js': pluginModule('second', { setup: routes }) }),
    ]
    const server = await startSharedServer({ plugins: dirs })
    try {
      const api = new Api(server.url)
      const states = await pluginStates(api)
      const failed = [...states.values()].filter(({ phase }) => phase === 'Failed')
      expect(failed).toHaveLength(1)
      expect(failed[0]?.message).toMatch(/first/)
      expect(failed[0]?.message).toMatch(/second/)
      expect((await api.get('/apis/shared.example.com/v1/a/1')).body).toBe(false)
    } finally {
      await server.stop()
      await Promise.all(dirs.map(dir => rm(dir, { recursive: true, force: true })))
    }
  })
})

describe('an index function that throws for stored objects', () => {
  it('leaves them readable by name and deletable, and does not affect others', async () => {
    const dir = await writePlugin({ 'index.js': pluginModule('idx') })
    const server = await startServer({ plugins: [dir] })
    try {
      const api = new Api(server.url)
      const things = thingsOf(api, 'idx.example.com')
      await things.create('bad', { text: 'poison' }, { finalizers: ['x.com/f'] })
      await things.create('fine', { text: 'good' })
      const indexes = `[singleValueIndex({ name: 'spec.text', indexFunc: thing => { if (thing.spec.text === 'poison') throw new Error('cannot index this'); return thing.spec.text } })]`
      await writeFile(join(dir, 'index.js'), pluginModule('idx', { indexes }))
      await server.kill('SIGTERM')
      await server.restart()
      expect((await pluginStates(api)).get('idx')?.phase).toBe('Started')
      expect((await things.read('bad')).spec).toEqual({ text: 'poison' })
      expect((await things.list({ fieldSelector: 'spec.text=good' })).names).toEqual(['fine'])
      expect([...(await things.list()).names].sort()).toEqual(['bad', 'fine'])
      // A finalizer can be removed despite the error.
      objectOf(await api.delete(things.at('bad')))
      objectOf(await api.mergePatch(things.at('bad'), { metadata: { finalizers: null } }))
      refusalOf(await api.get(things.at('bad')), 404)
    } finally {
      await server.stop()
      await rm(dir, { recursive: true, force: true })
    }
  })
})

describe('a plugin that runs although something is probably wrong', () => {
  it('has the problems in its status at the start: of a declaration, and of a kind that its controller waits for', async () => {
    const indexes = "[singleValueIndex({ name: 'spec.tetx', indexFunc: () => undefined })]"
    const other = "defineModel({ ...Thing, group: 'absent.example.com', indexes: [] })"
    const setup = `plugin.controller(Thing, c => c.watches(${other}, () => 'a').reconcile(async () => {}))`
    const dir = await writePlugin({ 'index.js': pluginModule('hasty', { indexes, setup }) })
    const server = await startSharedServer({ plugins: [dir] })
    onTestFinished(async () => {
      await server.stop()
      await rm(dir, { recursive: true, force: true })
    })
    await eventually(async () => {
      const { phase, object } = (await pluginStates(new Api(server.url))).get('hasty') ?? {}
      expect(phase).toBe('Started')
      expect(object?.status.problems).toEqual([
        {
          source: 'kind Thing',
          message:
            'the index "spec.tetx" names "tetx", which the schema does not declare, did you mean text?',
        },
        {
          source: 'controller hasty/things.hasty.example.com',
          message:
            'it reads Thing, which is not served at absent.example.com/v1/things, and reconciles nothing until then',
        },
      ])
    })
  })
})

describe('a stricter schema', () => {
  it('lets every object be deleted, and every unchanged field stay', async () => {
    const loose = pluginModule('strict')
    const dir = await writePlugin({ 'index.js': loose })
    const server = await startServer({ plugins: [dir] })
    try {
      const api = new Api(server.url)
      const things = thingsOf(api, 'strict.example.com')
      await things.create('old', { text: 'far too long', list: ['a'] }, { finalizers: ['x.com/f'] })
      await writeFile(
        join(dir, 'index.js'),
        loose.replace("text: { type: 'string' }", "text: { type: 'string', maxLength: 3 }"),
      )
      await server.kill('SIGTERM')
      await server.restart()
      refusalOf(await api.post(things.path, things.body('new', { text: 'far too long' })), 422)
      objectOf(await api.mergePatch(things.at('old'), { spec: { list: ['b'] } }))
      refusalOf(await api.mergePatch(things.at('old'), { spec: { text: 'long in another way' } }), 422)
      objectOf(await api.delete(things.at('old')))
      objectOf(await api.mergePatch(things.at('old'), { metadata: { finalizers: null } }))
      refusalOf(await api.get(things.at('old')), 404)
    } finally {
      await server.stop()
      await rm(dir, { recursive: true, force: true })
    }
  })
})

describe('the YAML of a plugin across restarts', () => {
  let server: RunningServer
  let dir: string
  let api: Api
  let things: Collection

  const thing = (name: string, spec: string, more = '') =>
    `apiVersion: yaml.example.com/v1\nkind: Thing\nmetadata:\n  name: ${name}\n${more}spec: ${spec}\n`

  afterEach(async () => {
    await server?.stop()
    await rm(dir, { recursive: true, force: true })
  })

  async function start(files: Readonly<Record<string, string>>, manifest = {}): Promise<void> {
    dir = await writePlugin({ 'index.js': pluginModule('yaml'), ...files }, manifest)
    server = await startSharedServer({ plugins: [dir] })
    api = new Api(server.url)
    things = thingsOf(api, 'yaml.example.com')
  }

  async function restartWith(files: Readonly<Record<string, string>>, version?: string): Promise<void> {
    await server.end()
    await writeFiles(dir, files)
    if (version !== undefined) {
      const manifest = fieldsOf(JSON.parse(await readFile(join(dir, 'package.json'), 'utf8')))
      await writeFile(join(dir, 'package.json'), JSON.stringify({ ...manifest, version }))
    }
    await server.restart()
  }

  const becomes = (name: string, spec: object): Promise<ApiObject> =>
    eventually(async () => {
      const object = await things.read(name)
      expect(object.spec).toEqual(spec)
      return object
    })

  /** When this object exists, everything before it in the files has been processed. */
  const applied = (name: string) => eventually(() => things.read(name))

  it('every document of every file is created, with any file name and in subfolders', async () => {
    await start({
      'resources/extensions/things.yaml': `${thing('a', '{text: a}')}---\n${thing('b', '{text: b}')}`,
      'resources/extensions/no idea.yml': thing('c', '{text: c}'),
      'resources/extensions/notes.txt': thing('never', '{}'),
    })
    await applied('a')
    await applied('b')
    await applied('c')
    refusalOf(await api.get(things.at('never')), 404)
  })

  it('a deleted object is created again', async () => {
    await start({ 'resources/extensions/x.yaml': thing('a', '{text: a}') })
    const first = await applied('a')
    objectOf(await api.delete(things.at('a')))
    await restartWith({})
    expect((await becomes('a', { text: 'a' })).metadata.uid).not.toBe(first.metadata.uid)
  })

  it("users' edits are kept; only fields that changed in the file are set", async () => {
    await start({
      'resources/extensions/x.yaml': thing('a', '{text: one, list: [a, b], deep: {a: "1", b: "1"}}'),
    })
    await applied('a')
    objectOf(
      await api.mergePatch(things.at('a'), {
        metadata: { labels: { mine: 'yes' }, annotations: { note: 'kept' } },
        spec: { text: 'edited', list: ['c'], deep: { b: '2' } },
      }),
    )
    await restartWith({
      'resources/extensions/x.yaml': `${thing('a', '{text: one, list: [a, b], deep: {a: "1", b: "1"}}')}---\n${thing('z1', '{}')}`,
    })
    await applied('z1')
    const kept = await things.read('a')
    expect(kept.spec).toEqual({ text: 'edited', list: ['c'], deep: { a: '1', b: '2' } })
    await restartWith({
      'resources/extensions/x.yaml': `${thing('a', '{text: two, list: [d], deep: {a: "3", b: "1"}}')}---\n${thing('z2', '{}')}`,
    })
    await applied('z2')
    const merged = await things.read('a')
    expect(merged.spec).toEqual({ text: 'two', list: ['d'], deep: { a: '3', b: '2' } })
    expect(merged.metadata.labels).toEqual({ mine: 'yes' })
    expect(merged.metadata.annotations).toMatchObject({ note: 'kept' })
  })

  it('an object that a user replaced still belongs to the plugin, and no other object can claim to', async () => {
    await start({ 'resources/extensions/x.yaml': thing('a', '{text: one, list: [a], deep: {a: "1"}}') })
    const { annotations: notes } = (await applied('a')).metadata
    const replaced = objectOf(
      await api.put(things.at('a'), things.body('a', { text: 'mine', list: ['a'], deep: { a: '1' } })),
    )
    expect(replaced.metadata.annotations).toEqual(notes)
    const patched = objectOf(
      await api.mergePatch(things.at('a'), {
        metadata: { annotations: { mine: 'x', 'plugins.setpoint.dev/plugin': 'other' } },
      }),
    )
    expect(patched.metadata.annotations).toEqual({ ...notes, mine: 'x' })
    await restartWith({
      'resources/extensions/x.yaml': `${thing('a', '{text: one, list: [b], deep: {a: "1"}}')}---\n${thing('z', '{}')}`,
    })
    await applied('z')
    const object = await things.read('a')
    expect(object.spec).toEqual({ text: 'mine', list: ['b'], deep: { a: '1' } })
    expect(object.metadata.annotations).toMatchObject({ mine: 'x', 'plugins.setpoint.dev/plugin': 'yaml' })
    expect((await pluginStates(api)).get('yaml')?.problems).toBe('[]')
  })

  it('an object that a client creates cannot claim to belong to the plugin', async () => {
    await start({ 'resources/extensions/x.yaml': thing('z', '{}') })
    await applied('z')
    const claim = { 'plugins.setpoint.dev/plugin': 'yaml', 'plugins.setpoint.dev/version': '0.0.1' }
    const body = things.body('a', { text: 'mine' })
    const claiming = { ...body, metadata: { name: 'a', annotations: { ...claim, mine: 'x' } } }
    expect(objectOf(await api.post(things.path, claiming), 201).metadata.annotations).toEqual({ mine: 'x' })
    const put = { ...body, metadata: { name: 'a', annotations: claim } }
    expect(objectOf(await api.put(things.at('a'), put)).metadata.annotations).toEqual({})
  })

  it('nothing is written when nothing has changed', async () => {
    await start({ 'resources/extensions/x.yaml': thing('a', '{text: one}') })
    const first = await applied('a')
    await restartWith({ 'resources/extensions/y.yaml': thing('z', '{}') })
    await applied('z')
    expect((await things.read('a')).metadata.version).toBe(first.metadata.version)
  })

  it('an object of the same name from elsewhere is left alone and reported, until it is deleted', async () => {
    await start({})
    const theirs = await things.create('a', { text: 'theirs' })
    await restartWith({
      'resources/extensions/x.yaml': `${thing('a', '{text: ours}')}---\n${thing('b', '{}')}---\nkind: Thing\n`,
    })
    const problems = async () => (await pluginStates(api)).get('yaml')?.problems
    await eventually(async () => expect(await problems()).toMatch(/x\.yaml:1".*x\.yaml:12"/))
    expect((await things.read('a')).raw).toEqual(theirs.raw)
    // The new attempt is made from what was read, and only at what was not applied.
    await rm(join(dir, 'resources'), { recursive: true })
    objectOf(await api.delete(things.at('b')))
    objectOf(await api.delete(things.at('a')))
    await becomes('a', { text: 'ours' })
    await eventually(async () =>
      expect(await problems()).toMatch(/^\[\{"source":"[^"]*x\.yaml:12"[^}]*\}\]$/),
    )
    refusalOf(await api.get(things.at('b')), 404)
  })

  it('an older plugin does not apply over a newer one', async () => {
    await start({ 'resources/extensions/x.yaml': thing('a', '{text: "2"}') }, { version: '2.0.0' })
    await applied('a')
    await restartWith(
      { 'resources/extensions/x.yaml': `${thing('a', '{text: "1"}')}---\n${thing('z', '{}')}` },
      '1.9.9',
    )
    await applied('z')
    expect((await things.read('a')).spec).toEqual({ text: '2' })
    await restartWith({ 'resources/extensions/x.yaml': thing('a', '{text: "3"}') }, '2.0.1')
    await becomes('a', { text: '3' })
  })

  it('one bad document does not stop the others, and the status names file and line', async () => {
    await start({
      'resources/extensions/a.yaml': `${thing('a', '{text: a}')}---\nkind: Thing\n---\n${thing('b', '{text: [1]}')}---\n${thing('c', '{text: c}')}`,
      'resources/extensions/b.yaml': 'a: [\n',
      'resources/extensions/c.yaml': thing('d', '{text: d}'),
      'resources/extensions/d.yaml': thing('e', '{}', '  labels: {plain: x}\n'),
      'resources/extensions/e.yaml':
        'apiVersion: nobody.example.com/v1\nkind: Nothing\nmetadata: {name: f}\n',
      'resources/extensions/f.yaml': 'apiVersion: yaml.example.com/v1\nkind: Thign\nmetadata: {name: g}\n',
    })
    for (const name of ['a', 'c', 'd']) await applied(name)
    await eventually(async () => {
      const problems = (await pluginStates(api)).get('yaml')?.problems ?? ''
      expect(problems).toContain('"resources/extensions/a.yaml:6"')
      expect(problems).toMatch(/a\.yaml:8"/)
      for (const file of ['b.yaml', 'd.yaml', 'e.yaml']) expect(problems).toContain(file)
      expect(problems).toMatch(
        /f\.yaml:1".*Thign .*is not served; the kinds of yaml\.example\.com\/v1 are Thing"/,
      )
      expect(problems).not.toContain('c.yaml')
    })
    for (const name of ['b', 'e']) refusalOf(await api.get(things.at(name)), 404)
    expect((await pluginStates(api)).get('yaml')?.phase).toBe('Started')
  })

  it('stopping the plugin deletes nothing', async () => {
    await start({ 'resources/extensions/x.yaml': thing('a', '{text: a}') })
    const made = await applied('a')
    const away = await copyFixture('items-plugin')
    await server.end()
    await server.restart({ plugins: [away] })
    refusalOf(await api.get(things.at('a')), 404)
    await eventually(async () =>
      expect((await pluginStates(api)).get('yaml')?.object.status).toMatchObject({
        phase: 'NotInstalled',
        kinds: ['things.yaml.example.com'],
        conditions: [{ type: 'Ready', status: 'False', reason: 'NotInstalled' }],
      }),
    )
    expect((await pluginStates(api)).get('items')?.phase).toBe('Started')
    await server.end()
    await server.restart({ plugins: [dir] })
    expect((await things.read('a')).metadata.uid).toBe(made.metadata.uid)
    await eventually(async () => {
      const states = await pluginStates(api)
      expect(['yaml', 'items'].map(name => states.get(name)?.phase)).toEqual(['Started', 'NotInstalled'])
    })
    await rm(away, { recursive: true, force: true })
  })
})

describe('a server that restarts', () => {
  it('responds with 503 for its kinds and routes until they are ready, never with 404', async () => {
    const world = await startWorld('embedded', ['items-plugin', 'demo-plugin'])
    try {
      const items = itemsOf(world.api)
      await items.create('one', {})
      const gadgets = gadgetsOf(world.api)
      await eventually(() => gadgets.read('shipped-one'))
      const paths = [items.at('one'), items.path, '/apis/uc.api.demo.example.com/v1/gadgets/shipped-one/mail']
      const seen = new Set<number>()
      for (let n = 0; n < 3; n++) {
        await world.server.kill('SIGTERM')
        let up = false
        // So many that some wait in a queue while a plugin registers.
        const asking = Array.from({ length: 10 }, () => paths)
          .flat()
          .map(async path => {
            while (!up) {
              const answer = await world.api.get(path).catch(() => undefined)
              if (answer !== undefined) seen.add(answer.status)
            }
          })
        await world.server.restart()
        up = true
        await Promise.all(asking)
      }
      expect([...seen].filter(status => status !== 200 && status !== 503)).toEqual([])
    } finally {
      await world.end()
    }
  })
})
