import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type ApiObject, defineModel, definePlugin, modelOfVersion } from '@setpoint/controller-runtime'
import { startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { afterAll, afterEach, beforeAll, describe, expect, it, test } from 'vitest'
import { WebSocket } from 'ws'
import { Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf } from './support/json.ts'
import { calls, Gadget } from './support/versioned.ts'
import { Watch } from './support/watch.ts'

/** One kind in several versions, over HTTP. */

const plugin = definePlugin({ name: 'versions', models: [Gadget] })
const group = Gadget.group

let server: TestServer
let url: string
let api: Api
let v1: Collection
let v1beta1: Collection
const watches: Watch[] = []

beforeAll(async () => {
  server = await startTestServer({ plugins: [plugin] })
  url = await server.listen()
  api = new Api(url)
  v1 = new Collection(api, `${group}/v1`, 'Gadget', 'gadgets')
  v1beta1 = new Collection(api, `${group}/v1beta1`, 'Gadget', 'gadgets')
})

afterAll(() => server.close())

afterEach(async () => {
  for (const watch of watches.splice(0)) watch.close()
  await v1.clear()
})

async function watch(path: string): Promise<Watch> {
  const opened = await Watch.open(url, path)
  watches.push(opened)
  return opened
}

/** Returns the Warning header of a WebSocket handshake. */
async function handshakeWarning(path: string): Promise<string | string[] | undefined> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}${path}`)
  const [response]: IncomingMessage[] = await once(socket, 'upgrade')
  socket.terminate()
  return response?.headers.warning
}

describe('discovery of several versions', () => {
  it('lists them in the order of Kubernetes and prefers the first', async () => {
    const answer = fieldsOf((await api.get(`/apis/${group}`)).body)
    const versions = arrayOf(answer.versions).map(each => fieldsOf(each).version)
    expect(versions).toEqual(['v1', 'v1beta1', 'v1alpha1'])
    expect(answer.preferredVersion).toEqual({ groupVersion: `${group}/v1`, version: 'v1' })
  })

  it('lists the resources of each', async () => {
    const names = async (version: string) => {
      const answer = fieldsOf((await api.get(`/apis/${group}/${version}`)).body)
      return arrayOf(answer.resources).map(each => fieldsOf(each).name)
    }
    expect(await names('v1beta1')).toEqual(['gadgets', 'gadgets/status'])
    expect(await names('v1beta1')).toEqual(await names('v1'))
    expect((await api.get(`/apis/${group}/v2`)).status).toBe(404)
  })
})

describe('an object read in another version', () => {
  it('has the content of a past state, in a list of that state', async () => {
    const { version } = (await v1.create('a', { size: 5, unit: 'm' })).metadata
    await v1.api.mergePatch(v1.at('a'), { spec: { size: 6 } })
    const then = await v1beta1.list({ resourceVersion: version, resourceVersionMatch: 'Exact' })
    expect(then.items.map(({ spec, metadata }) => [spec.text, metadata.version])).toEqual([['5', version]])
  })

  it('has the content of that version, and the metadata of the one object', async () => {
    const created = await v1.create('a', { size: 5, unit: 'm' }, { labels: { l: 'v' } })
    const seen = await v1beta1.read('a')
    expect(seen.apiVersion).toBe(`${group}/v1beta1`)
    expect(seen.spec).toEqual({ text: '5', shade: 'red' })
    expect(seen.raw.metadata).toEqual(created.raw.metadata)
  })

  it('is selected by the indexes of the hub', async () => {
    for (const size of [1, 2]) await v1.create(`a${size}`, { size })
    const { names, raw } = await v1beta1.list({ fieldSelector: 'spec.size=2' })
    expect(names).toEqual(['a2'])
    expect([raw.apiVersion, raw.kind]).toEqual([`${group}/v1beta1`, 'GadgetList'])
  })

  it('is converted once for all reads, lists and watches', async () => {
    await v1.create('a', { size: 5 })
    await v1beta1.read('a')
    calls.fromHub = 0
    await v1beta1.read('a')
    await v1beta1.list()
    await (await watch(v1beta1.path)).synced()
    await (await watch(v1beta1.path)).synced()
    await v1.list()
    expect(calls.fromHub).toBe(0)
  })

  it('is converted once for all watches of a change, and not for watches of the hub', async () => {
    const hub = await watch(v1.path)
    await hub.synced()
    calls.fromHub = 0
    const first = await v1.create('a', { size: 5 })
    await hub.reaches(first.metadata.version)
    expect(calls.fromHub).toBe(0)
    const others = await Promise.all([watch(v1beta1.path), watch(v1beta1.path)])
    for (const other of others) await other.synced()
    const second = await v1.create('b', { size: 6 })
    for (const other of others) await other.reaches(second.metadata.version)
    expect(calls.fromHub).toBe(2)
  })

  it('carries the version of the path in every event of a watch', async () => {
    await v1.create('a', { size: 5 })
    const seen = await watch(v1beta1.path)
    await seen.synced()
    objectOf(await api.mergePatch(v1.at('a'), { spec: { size: 6 } }))
    const gone = objectOf(await api.delete(v1.at('a')))
    await seen.until(({ events }) => events.some(({ type }) => type === 'DELETED'))
    expect(seen.story).toEqual(['ADDED a', 'MODIFIED a', 'DELETED a'])
    for (const { raw } of seen.events) expect(fieldsOf(raw.object).apiVersion).toBe(`${group}/v1beta1`)
    const last = fieldsOf(seen.changes.at(-1)?.raw.object)
    expect(last.spec).toEqual({ text: '6', shade: 'red' })
    expect(fieldsOf(last.metadata).version).toBe(gone.metadata.version)
  })

  it('comes with a Warning header if the version is deprecated', async () => {
    const warning = `299 - "${group}/v1beta1 Gadget is deprecated: use v1"`
    const { headers } = await api.post(v1beta1.path, v1beta1.body('a', { text: '5' }))
    expect(headers.get('warning')).toBe(warning)
    expect((await api.get(v1beta1.at('a'))).headers.get('warning')).toBe(warning)
    expect((await api.get(v1beta1.path)).headers.get('warning')).toBe(warning)
    expect((await api.get(v1.path)).headers.get('warning')).toBeNull()
    expect((await api.get(v1beta1.at('none'))).headers.get('warning')).toBe(warning)
    expect((await api.get(v1.at('none'))).headers.get('warning')).toBeNull()
    const stream = await fetch(`${url}${v1beta1.path}?watch=true`)
    expect(stream.headers.get('warning')).toBe(warning)
    await stream.body?.cancel()
    const events = await fetch(`${url}${v1beta1.path}?watch=true`, {
      headers: { accept: 'text/event-stream' },
    })
    expect(events.headers.get('warning')).toBe(warning)
    await events.body?.cancel()
    expect(await handshakeWarning(v1beta1.path)).toBe(warning)
    expect(await handshakeWarning(v1.path)).toBeUndefined()
  })

  it('is the version in the metrics of its requests', async () => {
    const counted = async (version: string, verb: string, code: number) => {
      const text = await (await fetch(`${url}/metrics`)).text()
      const labels = `verb="${verb}",group="${group}",version="${version}",resource="gadgets",code="${code}"`
      const [, count = '0'] = new RegExp(`^apiserver_request_total{${labels}} (\\d+)$`, 'm').exec(text) ?? []
      return Number(count)
    }
    const [beta, hub] = [await counted('v1beta1', 'LIST', 200), await counted('v1', 'LIST', 200)]
    const watched = await counted('v1beta1', 'WATCH', 101)
    await v1beta1.list()
    await (await watch(v1beta1.path)).synced()
    expect(await counted('v1beta1', 'LIST', 200)).toBe(beta + 1)
    expect(await counted('v1', 'LIST', 200)).toBe(hub)
    expect(await counted('v1beta1', 'WATCH', 101)).toBe(watched + 1)
  })
})

describe('a write in another version', () => {
  it('is stored at the hub, with the defaults of both versions, and returned in the version of the path', async () => {
    const created = await v1beta1.create('a', { text: '5' })
    expect([created.apiVersion, created.spec]).toEqual([`${group}/v1beta1`, { text: '5', shade: 'blue' }])
    const stored = await v1.read('a')
    expect(stored.spec).toEqual({ size: 5, colour: 'blue' })
    expect(stored.raw.metadata).toEqual(created.raw.metadata)
  })

  it('is checked by the schema of its version, and then by that of the hub', async () => {
    const fields = (text: unknown) =>
      api.post(v1beta1.path, v1beta1.body('a', { text })).then(answer => refusalOf(answer, 422).causes)
    expect((await fields(5)).map(({ field }) => field)).toEqual(['spec.text'])
    expect((await fields('12345')).map(({ field }) => field)).toEqual(['spec.text'])
    expect((await fields('12345'))[0]?.message).not.toContain('after conversion')
    expect(await fields('101')).toMatchObject([
      { field: 'spec.size', message: 'must be at most 100, is 101 (after conversion to v1)' },
    ])
    refusalOf(await api.post(v1beta1.path, v1.body('a', { size: 1 })), 400)
    const strict = await api.post(
      `${v1beta1.path}?fieldValidation=Strict`,
      v1beta1.body('a', { text: '1', size: 1 }),
    )
    expect(refusalOf(strict, 400).message).toContain('spec.size')
  })

  it('keeps what only the hub has', async () => {
    await v1.create('a', { size: 5, unit: 'm' })
    const { raw } = await v1beta1.read('a')
    const replaced = objectOf(await api.put(v1beta1.at('a'), { ...raw, spec: { text: '6', shade: 'red' } }))
    expect(replaced.metadata.generation).toBe(2)
    expect((await v1.read('a')).spec).toEqual({ size: 6, unit: 'm', colour: 'red' })
  })

  it('that changes nothing in its version stores nothing', async () => {
    const { metadata } = await v1.create('a', { size: 5, unit: 'm' })
    const { raw } = await v1beta1.read('a')
    const replaced = objectOf(await api.put(v1beta1.at('a'), raw))
    expect(replaced.metadata.version).toBe(metadata.version)
    expect(replaced.apiVersion).toBe(`${group}/v1beta1`)
  })

  it('patches the object as it appears in its version', async () => {
    await v1.create('a', { size: 5, unit: 'm' })
    objectOf(await api.mergePatch(v1beta1.at('a'), { spec: { text: '7' }, metadata: { labels: { l: 'v' } } }))
    const steps = [
      { op: 'test', path: '/spec/text', value: '7' },
      { op: 'replace', path: '/spec/shade', value: 'green' },
    ]
    const patched = objectOf(await api.jsonPatch(v1beta1.at('a'), steps))
    expect(patched.spec).toEqual({ text: '7', shade: 'green' })
    const stored = await v1.read('a')
    expect(stored.spec).toEqual({ size: 7, unit: 'm', colour: 'green' })
    expect(stored.metadata.labels).toEqual({ l: 'v' })
  })

  it('of the status changes the status only', async () => {
    await v1.create('a', { size: 5, unit: 'm' })
    const body = { ...v1beta1.body('a', { text: '99' }), status: { phase: 'Ready' } }
    const written = objectOf(await api.put(`${v1beta1.at('a')}/status`, body))
    expect([written.spec, written.status]).toEqual([{ text: '5', shade: 'red' }, { phase: 'Ready' }])
    expect(await v1.read('a')).toMatchObject({ spec: { size: 5, unit: 'm' }, status: { ready: true } })
    objectOf(await api.mergePatch(v1beta1.at('a'), { spec: { text: '6' }, status: { phase: 'Pending' } }))
    expect(await v1.read('a')).toMatchObject({ spec: { size: 6 }, status: { ready: true } })
    refusalOf(await api.mergePatch(`${v1beta1.at('a')}/status`, { status: { phase: 'Gone' } }), 422)
  })

  it('with dryRun stores nothing', async () => {
    const answer = await api.post(`${v1beta1.path}?dryRun=All`, v1beta1.body('a', { text: '5' }))
    expect(fieldsOf(answer.body)).toMatchObject({ apiVersion: `${group}/v1beta1`, spec: { text: '5' } })
    expect((await v1.list()).names).toEqual([])
  })

  it('deletes the one object', async () => {
    await v1.create('a', { size: 5 }, { finalizers: ['example.com/f'] })
    const marked = objectOf(await api.delete(v1beta1.at('a')))
    expect([marked.apiVersion, marked.spec.text]).toEqual([`${group}/v1beta1`, '5'])
    objectOf(await api.mergePatch(v1beta1.at('a'), { metadata: { finalizers: null } }))
    refusalOf(await api.get(v1.at('a')), 404)
  })
})

test('a client of another version reads, writes and watches it', async () => {
  const Beta = modelOfVersion<ApiObject<{ text: string; shade?: string }>>(Gadget, 'v1beta1')
  const { client } = server
  await client.create(Beta, { metadata: { name: 'a' }, spec: { text: '5' } })
  const patched = await client.patch(Beta, 'a', { spec: { text: '6' } })
  expect(patched.spec).toEqual({ text: '6', shade: 'blue' })
  expect((await client.list(Beta)).items).toEqual([patched])
  const stream = await client.watch(Beta)
  for await (const event of stream) {
    expect(event).toEqual({ type: 'ADDED', object: patched })
    break
  }
  expect((await client.get(Gadget, 'a')).spec.size).toBe(6)
  expect(() => modelOfVersion(Gadget, 'v2')).toThrow('Gadget has no version v2')
})

describe('a conversion that throws', () => {
  it('on a write is a 500 that names the plugin and the object, and stores nothing', async () => {
    const refusal = refusalOf(await api.post(v1beta1.path, v1beta1.body('a', { text: '14' })), 500)
    expect(refusal.message).toBe(`plugin versions failed to convert gadgets.${group} "a" from v1beta1 to v1`)
    expect((await v1.list()).names).toEqual([])
    await v1.create('b', { size: 5 })
    refusalOf(await api.mergePatch(v1beta1.at('b'), { spec: { text: '14' } }), 500)
    // The response could not be shown in this version.
    refusalOf(await api.post(v1beta1.path, v1beta1.body('c', { text: '13' })), 500)
    expect((await v1.list()).items.map(({ spec }) => spec.size)).toEqual([5])
  })

  it('on a read fails the get and the list that would deliver the object, in that version only', async () => {
    await v1.create('bad', { size: 13 })
    await v1.create('good', { size: 5 })
    expect(refusalOf(await api.get(v1beta1.at('bad')), 500).message).toContain('"bad" from v1 to v1beta1')
    refusalOf(await api.get(v1beta1.path), 500)
    expect((await v1beta1.list({ fieldSelector: 'spec.size=5' })).names).toEqual(['good'])
    expect((await v1beta1.read('good')).spec.text).toBe('5')
    expect(new Set((await v1.list()).names)).toEqual(new Set(['bad', 'good']))
  })

  it('ends a watch that would deliver the object with an ERROR of 500, at the start and later', async () => {
    const live = await watch(v1beta1.path)
    const selecting = await watch(`${v1beta1.path}?fieldSelector=spec.size%3D5`)
    const hub = await watch(v1.path)
    for (const each of [live, selecting, hub]) await each.synced()
    await v1.create('good', { size: 5 })
    const { metadata } = await v1.create('bad', { size: 13 })
    const late = await watch(v1beta1.path)
    for (const failing of [live, late]) {
      expect((await failing.closed).code).toBe(1011)
      const last = failing.events.at(-1)
      expect([last?.type, fieldsOf(last?.raw.object).code]).toEqual(['ERROR', 500])
    }
    expect(live.story.slice(0, 1)).toEqual(['ADDED good'])
    await hub.reaches(metadata.version)
    await v1.create('good-2', { size: 5 })
    await selecting.until(({ story }) => story.length === 2)
    expect(selecting.story).toEqual(['ADDED good', 'ADDED good-2'])
  })

  it('does not block deletions and finalizers', async () => {
    await v1.create('bad', { size: 13 }, { finalizers: ['example.com/f', 'example.com/g'] })
    objectOf(await api.mergePatch(v1beta1.at('bad'), { metadata: { finalizers: ['example.com/f'] } }))
    refusalOf(await api.mergePatch(v1beta1.at('bad'), { metadata: { labels: { l: 'v' } } }), 500)
    objectOf(await api.delete(v1beta1.at('bad')))
    objectOf(await api.mergePatch(v1beta1.at('bad'), { metadata: { finalizers: null } }))
    expect((await v1.list()).names).toEqual([])
  })
})

describe('objects stored in another version than the hub', () => {
  let stored: TestServer
  let hub: Collection
  let beta: Collection

  beforeAll(async () => {
    stored = await startTestServer({ models: [defineModel({ ...Gadget, storedVersion: 'v1beta1' })] })
    const other = new Api(await stored.listen())
    hub = new Collection(other, `${group}/v1`, 'Gadget', 'gadgets')
    beta = new Collection(other, `${group}/v1beta1`, 'Gadget', 'gadgets')
  })

  afterAll(() => stored.close())

  it('look the same as if they were stored at the hub', async () => {
    const created = await hub.create('a', { size: 5 }, { labels: { l: 'v' } })
    expect((await hub.read('a')).raw).toEqual(created.raw)
    expect((await beta.read('a')).spec).toEqual({ text: '5', shade: 'red' })
    expect((await hub.list({ fieldSelector: 'spec.size=5' })).names).toEqual(['a'])
    const patched = objectOf(await hub.api.mergePatch(hub.at('a'), { spec: { size: 6 } }))
    expect([patched.spec, patched.metadata.generation]).toEqual([{ size: 6, colour: 'red' }, 2])
    const unchanged = objectOf(await hub.api.mergePatch(hub.at('a'), { spec: { size: 6 } }))
    expect(unchanged.raw).toEqual(patched.raw)
    const written = objectOf(await beta.api.mergePatch(beta.at('a'), { spec: { text: '7' } }))
    expect(written.spec).toEqual({ text: '7', shade: 'red' })
    expect((await hub.read('a')).spec).toEqual({ size: 7, colour: 'red' })
    objectOf(await hub.api.delete(hub.at('a')))
    refusalOf(await beta.api.get(beta.at('a')), 404)
  })

  it('are refused if the stored version would lose a part of them', async () => {
    refusalOf(await hub.api.post(hub.path, hub.body('a', { size: 5, unit: 'm' })), 500)
    refusalOf(await hub.api.post(`${hub.path}?dryRun=All`, hub.body('a', { size: 5, unit: 'm' })), 500)
    expect((await hub.list()).names).toEqual([])
  })
})
