import { rm } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Api, Collection, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { writePlugin } from './support/plugins.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { objectIn, Watch } from './support/watch.ts'

/** A kind whose model says `prune: true`, and an earlier release of the plugin that keeps unknown fields. */

const dirs: string[] = []
let keeping: string
let pruning: string
let server: RunningServer
let api: Api
let leaves: Collection

async function release(prune: boolean): Promise<string> {
  const spec = `{ type: 'object', properties: {
    size: { type: 'integer', default: 1 },
    parts: { type: 'array', items: { type: 'object', properties: { id: { type: 'string' } } } },
    names: { type: 'object', additionalProperties: { type: 'string' } },
    open: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    closed: { type: 'object', additionalProperties: false, properties: { id: { type: 'string' } } } } }`
  const dir = await writePlugin({
    'index.js': `import { defineModel, definePlugin } from '@setpoint/controller-runtime'
export default definePlugin({ name: 'trees', models: [defineModel({
  group: 'trees.example.com', version: 'v1', kind: 'Leaf', singular: 'leaf', plural: 'leaves', prune: ${prune},
  schema: { spec: ${spec}, status: { type: 'object', properties: { ready: { type: 'boolean' } } } },
  default: draft => { if (draft.spec.open?.hooked) draft.spec.hooked = true },
  versions: [{
    name: 'v1beta1', schema: { spec: { type: 'object', properties: { text: { type: 'string' } } } },
    toHub: ({ spec }, { previous }) => ({ spec: { ...previous?.spec, size: Number(spec.text), text: spec.text } }),
    fromHub: ({ spec }) => ({ spec: { text: String(spec.size), size: spec.size } }) }] })] })`,
  })
  dirs.push(dir)
  return dir
}

async function start(plugin: string): Promise<void> {
  server = await startSharedServer({ plugins: [plugin] })
  api = new Api(server.url)
  leaves = new Collection(api, 'trees.example.com/v1', 'Leaf', 'leaves')
}

beforeAll(async () => {
  keeping = await release(false)
  pruning = await release(true)
})
afterAll(() => Promise.all(dirs.map(dir => rm(dir, { recursive: true, force: true }))))

const unknown = {
  size: 2,
  colour: 'red',
  parts: [{ id: 'a', extra: 1 }, { only: 1 }],
  open: { any: { thing: 1 } },
}
const known = { size: 2, parts: [{ id: 'a' }, {}], open: { any: { thing: 1 } } }

describe('writes of a kind that prunes', () => {
  beforeAll(() => start(pruning))
  afterAll(() => server?.stop())
  beforeEach(() => leaves.clear())

  it('store no unknown field, and warn of each', async () => {
    const body = { ...leaves.body('a', unknown), status: { ready: true, since: 1 }, top: 1 }
    const answer = await api.post(leaves.path, body)
    const { spec, status, raw } = objectOf(answer, 201)
    expect(spec).toEqual(known)
    expect(status).toEqual({ ready: true })
    expect(raw).not.toHaveProperty('top')
    for (const field of ['spec.colour', 'spec.parts[0].extra', 'spec.parts[1].only', 'status.since', 'top'])
      expect(answer.headers.get('warning')).toContain(`unknown field \\"${field}\\"`)
    expect((await leaves.read('a')).raw).toEqual(raw)
  })

  it('do so silently under Ignore, and are refused under Strict', async () => {
    const silent = await api.post(`${leaves.path}?fieldValidation=Ignore`, leaves.body('a', unknown))
    expect(objectOf(silent, 201).spec).toEqual(known)
    expect(silent.headers.get('warning')).toBeNull()
    const { message } = refusalOf(
      await api.post(`${leaves.path}?fieldValidation=Strict`, leaves.body('b', unknown)),
      400,
    )
    expect(message).toContain('spec.parts[0].extra')
  })

  it('are refused for a field of a closed schema', async () => {
    for (const mode of ['Ignore', 'Warn']) {
      const body = leaves.body('a', { closed: { id: 'a', other: 1 } })
      const { causes } = refusalOf(await api.post(`${leaves.path}?fieldValidation=${mode}`, body), 422)
      expect(causes.map(({ field }) => field)).toEqual(['spec.closed.other'])
    }
  })

  it('change nothing if they only bring unknown fields', async () => {
    const { metadata } = await leaves.create('a', known)
    const put = objectOf(await api.put(leaves.at('a'), leaves.body('a', unknown)), 200)
    expect(put.metadata.version).toBe(metadata.version)
    const patched = await api.mergePatch(leaves.at('a'), { spec: { colour: 'blue' } })
    expect(objectOf(patched, 200).metadata.version).toBe(metadata.version)
    expect(patched.headers.get('warning')).toContain('spec.colour')
  })

  it('own no unknown field after an apply', async () => {
    const send = () =>
      api.request('PATCH', `${leaves.at('a')}?fieldManager=me`, leaves.body('a', unknown), {
        type: 'application/apply-patch+yaml',
      })
    const created = await send()
    const { spec, metadata, raw } = objectOf(created, 201)
    expect(spec).toEqual(known)
    expect(created.headers.get('warning')).toContain('spec.colour')
    expect(JSON.stringify(fieldsOf(raw.metadata).managedFields)).not.toContain('colour')
    expect(objectOf(await send(), 200).metadata.version).toBe(metadata.version)
  })

  it('prune what hooks and conversions add', async () => {
    expect((await leaves.create('a', { open: { hooked: true } })).spec).toEqual({
      size: 1,
      open: { hooked: true },
    })
    const beta = new Collection(api, 'trees.example.com/v1beta1', 'Leaf', 'leaves')
    expect((await beta.create('b', { text: '5' })).spec).toEqual({ text: '5' })
    expect((await leaves.read('b')).spec).toEqual({ size: 5 })
  })
})

describe('objects that were stored before their kind pruned', () => {
  beforeEach(async () => {
    await start(keeping)
    await leaves.create('a', { ...unknown, closed: undefined }, { finalizers: ['example.com/hold'] })
    expect((await leaves.read('a')).spec).toEqual(unknown)
    await server.restart({ plugins: [pruning] })
  })
  afterEach(() => server?.stop())

  it('are read and watched without unknown fields', async () => {
    expect((await leaves.read('a')).spec).toEqual(known)
    expect((await leaves.list()).items.map(({ spec }) => spec)).toEqual([known])
    const watch = await Watch.open(server.url, leaves.path)
    await watch.synced()
    expect(watch.changes.map(change => objectIn(change).spec)).toEqual([known])
    await watch.close()
  })

  it('do not change when they are sent back as they were read', async () => {
    const { raw, metadata } = await leaves.read('a')
    expect(objectOf(await api.put(leaves.at('a'), raw), 200).metadata.version).toBe(metadata.version)
  })

  it('are changed, lose finalizers and are deleted like others', async () => {
    const changed = objectOf(await api.mergePatch(leaves.at('a'), { spec: { size: 3 } }), 200)
    expect(changed.spec).toEqual({ ...known, size: 3 })
    await api.delete(leaves.at('a'))
    objectOf(await api.mergePatch(leaves.at('a'), { metadata: { finalizers: null } }), 200)
    refusalOf(await api.get(leaves.at('a')), 404)
  })
})
