import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import { gadgetsOf, itemsOf, pluginsPath } from './support/kinds.ts'
import { Multiplexed } from './support/multiplex.ts'
import { pluginModule, pluginStates, writeFiles, writePlugin } from './support/plugins.ts'
import {
  type RunningServer,
  runProgram,
  type ServerOptions,
  spawnProgram,
  startServer,
  startSharedServer,
} from './support/server.ts'
import { Watch } from './support/watch.ts'
import { eventually, type SharedWorld, startSharedWorld } from './support/worlds.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

const demoPath = `${pluginsPath}/demo`
const summaryOf = (name: string) => `/apis/console.api.demo.example.com/v1/gadgets/${name}/summary`

async function setEnabled(api: Api, enabled: boolean, path = demoPath): Promise<void> {
  objectOf(await api.mergePatch(path, { spec: { enabled } }))
}

const isInPhase = (api: Api, phase: string, name = 'demo') =>
  eventually(async () => expect((await pluginStates(api)).get(name)?.phase).toBe(phase))

const isReady = (gadgets: Collection, name: string, email: string) =>
  eventually(async () => expect((await gadgets.read(name)).status).toEqual({ phase: 'Ready', seen: email }))

async function startDemo(
  store: 'embedded' | 'etcd',
  fixtures = ['demo-plugin', 'items-plugin'],
): Promise<SharedWorld> {
  const world = await startSharedWorld(store, fixtures)
  cleanups.push(() => world.end())
  return world
}

/** A kind without functions, and one with an index function. */
function modelsModule(schema = '{}'): string {
  return `import { defineModel, singleValueIndex } from '@setpoint/controller-runtime'
export const Plain = defineModel({
  group: 'reloaded.example.com', version: 'v1', kind: 'Plain', singular: 'plain', plural: 'plains',
  schema: { spec: { type: 'object' }, status: { type: 'object' } }, subresources: { status: true },
})
export const Indexed = defineModel({
  group: 'reloaded.example.com', version: 'v1', kind: 'Indexed', singular: 'indexed', plural: 'indexeds',
  schema: { spec: { type: 'object', properties: { text: { type: 'string', ...${schema} } } } },
  indexes: [singleValueIndex({ name: 'spec.text', indexFunc: object => object.spec.text })],
})
`
}

function entryModule(word: string, top = ''): string {
  return `import { definePlugin } from '@setpoint/controller-runtime'
import { Indexed, Plain } from './models.js'
import { reply } from './reply.js'
${top}
export default definePlugin({ name: 'reloaded', models: [Plain, Indexed], setup(plugin) {
  plugin.controller(Plain, c => c.reconcile(async (object, { client }) => {
    await client.patchStatus(Plain, object, { by: '${word}' })
  }))
  plugin.routes('api.reloaded.example.com/v1', r => r.get('/word', () => ({ body: { word: '${word}', reply } })))
} })
`
}

const files = {
  'index.js': entryModule('one'),
  'models.js': modelsModule(),
  'reply.js': "export const reply = 'a'\n",
}
const wordPath = '/apis/api.reloaded.example.com/v1/word'
const plainsPath = '/apis/reloaded.example.com/v1/plains'
const indexedsPath = '/apis/reloaded.example.com/v1/indexeds'

function plain(name: string): object {
  return { apiVersion: 'reloaded.example.com/v1', kind: 'Plain', metadata: { name }, spec: {} }
}

/** `Plain` in another version only. */
const later = `import { defineModel } from '@setpoint/controller-runtime'
const Later = defineModel({
  group: 'reloaded.example.com', version: 'v2', kind: 'Plain', singular: 'plain', plural: 'plains',
  schema: { spec: { type: 'object' } },
})`

async function writeReloaded(): Promise<string> {
  const dir = await writePlugin(files)
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  return dir
}

let reloads = 0
async function askReload(api: Api, name = 'reloaded'): Promise<void> {
  objectOf(await api.mergePatch(`${pluginsPath}/${name}`, { spec: { reload: `r${++reloads}` } }))
}

/** Waits until a reload has ended, and returns the condition that says how. */
async function reload(api: Api, reason: 'Reloaded' | 'ReloadFailed'): Promise<string> {
  await askReload(api)
  return eventually(async () => {
    const text = JSON.stringify((await pluginStates(api)).get('reloaded')?.object.status.conditions)
    expect(text).toContain(`"reason":"${reason}"`)
    return text
  })
}

/** @param start default a shared process, which does not read changed code at a restart */
async function serveReloaded(
  start: (options: ServerOptions) => Promise<RunningServer> = startSharedServer,
): Promise<{ server: RunningServer; api: Api; dir: string }> {
  const dir = await writeReloaded()
  const server = await start({ plugins: [dir] })
  cleanups.push(() => server.stop())
  return { server, api: new Api(server.url), dir }
}

describe('spec.enabled: false', () => {
  it('stops kinds, watches, routes and controllers, and true starts them again', async () => {
    const { api, server } = await startDemo('embedded')
    const gadgets = gadgetsOf(api)
    await gadgets.create('a', { email: 'a@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
    const watch = await Watch.open(server.url, gadgets.path)
    const others = await Watch.open(server.url, itemsOf(api).path)
    const version = await watch.synced()
    await others.synced()
    await setEnabled(api, false)
    expect((await watch.closed).code).toBe(1013)
    await isInPhase(api, 'Disabled')
    for (const answer of [
      await api.get(gadgets.path),
      await api.get(gadgets.at('a')),
      await api.get(`${gadgets.path}?watch=true`),
      await api.post(gadgets.path, gadgets.body('b', { email: 'b@example.com' })),
      await api.mergePatch(gadgets.at('a'), { spec: { n: 1 } }),
    ]) {
      expect(refusalOf(answer, 503).message).toContain('plugin demo is disabled')
      expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
    }
    expect((await api.get(summaryOf('a'))).status).toBe(503)
    expect(server.stderr()).not.toContain('"level":"error"')
    await setEnabled(api, true)
    await isInPhase(api, 'Started')
    objectOf(await api.mergePatch(gadgets.at('a'), { spec: { email: 'a2@example.com' } }))
    await isReady(gadgets, 'a', 'a2@example.com')
    expect((await api.get(summaryOf('a'))).status).toBe(200)
    const resumed = await Watch.open(server.url, `${gadgets.path}?version=${version}`)
    await resumed.until(({ story }) => story.includes('MODIFIED a'))
    await itemsOf(api).create('still-watched', {})
    await others.until(({ story }) => story.includes('ADDED still-watched'))
    await resumed.close()
    await others.close()
  })

  it('ends a subscription with 503 and a stream without an event, and no watch of another kind', async () => {
    const { api, server } = await startDemo('embedded')
    const socket = await Multiplexed.open(server.url)
    socket.subscribe('gadgets', gadgetsOf(api).path)
    socket.subscribe('items', itemsOf(api).path)
    await Promise.all([socket.synced('gadgets'), socket.synced('items')])
    const stream = await fetch(`${server.url}${gadgetsOf(api).path}?watch=true&sendInitialEvents=false`)
    await setEnabled(api, false)
    expect((await socket.ends('gadgets')).raw).toEqual({ id: 'gadgets', type: 'END', code: 503 })
    expect(await stream.text()).not.toContain('ERROR')
    const { metadata } = await itemsOf(api).create('still-watched', {})
    await socket.reaches('items', metadata.version)
    await socket.close()
  })

  it('and true at once leave the plugin running', async () => {
    const { api } = await startDemo('embedded', ['demo-plugin'])
    const gadgets = gadgetsOf(api)
    for (let round = 0; round < 5; round++) {
      await setEnabled(api, false)
      await setEnabled(api, true)
    }
    await eventually(() => gadgets.create('a', { email: 'a@example.com' }))
    await isReady(gadgets, 'a', 'a@example.com')
    await isInPhase(api, 'Started')
  })

  it('aborts the requests of its routes, which get 503', async () => {
    const setup = `plugin.routes('api.waits.example.com/v1', r => r.get('/wait', ({ signal, log }) => {
      log.info({}, 'the request waits')
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    }))`
    const dir = await writePlugin({ 'index.js': pluginModule('waits', { setup }) })
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startSharedServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const answer = api.get('/apis/api.waits.example.com/v1/wait')
    await eventually(() => expect(server.stderr()).toContain('the request waits'))
    await setEnabled(api, false, `${pluginsPath}/waits`)
    expect(refusalOf(await answer, 503).message).toBe('plugin waits is stopping')
  })

  it('counts for a plugin whose code does not load, also after a restart, and true tries again', async () => {
    const dir = await writePlugin({
      'late/package.json': JSON.stringify({
        name: 'late',
        version: '1.0.0',
        type: 'module',
        exports: './index.js',
      }),
      'late/index.js': "throw new Error('the module is broken')",
    })
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startServer({ plugins: [join(dir, 'late')] })
    cleanups.push(() => server.stop())
    const enable = (enabled: boolean) => setEnabled(new Api(server.url), enabled, `${pluginsPath}/late`)
    const becomes = (phase: string) => isInPhase(new Api(server.url), phase, 'late')
    const status = () => runProgram(['status', '--server', server.url])
    await becomes('Failed')
    await enable(false)
    await becomes('Disabled')
    expect(await status()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^All is well\.\n/) })
    await server.restart()
    await eventually(async () =>
      expect((await new Api(server.url).get('/readyz?verbose')).text).toContain('plugin/late disabled'),
    )
    expect(await status()).toMatchObject({ code: 0, stdout: expect.stringMatching(/^All is well\.\n/) })
    const state = (await pluginStates(new Api(server.url))).get('late')
    expect(state).toMatchObject({
      phase: 'Disabled',
      message: expect.stringMatching(/^spec\.enabled is false; .*the module is broken/),
    })
    await enable(true)
    await becomes('Failed')
    await enable(false)
    await becomes('Disabled')
    await writeFiles(dir, { 'late/index.js': pluginModule('late', {}) })
    await enable(true)
    await becomes('Started')
  })

  it('lets objects be deleted and lose finalizers', async () => {
    const { api } = await startDemo('embedded', ['demo-plugin'])
    const gadgets = gadgetsOf(api)
    await gadgets.create('a', { email: 'a@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
    await setEnabled(api, false)
    await isInPhase(api, 'Disabled')
    expect(objectOf(await api.delete(gadgets.at('a'))).metadata.deletionTimestamp).toBeDefined()
    objectOf(await api.mergePatch(gadgets.at('a'), { metadata: { finalizers: null } }))
    await setEnabled(api, true)
    await isInPhase(api, 'Started')
    refusalOf(await api.get(gadgets.at('a')), 404)
    // Its unique value is free.
    await gadgets.create('b', { email: 'a@example.com' })
  })

  it('holds on every server of one etcd and after a restart', async () => {
    const world = await startDemo('etcd', ['demo-plugin'])
    const second = await world.another()
    const there = new Api(second.url)
    const gadgets = gadgetsOf(world.api)
    await gadgets.create('a', { email: 'a@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
    const watch = await Watch.open(second.url, gadgets.path)
    await watch.synced()
    await setEnabled(world.api, false)
    expect((await watch.closed).code).toBe(1013)
    await eventually(async () => refusalOf(await there.get(gadgets.path), 503))
    await eventually(async () => refusalOf(await world.api.get(gadgets.path), 503))
    await world.server.restart()
    expect(refusalOf(await world.api.get(gadgets.path), 503).message).toContain('is disabled')
    expect((await world.api.get(summaryOf('a'))).status).toBe(503)
    await setEnabled(there, true)
    for (const api of [world.api, there])
      await eventually(async () => expect((await gadgetsOf(api).list()).names).toContain('a'))
    objectOf(await there.mergePatch(gadgets.at('a'), { spec: { email: 'a2@example.com' } }))
    await isReady(gadgets, 'a', 'a2@example.com')
  })

  it('stops the controllers of another process', async () => {
    const dir = await writeReloaded()
    const server = await startSharedServer({ plugins: [dir], args: ['--role', 'apiserver'] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const running = spawnProgram(['serve', '--role', 'controllers', '--server', server.url, '--plugin', dir])
    cleanups.push(() => running.kill('SIGKILL'))
    const by = async (name: string) => objectOf(await api.get(`${plainsPath}/${name}`)).status.by
    const create = (name: string) => api.post(plainsPath, plain(name))
    objectOf(await create('a'), 201)
    await eventually(async () => expect(await by('a')).toBe('one'))
    await setEnabled(api, false, `${pluginsPath}/reloaded`)
    await running.says(/the plugin is disabled/, 'stderr')
    await setEnabled(api, true, `${pluginsPath}/reloaded`)
    await isInPhase(api, 'Started', 'reloaded')
    objectOf(await create('b'), 201)
    await eventually(async () => expect(await by('b')).toBe('one'))
    await writeFiles(dir, { 'index.js': entryModule('two') })
    await reload(api, 'Reloaded')
    await running.says(/reloaded the code of the plugin/, 'stderr')
    objectOf(await create('c'), 201)
    await eventually(async () => expect(await by('c')).toBe('two'))
  })
})

it('a plugin that only some servers have has the status of one of these, whichever starts last', async () => {
  const world = await startDemo('etcd')
  const second = await world.another()
  const watch = await Watch.open(world.server.url, demoPath)
  await watch.synced()
  await second.restart({ plugins: world.plugins.slice(1) })
  await eventually(() => expect(JSON.stringify(watch.events)).toContain('"phase":"NotInstalled"'))
  await isInPhase(world.api, 'Started')
})

describe('a plugin that has failed', () => {
  it.each([
    [
      'in setup',
      entryModule('two').replace('plugin.controller(', "throw new Error('no way'); plugin.controller("),
    ],
    [
      'at its models',
      entryModule('two').replace('models: [Plain', "models: [{ ...Plain, group: 'no-way.setpoint.dev' }"),
    ],
  ])('%s has 503 with the reason on its kinds and the routes it had, until a reload', async (_, code) => {
    const { api, server, dir } = await serveReloaded(startServer)
    expect((await api.get(wordPath)).status).toBe(200)
    await writeFiles(dir, { 'index.js': code })
    await server.restart()
    await isInPhase(api, 'Failed', 'reloaded')
    for (const path of [wordPath, indexedsPath]) {
      const response = await api.get(path)
      expect(refusalOf(response, 503).message).toMatch(/plugin reloaded has failed: .*no.way/)
      expect(response.headers.get('retry-after')).toMatch(/^\d+$/)
    }
    await writeFiles(dir, { 'index.js': entryModule('three') })
    await askReload(api)
    await isInPhase(api, 'Started', 'reloaded')
    expect((await api.get(wordPath)).body).toEqual({ word: 'three', reply: 'a' })
  })

  it('at its first start has 404 on its routes, which the server does not know', async () => {
    const dir = await writePlugin({
      ...files,
      'index.js': entryModule('one').replace(
        'plugin.controller(',
        "throw new Error('no way'); plugin.controller(",
      ),
    })
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startSharedServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    await isInPhase(api, 'Failed', 'reloaded')
    refusalOf(await api.get(wordPath), 404)
    refusalOf(await api.get(plainsPath), 503)
  })

  it('keeps its kinds from another plugin that declares them, until a reload without them', async () => {
    const shared = { group: 'shared.example.com' }
    const first = await writePlugin({
      'index.js': pluginModule('first', { ...shared, setup: "throw new Error('no way')" }),
    })
    const second = await writePlugin({ 'index.js': pluginModule('second', shared) })
    for (const dir of [first, second]) cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startSharedServer({ plugins: [first, second] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const things = '/apis/shared.example.com/v1/things'
    await isInPhase(api, 'Failed', 'first')
    await isInPhase(api, 'Failed', 'second')
    expect((await pluginStates(api)).get('second')?.message).toMatch(/of plugin "second".*by plugin "first"/)
    expect(refusalOf(await api.get(things), 503).message).toContain('plugin first has failed')
    await writeFiles(first, { 'index.js': pluginModule('first') })
    await askReload(api, 'first')
    await isInPhase(api, 'Started', 'first')
    refusalOf(await api.get(things), 404)
    await askReload(api, 'second')
    await isInPhase(api, 'Started', 'second')
    expect((await api.get(things)).status).toBe(200)
  })
})

describe('spec.reload', () => {
  it('runs the present code, with its relative modules, and keeps the watches of unchanged kinds', async () => {
    const { api, server, dir } = await serveReloaded()
    expect((await api.get(wordPath)).body).toEqual({ word: 'one', reply: 'a' })
    const plains = await Watch.open(server.url, plainsPath)
    const indexeds = await Watch.open(server.url, indexedsPath)
    const plugins = await Watch.open(server.url, pluginsPath)
    for (const watch of [plains, indexeds, plugins]) await watch.synced()
    await writeFiles(dir, { 'index.js': entryModule('two'), 'reply.js': "export const reply = 'b'\n" })
    await reload(api, 'Reloaded')
    expect((await api.get(wordPath)).body).toEqual({ word: 'two', reply: 'b' })
    // It has an index function, which is another one now.
    expect((await indexeds.closed).code).toBe(1013)
    objectOf(await api.post(plainsPath, plain('a')), 201)
    await plains.until(({ changes }) => changes.some(({ raw }) => JSON.stringify(raw).includes('"by":"two"')))
    await isInPhase(api, 'Started', 'reloaded')
    await plains.close()
    await plugins.close()
  })

  /** A request for `wait` waits for one for `release`, also of other code. */
  function waitingModule(word: string): string {
    const setup = `plugin.signal.addEventListener('abort', () => plugin.log.info({}, '${word} has stopped'))
      plugin.routes('api.waiting.example.com/v1', r => r
        .get('/word', () => ({ body: '${word}' }))
        .get('/wait', ({ signal }) => new Promise((resolve, reject) => {
          globalThis.release = () => resolve({ body: '${word}' })
          signal.addEventListener('abort', () => reject(signal.reason))
          plugin.log.info({}, 'the request waits')
        }))
        .post('/release', () => globalThis.release()))`
    return pluginModule('waiting', { setup })
  }

  /** Starts a request, reloads the plugin, and waits until the new code handles requests. */
  async function reloadWhileWaiting() {
    const dir = await writePlugin({ 'index.js': waitingModule('one') })
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startSharedServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const routes = '/apis/api.waiting.example.com/v1'
    await isInPhase(api, 'Started', 'waiting')
    const waiting = api.get(`${routes}/wait`)
    await eventually(() => expect(server.stderr()).toContain('the request waits'))
    await writeFiles(dir, { 'index.js': waitingModule('two') })
    await askReload(api, 'waiting')
    await eventually(async () => {
      const { object } = (await pluginStates(api)).get('waiting') ?? {}
      expect(JSON.stringify(object?.status.conditions)).toContain('"reason":"Reloaded"')
    })
    expect((await api.get(`${routes}/word`)).text).toBe('two')
    return { api, server, routes, waiting }
  }

  it('lets the requests that the previous code has begun finish', async () => {
    const { api, server, routes, waiting } = await reloadWhileWaiting()
    expect(server.stderr()).not.toContain('one has stopped')
    await api.post(`${routes}/release`, {})
    const response = await waiting
    expect([response.status, response.text]).toEqual([200, 'one'])
    await eventually(() => expect(server.stderr()).toContain('one has stopped'))
    expect(server.stderr()).not.toContain('two has stopped')
  })

  it('aborts these requests when the plugin is disabled', async () => {
    const { api, waiting } = await reloadWhileWaiting()
    await setEnabled(api, false, `${pluginsPath}/waiting`)
    expect(refusalOf(await waiting, 503).message).toBe('plugin waiting is stopping')
  })

  it('changes a schema', async () => {
    const { api, dir } = await serveReloaded()
    const body = (name: string) => ({
      apiVersion: 'reloaded.example.com/v1',
      kind: 'Indexed',
      metadata: { name },
      spec: { text: 'long' },
    })
    objectOf(await api.post(indexedsPath, body('a')), 201)
    await writeFiles(dir, { 'models.js': modelsModule('{ maxLength: 2 }') })
    await reload(api, 'Reloaded')
    await isInPhase(api, 'Started', 'reloaded')
    refusalOf(await api.post(indexedsPath, body('b')), 422)
    expect((await api.get(`${indexedsPath}?fieldSelector=spec.text%3Dlong`)).text).toContain('"name":"a"')
  })

  it('leaves a status of the present code after each reload', async () => {
    const release = (minor: number) => ({
      'package.json': JSON.stringify({
        ...{ name: 'written', version: `1.${minor}.0`, type: 'module', exports: './index.js' },
      }),
      'index.js': pluginModule('released', {
        ...{ kind: `Thing${minor}`, plural: `thing${minor}s` },
        setup: `plugin.routes('api${minor}.released.example.com/v1', r => r.get('/word', () => ({ body: 'a' })))`,
      }),
    })
    const dir = await writePlugin(release(0))
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startSharedServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    await isInPhase(api, 'Started', 'released')
    for (const minor of [1, 2, 3]) {
      await writeFiles(dir, release(minor))
      await askReload(api, 'released')
      await eventually(async () =>
        expect((await pluginStates(api)).get('released')?.object.status).toMatchObject({
          phase: 'Started',
          version: `1.${minor}.0`,
          kinds: [`thing${minor}s.released.example.com`],
          routes: [`api${minor}.released.example.com/v1`],
          conditions: expect.arrayContaining([
            expect.objectContaining({
              ...{ type: 'Reloaded', status: 'True' },
              message: `spec.reload "r${reloads}": version 1.${minor}.0 was loaded`,
            }),
          ]),
        }),
      )
    }
  })

  it.each([
    ['does not parse', entryModule('two', 'const ='), 'SyntaxError'],
    [
      'throws in setup',
      entryModule('two').replace('plugin.controller(', "throw new Error('no way'); plugin.controller("),
      'no way',
    ],
    [
      'has another name',
      entryModule('two').replace("name: 'reloaded'", "name: 'other'"),
      'restart the server',
    ],
    [
      'uses a reserved group',
      entryModule('two').replace('models: [Plain', "models: [{ ...Plain, group: 'x.setpoint.dev' }"),
      'reserved',
    ],
    [
      'cannot read what is stored',
      entryModule('two', later).replace('models: [Plain', 'models: [Later'),
      '1 object of plains.reloaded.example.com is stored in v1, which the plugin does not declare',
    ],
  ])('keeps the previous code running if the new code %s', async (_, code, why) => {
    const { api, server, dir } = await serveReloaded()
    objectOf(await api.post(plainsPath, plain('a')), 201)
    const indexeds = await Watch.open(server.url, indexedsPath)
    await indexeds.synced()
    await writeFiles(dir, { 'index.js': code })
    const failed = await reload(api, 'ReloadFailed')
    expect(failed).toContain(why)
    expect(failed).toContain(JSON.stringify(`spec.reload "r${reloads}": `).slice(1, -1))
    expect((await api.get(wordPath)).body).toEqual({ word: 'one', reply: 'a' })
    objectOf(await api.post(plainsPath, plain('b')), 201)
    await eventually(async () =>
      expect(objectOf(await api.get(`${plainsPath}/b`)).status).toEqual({ by: 'one' }),
    )
    await isInPhase(api, 'Started', 'reloaded')
    await writeFiles(dir, { 'index.js': entryModule('three') })
    await reload(api, 'Reloaded')
    expect((await api.get(wordPath)).body).toEqual({ word: 'three', reply: 'a' })
    // The failed reload did not touch it.
    expect((await indexeds.closed).code).toBe(1013)
  })

  it('starts a plugin whose code could not be loaded', async () => {
    const dir = await writePlugin({ ...files, 'index.js': 'const =' })
    cleanups.push(() => rm(dir, { recursive: true, force: true }))
    const server = await startSharedServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const [name = ''] = [...(await pluginStates(api)).keys()]
    await isInPhase(api, 'Failed', name)
    await writeFiles(dir, files)
    await askReload(api, name)
    await isInPhase(api, 'Started', 'reloaded')
    expect((await api.get(wordPath)).body).toEqual({ word: 'one', reply: 'a' })
    await eventually(async () => expect([...(await pluginStates(api)).keys()]).toEqual(['reloaded']))
  })
})
