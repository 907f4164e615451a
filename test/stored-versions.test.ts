import { randomUUID } from 'node:crypto'
import { cp, rm } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { type EtcdProcess, startEtcd } from './support/etcd.ts'
import { arrayOf, type Fields, fieldsOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { writePlugin } from './support/plugins.ts'
import { freePort } from './support/ports.ts'
import { type Running, type RunningServer, spawnProgram, startSharedServer } from './support/server.ts'
import { Watch } from './support/watch.ts'

/** Releases of one plugin that store its objects in different versions, on one store. */

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
  etcdPrefix = `/stored-${randomUUID().slice(0, 8)}`
})

afterEach(async () => {
  await Promise.all(programs.splice(0).map(program => program.kill()))
  await Promise.all(servers.splice(0).map(server => server.stop()))
})

const beta = `schema: { spec: { type: 'object', required: ['text'], properties: { text: { type: 'string' } } } }`
const hub = (more = '') =>
  `schema: { spec: { type: 'object', required: ['size'${more}], properties: { size: { type: 'integer' }, name: { type: 'string' } } } }`

/** The declarations of v1, with v1beta1 as another version, and of v1beta1 alone. */
const both = (stored: string) => `version: 'v1', ${hub()}, storedVersion: '${stored}', versions: [{
  name: 'v1beta1', ${beta},
  toHub: ({ spec }) => { hook(); if (spec.text === 'bad') throw new Error('bad as it is'); return { spec: { size: Number(spec.text) } } },
  fromHub: ({ spec }) => { if (spec.size === 1313) throw new Error('no to 1313'); return { spec: { text: String(spec.size) } } } }]`
const betaOnly = `version: 'v1beta1', ${beta}`
const hubOnly = `version: 'v1', ${hub()}`

/** Writes a release of the plugin. */
async function release(version: string, declaration: string): Promise<string> {
  const source = `import { defineModel, definePlugin, singleValueIndex } from '@setpoint/controller-runtime'
let calls = 0
const hook = () => { if (++calls > Number(process.env.DIES_AFTER ?? Infinity)) process.kill(process.pid, 'SIGKILL') }
export default definePlugin({ name: 'stored', models: [defineModel({
  group: 'stored.example.com', kind: 'Thing', singular: 'thing', plural: 'things', ${declaration} })] })`
  const dir = await writePlugin({ 'index.js': source }, { version })
  dirs.push(dir)
  return dir
}

async function start(plugin: string): Promise<RunningServer> {
  const server = await startSharedServer({ store: 'etcd', etcd, etcdPrefix, plugins: [plugin] })
  servers.push(server)
  return server
}

function things({ url }: { readonly url: string }, version: string): Collection {
  return new Collection(new Api(url), `stored.example.com/${version}`, 'Thing', 'things')
}

async function statusOf({ url }: { readonly url: string }): Promise<Fields> {
  return objectOf(await new Api(url).get(`${pluginsPath}/stored`)).status
}

async function migrationOf(server: { readonly url: string }): Promise<Fields> {
  const [migration] = arrayOf((await statusOf(server)).migrations ?? [])
  return fieldsOf(migration ?? {})
}

async function problemsOf(server: { readonly url: string }): Promise<string> {
  return JSON.stringify((await statusOf(server)).problems ?? [])
}

async function fill(collection: Collection, count: number, spec: (n: number) => object): Promise<void> {
  for (let n = 0; n < count; n++) await collection.create(`thing-${n}`, spec(n))
}

describe('a plugin that cannot read a stored version', () => {
  it('fails to start and says how many objects have it', async () => {
    const before = await start(await release('1.0.0', betaOnly))
    await fill(things(before, 'v1beta1'), 3, n => ({ text: `${n}` }))
    await before.stop()
    const after = await start(await release('2.0.0', hubOnly))
    expect(await statusOf(after)).toMatchObject({
      phase: 'Failed',
      message: expect.stringContaining('3 objects of things.stored.example.com are stored in v1beta1'),
    })
    const { api, path } = things(after, 'v1')
    refusalOf(await api.get(path), 503)
    expect((await api.delete(`${path}/thing-0`)).status).toBe(200)
    refusalOf(await api.delete(`${path}/thing-0`), 404)
  })

  it('starts once all of them have been migrated', async () => {
    const before = await start(await release('1.0.0', betaOnly))
    await fill(things(before, 'v1beta1'), 3, n => ({ text: `${n}` }))
    await before.stop()
    const between = await start(await release('2.0.0', both('v1')))
    await expect.poll(() => migrationOf(between)).toMatchObject({ done: 3, failed: 0, total: 3 })
    await between.stop()
    const after = await start(await release('3.0.0', hubOnly))
    expect(await statusOf(after)).toMatchObject({ phase: 'Started' })
    expect((await things(after, 'v1').list()).items.map(({ spec }) => spec.size).sort()).toEqual([0, 1, 2])
  })
})

describe('the stored version in force', () => {
  it('makes a server that does not know it refuse writes, and read and delete what it can', async () => {
    const old = await start(await release('1.0.0', betaOnly))
    const oldThings = things(old, 'v1beta1')
    await oldThings.create('a', { text: '1' })
    const newer = await start(await release('2.0.0', both('v1')))
    refusalOf(await oldThings.api.post(oldThings.path, oldThings.body('b', { text: '2' })), 503)
    await expect.poll(() => migrationOf(newer)).toMatchObject({ done: 1 })
    await expect.poll(async () => (await oldThings.api.get(oldThings.at('a'))).status).toBe(503)
    refusalOf(await oldThings.api.get(oldThings.path), 503)
    await things(newer, 'v1').create('c', { size: 3 })
    expect((await oldThings.api.delete(oldThings.at('a'))).status).toBe(200)
    expect((await things(newer, 'v1').list()).names).toEqual(['c'])
  })

  it('ends the lists and watches by an index of a server that does not know it, which cannot tell what they select', async () => {
    const index = "indexes: [singleValueIndex({ name: 'text', indexFunc: ({ spec }) => spec.text })]"
    const old = await start(await release('1.0.0', `${betaOnly}, ${index}`))
    const oldThings = things(old, 'v1beta1')
    const { api, path } = oldThings
    await oldThings.create('a', { text: '1' })
    const selection = `fieldSelector=${encodeURIComponent('text=2')}`
    const watch = await Watch.open(old.url, `${path}?watch=true&${selection}`)
    await watch.until(({ events }) => events.some(({ type }) => type === 'BOOKMARK'))
    const newer = await start(await release('2.0.0', both('v1')))
    await things(newer, 'v1').create('b', { size: 2 })
    await watch.closed
    expect(watch.events.at(-1)).toMatchObject({ type: 'ERROR', raw: { object: { code: 503 } } })
    refusalOf(await api.get(`${path}?${selection}`), 503)
    refusalOf(await api.get(`${path}?sort=text`), 503)
    await expect(Watch.open(old.url, `${path}?watch=true&${selection}`)).rejects.toThrow()
    // Also once the object has gone: what was there before is still asked for.
    for (const name of ['a', 'b']) await api.delete(`${path}/${name}`)
    refusalOf(await api.get(`${path}?${selection}`), 503)
    expect((await oldThings.list()).names).toEqual([])
  })

  it('is what every server stores that knows it, whatever its own plugin declares', async () => {
    const old = await start(await release('1.0.0', both('v1beta1')))
    await things(old, 'v1').create('a', { size: 1 })
    const newer = await start(await release('2.0.0', both('v1')))
    await expect.poll(() => migrationOf(newer)).toMatchObject({ to: 'v1', done: 1 })
    await things(old, 'v1').create('b', { size: 2 })
    await things(old, 'v1beta1').create('c', { text: '3' })
    await Promise.all(servers.splice(0).map(server => server.stop()))
    // Everything is stored in v1.
    const last = await start(await release('3.0.0', hubOnly))
    expect((await things(last, 'v1').list()).names).toHaveLength(3)
  })

  it('is not changed back by an older release that starts later', async () => {
    await start(await release('2.0.0', both('v1')))
    const old = await start(await release('1.0.0', both('v1beta1')))
    await things(old, 'v1').create('a', { size: 1 })
    await Promise.all(servers.splice(0).map(server => server.stop()))
    const last = await start(await release('3.0.0', hubOnly))
    expect((await things(last, 'v1').list()).names).toEqual(['a'])
  })

  it('is not changed back by an older release than one that was reloaded', async () => {
    const dir = await release('1.0.0', both('v1beta1'))
    const reloaded = await start(dir)
    await cp(await release('3.0.0', both('v1')), dir, { recursive: true })
    const { api } = things(reloaded, 'v1')
    objectOf(await api.mergePatch(`${pluginsPath}/stored`, { spec: { reload: 'now' } }))
    await expect.poll(() => statusOf(reloaded)).toMatchObject({ phase: 'Started', version: '3.0.0' })
    const old = await start(await release('2.0.0', both('v1beta1')))
    await things(old, 'v1').create('a', { size: 1 })
    await Promise.all(servers.splice(0).map(server => server.stop()))
    const last = await start(await release('4.0.0', hubOnly))
    expect((await things(last, 'v1').list()).names).toEqual(['a'])
  })
})

describe('the migration of stored objects', () => {
  it('rewrites each once, with the same content and generation', async () => {
    const old = await start(await release('1.0.0', both('v1beta1')))
    await fill(things(old, 'v1'), 20, n => ({ size: n }))
    const before = await things(old, 'v1').list()
    const plugin = await release('2.0.0', both('v1'))
    const watch = await Watch.open(old.url, things(old, 'v1').path)
    await watch.synced()
    const newer = await Promise.all([start(plugin), start(plugin)])
    for (const each of newer)
      await expect
        .poll(() => migrationOf(each))
        .toEqual({
          kind: 'things.stored.example.com',
          to: 'v1',
          total: 20,
          done: 20,
          failed: 0,
        })
    await watch.until(({ changes }) => changes.length === 40)
    const after = await things(old, 'v1').list()
    const contents = (list: typeof before) =>
      new Map(
        list.items.map(({ raw, metadata }) => [
          metadata.name,
          { ...raw, metadata: { ...fieldsOf(raw.metadata), version: '', resourceVersion: '' } },
        ]),
      )
    expect(contents(after)).toEqual(contents(before))
    expect(watch.changes.slice(20).every(({ type }) => type === 'MODIFIED')).toBe(true)
    expect(new Set(watch.changes.slice(20).map(({ name }) => name)).size).toBe(20)
    await watch.close()
  })

  it('is resumed after kill -9', async () => {
    const old = await start(await release('1.0.0', both('v1beta1')))
    await fill(things(old, 'v1'), 40, n => ({ size: n }))
    await old.stop()
    const plugin = await release('2.0.0', both('v1'))
    const args = ['serve', '--etcd-endpoints', etcd.endpoint, '--etcd-prefix', etcdPrefix, '--plugin', plugin]
    const dying = spawnProgram([...args, '--listen', `127.0.0.1:${await freePort()}`], {
      // Reading the objects takes 40 conversions.
      env: { DIES_AFTER: '55' },
    })
    programs.push(dying)
    expect((await dying.ended).signal).toBe('SIGKILL')
    const next = await start(plugin)
    await expect
      .poll(async () => {
        const { done, total, failed } = await migrationOf(next)
        return done === total && failed === 0 && Number(total) > 0
      })
      .toBe(true)
    await next.stop()
    const last = await start(await release('3.0.0', hubOnly))
    expect((await things(last, 'v1').list()).items).toHaveLength(40)
  })

  it('leaves objects that fail, and reports them', async () => {
    const old = await start(await release('1.0.0', betaOnly))
    await fill(things(old, 'v1beta1'), 3, n => ({ text: n === 1 ? 'bad' : `${n}` }))
    await old.stop()
    const next = await start(await release('2.0.0', both('v1')))
    await expect.poll(() => migrationOf(next)).toMatchObject({ total: 3, done: 2, failed: 1 })
    await expect.poll(() => problemsOf(next)).toContain('bad as it is')
    const v1 = things(next, 'v1')
    const v1beta1 = things(next, 'v1beta1')
    // It can be read in the version that it is stored in, and repaired there.
    refusalOf(await v1.api.get(v1.at('thing-1')), 500)
    refusalOf(await v1.api.get(v1.path), 500)
    expect((await v1beta1.read('thing-1')).spec).toEqual({ text: 'bad' })
    refusalOf(await v1beta1.api.mergePatch(v1beta1.at('thing-1'), { metadata: { labels: { l: 'v' } } }), 500)
    objectOf(await v1beta1.api.mergePatch(v1beta1.at('thing-1'), { spec: { text: '1' } }))
    expect((await v1.list()).items.map(({ spec }) => spec.size).sort()).toEqual([0, 1, 2])
  })

  it('does not stand in the way of deletions', async () => {
    const old = await start(await release('1.0.0', betaOnly))
    const finalizers = ['example.com/f']
    for (const name of ['a', 'b']) await things(old, 'v1beta1').create(name, { text: 'bad' }, { finalizers })
    await old.stop()
    const next = await start(await release('2.0.0', both('v1')))
    const v1 = things(next, 'v1')
    for (const name of ['a', 'b']) {
      expect((await v1.api.delete(v1.at(name))).status).toBe(200)
      expect((await v1.api.mergePatch(v1.at(name), { metadata: { finalizers: null } })).status).toBe(200)
    }
    expect((await v1.list()).names).toEqual([])
  })
})

describe('a conversion that fails on a read', () => {
  it('is listed on the status until the object changes', async () => {
    const server = await start(await release('1.0.0', both('v1')))
    const v1 = things(server, 'v1')
    const v1beta1 = things(server, 'v1beta1')
    await v1.create('a', { size: 1313 })
    refusalOf(await v1beta1.api.get(v1beta1.at('a')), 500)
    await expect.poll(() => problemsOf(server)).toContain('no to 1313')
    expect(await problemsOf(server)).toContain('conversion of stored.example.com/things to v1beta1')
    objectOf(await v1.api.mergePatch(v1.at('a'), { spec: { size: 12 } }))
    await expect.poll(() => problemsOf(server)).toBe('[]')
    expect((await v1beta1.read('a')).spec).toEqual({ text: '12' })
  })
})

describe('a stricter schema', () => {
  it('lists the stored objects that violate it on the status, until they are repaired', async () => {
    const old = await start(await release('1.0.0', hubOnly))
    await fill(things(old, 'v1'), 7, n => (n === 0 ? { size: n, name: 'x' } : { size: n }))
    await old.stop()
    const strict = `version: 'v1', ${hub(`, 'name'`)}`
    const next = await start(await release('2.0.0', strict))
    await expect.poll(() => problemsOf(next)).toContain('6 stored objects violate the schema')
    expect(await problemsOf(next)).toContain('spec.name')
    expect(await problemsOf(next)).toContain('and 1 more')
    const v1 = things(next, 'v1')
    expect((await v1.list()).items).toHaveLength(7)
    objectOf(await v1.api.mergePatch(v1.at('thing-1'), { spec: { name: 'x' } }))
    await expect.poll(() => problemsOf(next)).toContain('5 stored objects violate the schema')
    for (let n = 2; n < 7; n++) objectOf(await v1.api.delete(v1.at(`thing-${n}`)))
    await expect.poll(() => problemsOf(next)).toBe('[]')
  })
})

describe('a stricter rule or hook', () => {
  it('lists the stored objects that violate it or cannot be checked, until they are repaired', async () => {
    const old = await start(await release('1.0.0', hubOnly))
    await fill(things(old, 'v1'), 8, n => (n === 7 ? { size: 2, name: 'throws' } : { size: n, name: 'x' }))
    await old.stop()
    const strict = `version: 'v1', schema: { spec: { type: 'object', properties: {
        size: { type: 'integer', 'x-kubernetes-validations': [
          { rule: 'self < 3', message: 'is too large' },
          { rule: 'self > oldSelf', message: 'must grow' },
          { rule: 'oldSelf.hasValue()', optionalOldSelf: true, message: 'must not be new' }] },
        name: { type: 'string' } } } },
      validate({ spec }, { previous, user }) {
        if (spec.name === 'throws') throw Object.create(null)
        if (spec.size === 0) throw new Error('no zero')
        if (spec.size === 1 && previous?.spec.size === 1) return [{ field: 'spec.name', message: 'not by ' + user.name + ' of ' + user.groups }]
      }`
    const next = await start(await release('2.0.0', strict))
    const problems = async () => arrayOf((await statusOf(next)).problems ?? []).map(each => fieldsOf(each))
    await expect.poll(problems).toEqual([
      {
        source: 'stored objects of stored.example.com/things',
        message:
          '5 stored objects violate the schema or the rules of the kind: "thing-1" (spec.name: not by setpoint:server of setpoint:admins), ' +
          '"thing-3" (spec.size: is too large), "thing-4" (spec.size: is too large), "thing-5" (spec.size: is too large), ' +
          '"thing-6" (spec.size: is too large); ' +
          '2 stored objects could not be checked: "thing-0" (the validate hook failed: no zero), ' +
          '"thing-7" (the validate hook failed: a value that has no text)',
      },
    ])
    const v1 = things(next, 'v1')
    for (const name of ['thing-0', 'thing-1', 'thing-3', 'thing-4', 'thing-7'])
      objectOf(await v1.api.delete(v1.at(name)))
    await expect
      .poll(problems)
      .toMatchObject([{ message: expect.stringMatching(/^2 stored objects violate/) }])
    for (const name of ['thing-5', 'thing-6']) objectOf(await v1.api.delete(v1.at(name)))
    await expect.poll(problems).toEqual([])
    expect((await v1.list()).names).toEqual(['thing-2'])
  })
})

describe('a new default', () => {
  const withDefault = `version: 'v1', schema: { spec: { type: 'object', required: ['size', 'colour'], properties: {
      size: { type: 'integer' }, name: { type: 'string' }, colour: { type: 'string', default: 'red' } } } },
    indexes: [singleValueIndex({ name: 'spec.colour', indexFunc: ({ spec }) => spec.colour })]`

  it('is filled in when an object without it is read, and stored by its next write', async () => {
    const old = await start(await release('1.0.0', hubOnly))
    const before = await things(old, 'v1').create('a', { size: 1 }, { finalizers: ['example.com/f'] })
    await things(old, 'v1').create('b', { size: 2 })
    await old.stop()
    const next = await start(await release('2.0.0', withDefault))
    const v1 = things(next, 'v1')
    const expected = { ...before.raw, spec: { size: 1, colour: 'red' } }
    expect((await v1.read('a')).raw).toEqual(expected)
    expect((await v1.list({ fieldSelector: 'spec.colour=red' })).names).toEqual(['b', 'a'])
    const watch = await Watch.open(next.url, v1.path)
    await watch.synced()
    expect(fieldsOf(watch.events[0]?.raw.object)).toEqual(expected)
    // Nothing that a client sees changes, so nothing is stored.
    const same = objectOf(await v1.api.put(v1.at('a'), expected))
    expect(same.raw).toEqual(expected)
    objectOf(await v1.api.mergePatch(v1.at('a'), { spec: { colour: 'red' } }))
    const labelled = objectOf(await v1.api.mergePatch(v1.at('a'), { metadata: { labels: { l: 'v' } } }))
    expect([labelled.spec, labelled.metadata.generation]).toEqual([{ size: 1, colour: 'red' }, 1])
    const changed = objectOf(await v1.api.mergePatch(v1.at('b'), { spec: { size: 3 } }))
    expect(changed.metadata.generation).toBe(2)
    expect(objectOf(await v1.api.delete(v1.at('a'))).spec).toEqual({ size: 1, colour: 'red' })
    objectOf(await v1.api.mergePatch(v1.at('a'), { metadata: { finalizers: null } }))
    await watch.until(({ story }) => story.includes('DELETED a'))
    expect(watch.story).toEqual(['ADDED a', 'ADDED b', 'MODIFIED a', 'MODIFIED b', 'MODIFIED a', 'DELETED a'])
    expect(fieldsOf(watch.changes.at(-1)?.raw.object).spec).toEqual({ size: 1, colour: 'red' })
    await watch.close()
    await next.stop()
    const without = await start(await release('3.0.0', hubOnly))
    expect((await things(without, 'v1').read('b')).spec).toEqual({ size: 3, colour: 'red' })
  })

  it('of the version that objects are stored in is filled in before the conversion', async () => {
    const old = await start(await release('1.0.0', betaOnly))
    await things(old, 'v1beta1').create('a', { text: '1' })
    await old.stop()
    const declared = `version: 'v1', schema: { spec: { type: 'object', required: ['size'], properties: {
        size: { type: 'integer' }, shade: { type: 'string' }, grade: { type: 'string', default: 'A' } } } },
      storedVersion: 'v1beta1', versions: [{ name: 'v1beta1',
        schema: { spec: { type: 'object', properties: { text: { type: 'string' }, shade: { type: 'string', default: 'dark' } } } },
        toHub: ({ spec }) => ({ spec: { size: Number(spec.text), shade: spec.shade.toUpperCase() } }),
        fromHub: ({ spec }) => ({ spec: { text: String(spec.size), shade: spec.shade.toLowerCase() } }) }]`
    const next = await start(await release('2.0.0', declared))
    const v1 = things(next, 'v1')
    expect((await v1.read('a')).spec).toEqual({ size: 1, shade: 'DARK', grade: 'A' })
    const changed = objectOf(await v1.api.mergePatch(v1.at('a'), { spec: { size: 2 } }))
    expect([changed.spec, changed.metadata.generation]).toEqual([{ size: 2, shade: 'DARK', grade: 'A' }, 2])
    expect((await things(next, 'v1beta1').read('a')).spec).toEqual({ text: '2', shade: 'dark' })
  })
})
