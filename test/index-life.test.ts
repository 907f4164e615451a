import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { freePort } from './support/ports.ts'
import { type Running, type RunningServer, spawnProgram, startSharedServer } from './support/server.ts'
import { Watch, type WatchEvent } from './support/watch.ts'
import { eventually } from './support/worlds.ts'

/** Servers of one control plane with different versions of a plugin, and so with different indexes. */

let etcd: EtcdProcess
let etcdPrefix: string
const servers: RunningServer[] = []
const programs: Running[] = []
const dirs: string[] = []

beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
})

afterAll(async () => {
  await etcd.stop()
  await Promise.all(dirs.map(dir => rm(dir, { recursive: true, force: true })))
})

beforeEach(() => {
  etcdPrefix = `/life-${randomUUID().slice(0, 8)}`
})

afterEach(async () => {
  await Promise.all(servers.splice(0).map(server => server.stop()))
  await Promise.all(programs.splice(0).map(program => program.kill()))
})

/** The unique index of codes in its two versions, and others, as lines of JavaScript. */
const byCode = `singleValueIndex({ name: 'code', unique: true, indexFunc: o => o.spec.code })`
const byLowerCode = `singleValueIndex({ name: 'code', version: 2, unique: true, indexFunc: o => { hook(); return o.spec.code?.toLowerCase() } })`
const byOther = `singleValueIndex({ name: 'other', unique: true, indexFunc: o => o.spec.other })`
const slowly = `singleValueIndex({ name: 'slowly', indexFunc: o => { hook(); return o.spec.code } })`
const picky = `singleValueIndex({ name: 'picky', indexFunc: o => { if (o.spec.bad) throw new Error('bad as it is'); return o.spec.code } })`

/** Code that index functions also run. Default none. */
const hooks = {
  dies: `let calls = 0
    const hook = () => { if (++calls > Number(process.env.DIES_AFTER ?? Infinity)) process.kill(process.pid, 'SIGKILL') }`,
  // Quick for the first page, then slow until the file exists.
  slow: `import { existsSync } from 'node:fs'
    let calls = 0
    const hook = () => {
      if (++calls <= 600) return
      const end = performance.now() + 20
      while (!existsSync(process.env.SEEN) && performance.now() < end);
    }`,
}

/** Writes one version of the plugin: a kind with these indexes, and another kind that does not change. */
async function writePlugin(version: string, indexes: readonly string[], hook = hooks.dies): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'setpoint-life-'))
  dirs.push(dir)
  const model = (kind: string, own: readonly string[]) => `defineModel({
    group: 'life.example.com', version: 'v1', kind: '${kind}', singular: '${kind.toLowerCase()}', plural: '${kind.toLowerCase()}s',
    schema: { spec: { type: 'object' } }, indexes: [${own.join(', ')}] })`
  await writeFile(
    join(dir, 'package.json'),
    JSON.stringify({ name: 'life-plugin', version, type: 'module', exports: './index.js' }),
  )
  await writeFile(
    join(dir, 'index.js'),
    `import { defineModel, definePlugin, singleValueIndex } from '@setpoint/controller-runtime'
    ${hook}
    export default definePlugin({ name: 'life', models: [${model('Thing', indexes)}, ${model('Bystander', [])}] })`,
  )
  return dir
}

async function start(plugin: string): Promise<RunningServer> {
  const server = await startSharedServer({ store: 'etcd', etcd, etcdPrefix, plugins: [plugin] })
  servers.push(server)
  return server
}

function thingsOf({ url }: { readonly url: string }): Collection {
  return new Collection(new Api(url), 'life.example.com/v1', 'Thing', 'things')
}

function bystandersOf({ url }: { readonly url: string }): Collection {
  return new Collection(new Api(url), 'life.example.com/v1', 'Bystander', 'bystanders')
}

async function statusOf(server: { readonly url: string }): Promise<Fields> {
  return objectOf(await new Api(server.url).get(`${pluginsPath}/life`)).status
}

function conditionOf(status: Fields, type: string): Fields {
  const conditions = arrayOf(status.conditions ?? []).map(fieldsOf)
  return conditions.find(condition => condition.type === type) ?? {}
}

function statusIn({ raw }: WatchEvent): Fields {
  return fieldsOf(fieldsOf(raw.object).status ?? {})
}

function isSuperseded(event: WatchEvent): boolean {
  return conditionOf(statusIn(event), 'UniqueIndexesInForce').reason === 'Superseded'
}

function messagesOf(status: Fields): string[] {
  return arrayOf(status.problems ?? []).map(problem => textOf(fieldsOf(problem).message))
}

/** Creates objects, sixteen at a time. */
async function fill(things: Collection, count: number, spec: (i: number) => object): Promise<void> {
  for (let at = 0; at < count; at += 16) {
    const some = Array.from({ length: Math.min(16, count - at) }, (_, i) => at + i)
    await Promise.all(some.map(i => things.create(`thing-${i}`, spec(i))))
  }
}

describe('a newer version of a unique index', () => {
  it('stops writes on the server with the older one, which still reads and deletes and reports why', async () => {
    const old = await start(await writePlugin('1.0.0', [byCode]))
    const oldThings = thingsOf(old)
    await oldThings.create('a', { code: 'X' }, { finalizers: ['example.com/f'] })
    const newer = await start(await writePlugin('2.0.0', [byLowerCode]))
    const newerThings = thingsOf(newer)
    const reports = await Watch.open(newer.url, `${pluginsPath}/life`)
    onTestFinished(async () => void (await reports.close()))
    refusalOf(await newerThings.api.post(newerThings.path, newerThings.body('b', { code: 'x' })), 409)
    refusalOf(await oldThings.api.post(oldThings.path, oldThings.body('b', { code: 'y' })), 503)
    refusalOf(await oldThings.api.mergePatch(oldThings.at('a'), { spec: { code: 'z' } }), 503)
    expect((await oldThings.list()).names).toEqual(['a'])
    await bystandersOf(old).create('other-kinds-go-on', {})
    await reports.until(({ events }) => events.some(isSuperseded))
    const [status = {}] = reports.events.filter(isSuperseded).map(statusIn)
    expect(conditionOf(status, 'Ready').status).toBe('True')
    expect(messagesOf(status).join()).toContain('version 2 of the unique index code')
    // Deletion must always work.
    objectOf(await oldThings.api.delete(oldThings.at('a')))
    objectOf(await oldThings.api.mergePatch(oldThings.at('a'), { metadata: { finalizers: null } }))
    await newerThings.create('b', { code: 'x' })
  })

  it('keeps its findings on the Plugin object when the server with the older one finds itself superseded', async () => {
    const old = await start(await writePlugin('1.0.0', [byCode]))
    const oldThings = thingsOf(old)
    await oldThings.create('a', { code: 'X' })
    await oldThings.create('clash', { code: 'x' })
    const newer = await start(await writePlugin('2.0.0', [byLowerCode]))
    const reports = await Watch.open(newer.url, `${pluginsPath}/life`)
    onTestFinished(async () => void (await reports.close()))
    refusalOf(await oldThings.api.post(oldThings.path, oldThings.body('b', { code: 'y' })), 503)
    await reports.until(({ events }) => events.some(isSuperseded))
    await reports.until(({ changes }) => {
      const [status = {}] = changes.slice(-1).map(statusIn)
      return status.version === '2.0.0' && messagesOf(status).some(message => message.includes('clash'))
    })
    await old.stop()
    expect(conditionOf(await statusOf(newer), 'UniqueIndexesInForce').reason).toBe('InForce')
  })

  it('is not reverted when a server with the older one starts', async () => {
    const plugin = await writePlugin('1.0.0', [byCode])
    const old = await start(plugin)
    await thingsOf(old).create('a', { code: 'X' })
    const newer = await start(await writePlugin('2.0.0', [byLowerCode]))
    await old.restart()
    refusalOf(await thingsOf(old).api.post(thingsOf(old).path, thingsOf(old).body('b', { code: 'x' })), 503)
    const things = thingsOf(newer)
    await things.create('c', { code: 'y' })
    refusalOf(await things.api.post(things.path, things.body('b', { code: 'x' })), 409)
    expect((await thingsOf(old).list()).items).toHaveLength(2)
    await newer.stop()
    await old.restart()
    expect(conditionOf(await statusOf(old), 'UniqueIndexesInForce').reason).toBe('Superseded')
  })
})

describe('sets of indexes with different additions', () => {
  it('follow the latest start; an object that lost its value regains it when its set returns', async () => {
    const before = await writePlugin('1.0.0', [byCode])
    const left = await start(before)
    await thingsOf(left).create('a', { code: 'x', other: 'y' })
    const right = await start(await writePlugin('1.1.0', [byCode, byOther]))
    const refused = () =>
      thingsOf(left).api.post(thingsOf(left).path, thingsOf(left).body('b', { other: 'y' }))
    refusalOf(await refused(), 503)
    const things = thingsOf(right)
    for (let i = 0; i < 5; i++) {
      refusalOf(await refused(), 503)
      objectOf(await things.api.mergePatch(things.at('a'), { spec: { note: `${i}` } }))
    }
    await start(before)
    await eventually(async () => objectOf(await refused(), 201))
    await eventually(async () =>
      expect(conditionOf(await statusOf(left), 'UniqueIndexesInForce')).toMatchObject({
        status: 'True',
        reason: 'InForce',
      }),
    )
    refusalOf(await things.api.post(things.path, things.body('c', {})), 503)
  })
})

describe('a server killed while it recomputes more than a page of objects', () => {
  it('leaves them to the next start; until then that kind refuses writes, and others work', async () => {
    const count = 1_200
    const old = await start(await writePlugin('1.0.0', [byCode]))
    const things = thingsOf(old)
    await fill(things, count, i => ({ code: `CODE-${i % (count / 2)}${i < count / 2 ? '' : '-b'}` }))
    // By the newer function, the oldest object has this one's value as well.
    await things.create('clash', { code: 'code-7' })
    const plugin = await writePlugin('2.0.0', [byLowerCode])
    const dying = spawnProgram(
      [
        ...['serve', '--listen', '127.0.0.1:0', '--etcd-endpoints', etcd.endpoint],
        ...['--etcd-prefix', etcdPrefix, '--plugin', plugin],
      ],
      { env: { DIES_AFTER: String(count / 2) } },
    )
    programs.push(dying)
    expect((await dying.ended).signal).toBe('SIGKILL')
    refusalOf(await things.api.post(things.path, things.body('late', { code: 'late' })), 503)
    expect((await things.list({ size: '1' })).raw.total).toBe(count + 1)
    await bystandersOf(old).create('other-kinds-go-on', {})

    const newer = thingsOf(await start(plugin))
    for (const i of [0, 7, count / 2 - 1]) {
      const refusal = refusalOf(
        await newer.api.post(newer.path, newer.body('twin', { code: `cODE-${i}` })),
        409,
      )
      expect(refusal.message).toContain(`held by "thing-${i}"`)
    }
    refusalOf(await newer.api.post(newer.path, newer.body('twin', { code: 'code-3-B' })), 409)
    await newer.create('free', { code: 'CODE-free' })
    refusalOf(await things.api.post(things.path, things.body('late', { code: 'late' })), 503)
  })
})

describe('clashes in stored data', () => {
  it("are listed in the plugin's status up to a bound, also after a restart, until they are resolved", async () => {
    const old = await start(await writePlugin('1.0.0', []))
    for (let i = 0; i < 32; i++)
      await thingsOf(old).create(`thing-${i}`, { code: i < 2 ? 'same' : `pair-${i >> 1}` })
    for (let i = 0; i < 30; i++) await thingsOf(old).create(`clash-${i}`, { code: `pair-${(i % 15) + 1}` })
    await old.stop()
    const plugin = await writePlugin('1.1.0', [byCode])
    const server = await start(plugin)
    const other = await start(plugin)
    for (const each of [server, other]) {
      const messages = messagesOf(await statusOf(each))
      expect(messages).toHaveLength(21)
      expect(messages.at(-1)).toBe('26 more of these problems are not listed')
    }
    const things = thingsOf(other)
    for (const { metadata } of (await things.list()).items) {
      if (metadata.name.startsWith('clash-') || Number(metadata.name.slice(6)) % 2 === 1)
        if (metadata.name !== 'thing-1') await things.api.delete(things.at(metadata.name))
    }
    const told = '"thing-1" has the value "same", which "thing-0" holds'
    await eventually(async () => expect(messagesOf(await statusOf(server))).toEqual([told]))
    await server.restart()
    expect(messagesOf(await statusOf(server))).toEqual([told])
    objectOf(await things.api.mergePatch(things.at('thing-1'), { spec: { note: 'as it is' } }))
    refusalOf(await things.api.mergePatch(things.at('thing-1'), { spec: { code: 'pair-1' } }), 409)
    objectOf(await things.api.mergePatch(things.at('thing-0'), { spec: { code: 'another' } }))
    objectOf(await things.api.mergePatch(things.at('thing-1'), { spec: { note: 'gets it now' } }))
    refusalOf(await things.api.mergePatch(things.at('thing-0'), { spec: { code: 'same' } }), 409)
    await eventually(async () => expect(messagesOf(await statusOf(server))).toEqual([]))
  })
})

describe('a stored object that an index function cannot handle', () => {
  it('is reported, also when another server wrote it later, and can be read, listed and deleted', async () => {
    const careless = await start(await writePlugin('1.0.0', [byCode]))
    await thingsOf(careless).create('early', { code: 'a', bad: true }, { finalizers: ['example.com/f'] })
    const careful = await start(await writePlugin('1.0.1', [byCode, picky]))
    const things = thingsOf(careful)
    expect(messagesOf(await statusOf(careful))).toEqual(['fails for "early": bad as it is'])
    refusalOf(await things.api.post(things.path, things.body('refused', { bad: true })), 422)
    await thingsOf(careless).create('late', { code: 'b', bad: true })
    await eventually(async () =>
      expect(messagesOf(await statusOf(careful)).sort()).toEqual([
        'fails for "early": bad as it is',
        'fails for "late": bad as it is',
      ]),
    )
    expect((await things.read('late')).spec.bad).toBe(true)
    expect((await things.list({ sort: 'picky' })).names).toEqual(['early', 'late'])
    objectOf(await things.api.delete(things.at('late')))
    objectOf(await things.api.delete(things.at('early')))
    objectOf(await things.api.mergePatch(things.at('early'), { metadata: { finalizers: null } }))
    expect((await things.list()).names).toEqual([])
    await eventually(async () => expect(messagesOf(await statusOf(careful))).toEqual([]))
  })
})

describe('a server whose indexes take long to build', () => {
  /** Starts a server without waiting for it. Its index functions are slow until `finish` is called. */
  async function startSlowly(version: string, indexes: readonly string[]) {
    const port = await freePort()
    const plugin = await writePlugin(version, indexes, hooks.slow)
    const SEEN = join(plugin, 'seen')
    const program = spawnProgram(
      [
        ...['serve', '--listen', `127.0.0.1:${port}`, '--etcd-endpoints', etcd.endpoint],
        ...['--etcd-prefix', etcdPrefix, '--plugin', plugin],
      ],
      { env: { SEEN } },
    )
    programs.push(program)
    const server = { url: `http://127.0.0.1:${port}` }
    const api = new Api(server.url)
    const isReady = async () => (await api.get('/readyz')).status === 200
    return { server, api, isReady, finish: () => writeFile(SEEN, '') }
  }

  it('is not ready, reports its progress, serves everything else, and serves the kind when it is ready', async () => {
    const count = 1_200
    const old = await start(await writePlugin('1.0.0', [byCode]))
    await fill(thingsOf(old), count, i => ({ code: `CODE-${i}` }))
    const { server, api, isReady, finish } = await startSlowly('2.0.0', [byLowerCode])
    const seen = await eventually(async () => {
      const { status, text } = await api.get('/readyz?verbose')
      const line = /^\[\+\]plugin\/life starting;.*life\.example\.com\/things: .*, ([1-9]\d*) objects so far/m
      const objects = line.exec(text)?.[1]
      expect(objects, text).toBeDefined()
      expect(status).toBe(503)
      expect(text).toContain('[-]startup failed: these plugins are still starting: life')
      return Number(objects)
    })
    expect(seen).toBeLessThanOrEqual(count)
    refusalOf(await api.get(thingsOf(server).path), 503)
    expect((await api.get(pluginsPath)).status).toBe(200)
    expect((await api.get('/livez')).status).toBe(200)
    await finish()
    await eventually(async () => expect(await isReady()).toBe(true))
    await thingsOf(server).create('now', { code: 'now' })
    expect((await api.get('/readyz?verbose')).text).toContain('[+]plugin/life ok')
  })

  it('takes over from another one when it is ready, and no request is refused', async () => {
    const old = await start(await writePlugin('1.0.0', [byCode]))
    await fill(thingsOf(old), 700, i => ({ code: `CODE-${i}` }))
    const next = await startSlowly('1.0.0', [byCode, slowly])
    let things = thingsOf(old)
    let served = 0
    /** Writes and lists on the present server. */
    const use = async () => {
      const name = `used-${served++}`
      await things.create(name, { code: name })
      expect((await things.list({ size: '1' })).items).toHaveLength(1)
    }
    await eventually(async () => expect((await next.api.get('/readyz')).status).toBe(503))
    await use()
    await next.finish()
    while (!(await next.isReady())) await use()
    things = thingsOf(next.server)
    const stopped = old.stop()
    for (let n = 0; n < 20; n++) await use()
    await stopped
    await use()
  })
})
