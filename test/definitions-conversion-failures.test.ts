import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Collection, objectOf, readStatus, refusalOf } from './support/api.ts'
import { type Conversion, sendConverted } from './support/conversion-webhook.ts'
import { type Fields, fieldsOf } from './support/json.ts'
import { Watch } from './support/watch.ts'
import { renameField, Widgets } from './support/widgets.ts'
import { createAll, stores } from './support/worlds.ts'

/** Sends converted objects whose fields were changed. */
const withFields =
  (changes: (object: Fields) => Fields) => (response: ServerResponse, conversion: Conversion) =>
    sendConverted(response, conversion, (object, to) => {
      const converted = fieldsOf(renameField(object, to))
      return { ...converted, ...changes(converted) }
    })

const withMetadata = (changes: Fields) =>
  withFields(({ metadata }) => ({ metadata: { ...fieldsOf(metadata), ...changes } }))

const withResponse = (changes: Fields) => (response: ServerResponse, conversion: Conversion) =>
  sendConverted(response, conversion, renameField, changes)

const inTheirPlace =
  (status: number, headers: Record<string, string>, body: string) => (response: ServerResponse) =>
    response.writeHead(status, headers).end(body)

/** What a webhook does, and what the response says. */
const faults: readonly (readonly [
  string,
  (response: ServerResponse, conversion: Conversion) => void,
  RegExp,
])[] = [
  [
    'cuts the connection',
    response => response.destroy(),
    /failed: Post "https:.*: the connection was reset$/,
  ],
  [
    'cuts its response',
    response => response.writeHead(200, { 'content-length': '100' }).write('{', () => response.destroy()),
    /failed: Post "https:/,
  ],
  ['redirects', inTheirPlace(302, { location: 'https://127.0.0.1:1/' }, ''), /failed: .*status 302$/],
  ['responds with an error', inTheirPlace(500, {}, 'secret'), /failed: .*status 500$/],
  ['responds with something else than JSON', inTheirPlace(200, {}, 'secret'), /failed: .*is not JSON$/],
  [
    'responds with too much',
    inTheirPlace(200, {}, ' '.repeat(9 * 1024 * 1024)),
    /failed: .*more than \d+ bytes$/,
  ],
  [
    'has another kind',
    inTheirPlace(200, {}, '{"kind":"Status","apiVersion":"v1"}'),
    /failed: expected webhook response of /,
  ],
  [
    'has another uid',
    withResponse({ uid: 'other' }),
    /failed: expected response\.uid="[0-9a-f-]{36}", got "other"$/,
  ],
  ['refuses', withResponse({ result: { status: 'Failure', message: 'not today' } }), /failed: not today$/],
  [
    'does not say that it succeeds',
    withResponse({ result: {} }),
    /failed: response\.result\.status was '', not 'Success'$/,
  ],
  ['returns too few objects', withResponse({ convertedObjects: [] }), /returned 0 objects, expected 1$/],
  [
    'returns another version',
    withFields(() => ({ apiVersion: 'conv.example.com/v2' })),
    /invalid groupVersion \(expected conv\.example\.com\/v1beta1, received conv\.example\.com\/v2\)$/,
  ],
  [
    'returns another kind',
    withFields(() => ({ kind: 'Other' })),
    /invalid kind \(expected Widget, received Other\)$/,
  ],
  [
    'returns another name',
    withMetadata({ name: 'b' }),
    /returned invalid object: must have the same name: a != b$/,
  ],
  [
    'returns another uid',
    withMetadata({ uid: '' }),
    /returned invalid object: must have the same UID: [0-9a-f-]{36} != $/,
  ],
  ['returns a namespace', withMetadata({ namespace: 'n' }), /must have the same namespace: {2}!= n$/],
  ['returns no metadata', withFields(() => ({ metadata: undefined })), /must have the same name: a != $/],
  [
    'returns labels that are none',
    withMetadata({ labels: ['l'] }),
    /returned invalid metadata: invalid metadata\.labels /,
  ],
  [
    'returns an invalid label',
    withMetadata({ labels: { 'a b': 'c' } }),
    /returned invalid metadata: metadata\.labels: Invalid value: /,
  ],
  [
    'returns a label that is no text',
    withMetadata({ labels: { l: 1 } }),
    /metadata\.labels\["l"\] must be a string/,
  ],
  [
    'returns too large annotations',
    withMetadata({ annotations: { a: 'x'.repeat(256 * 1024) } }),
    /returned invalid metadata: .*Too long/,
  ],
]

describe.each(stores)('a webhook that', store => {
  let widgets: Widgets
  let v1: Collection
  let v1beta1: Collection

  beforeAll(async () => {
    widgets = await Widgets.start(store)
    v1 = widgets.at('v1')
    v1beta1 = widgets.at('v1beta1')
  })
  afterAll(() => widgets?.end())
  beforeEach(() => widgets.clear())

  const api = () => widgets.api

  it.each(faults)('%s fails the request with 500, and no other', async (_, raw, message) => {
    await v1.create('a', { color: 'red' })
    widgets.webhook.raw = raw
    const read = refusalOf(await api().get(v1beta1.at('a')), 500, 'InternalError')
    expect(read.message).toMatch(message)
    expect(read.message).toMatch(/^conversion webhook for conv\.example\.com\/v1, Kind=Widget /)
    expect(read.message).not.toContain('secret')
    refusalOf(await api().get(v1beta1.path), 500)
    const written = refusalOf(await api().post(v1beta1.path, v1beta1.body('n', { colour: 'red' })), 500)
    expect(written.message).toMatch(/^conversion webhook for conv\.example\.com\/v1beta1, Kind=Widget /)
    refusalOf(await api().mergePatch(v1beta1.at('a'), { spec: { colour: 'blue' } }), 500)
    expect((await v1.list()).items.map(({ spec }) => spec)).toEqual([{ color: 'red' }])
    widgets.webhook.raw = undefined
    expect((await v1beta1.read('a')).spec).toEqual({ colour: 'red' })
  })

  it('fails lets objects lose finalizers and be deleted in each version', async () => {
    await v1.create('a', { color: 'red' }, { finalizers: ['x/y', 'x/z'] })
    widgets.webhook.raw = response => response.destroy()
    expect(objectOf(await api().delete(v1beta1.at('a'))).metadata.finalizers).toEqual(['x/y', 'x/z'])
    for (const finalizers of [['x/z'], null])
      objectOf(await api().mergePatch(v1beta1.at('a'), { metadata: { finalizers } }))
    refusalOf(await api().get(v1.at('a')), 404)
  })

  it('hangs holds up the requests that need it, and no others', async () => {
    await v1.create('a', { color: 'red' })
    await v1beta1.read('a')
    await v1.create('b', { color: 'red' })
    const asked: (() => void)[] = []
    const isAsked = new Promise<void>(resolve => {
      widgets.webhook.raw = (response, conversion) => {
        asked.push(() => sendConverted(response, conversion, renameField))
        resolve()
      }
    })
    const gone = new AbortController()
    const left = api().get(v1beta1.at('b'), { signal: gone.signal })
    const waiting = api().get(v1beta1.at('b'))
    await isAsked
    gone.abort()
    await expect(left).rejects.toThrow()
    expect((await v1.read('b')).spec).toEqual({ color: 'red' })
    expect((await v1beta1.read('a')).spec).toEqual({ colour: 'red' })
    objectOf(await api().mergePatch(v1.at('b'), { metadata: { labels: { l: 'v' } } }))
    for (const respond of asked) respond()
    expect(objectOf(await waiting).spec).toEqual({ colour: 'red' })
    expect(widgets.webhook.calls).toEqual([1, 1])
  })

  it('fails for one object fails lists with it, and not the other objects', async () => {
    await createAll(
      v1,
      ['good', 'bad', 'fine'].map(name => ({ name, spec: { color: name } })),
    )
    widgets.webhook.raw = (response, conversion) => {
      const isBad = conversion.objects.some(({ spec }) => fieldsOf(spec).color === 'bad')
      const result = isBad ? { status: 'Failure', message: 'bad as it is' } : { status: 'Success' }
      sendConverted(response, conversion, renameField, { result })
    }
    expect(refusalOf(await api().get(v1beta1.path), 500).message).toContain('bad as it is')
    expect((await v1beta1.read('good')).spec).toEqual({ colour: 'good' })
    refusalOf(await api().get(v1beta1.at('bad')), 500)
    const { text } = await api().get('/metrics')
    for (const result of ['success', 'failure'])
      expect(text).toMatch(
        new RegExp(`^apiserver_conversion_webhook_duration_seconds_count\\{result="${result}"\\} [1-9]`, 'm'),
      )
    objectOf(await api().mergePatch(v1.at('bad'), { spec: { color: 'better' } }))
    expect((await v1beta1.list()).names.toSorted()).toEqual(['bad', 'fine', 'good'])
  })

  it('fails ends watches of its versions with an ERROR, and no others', async () => {
    const [converted, hub] = await Promise.all(
      [v1beta1, v1].map(({ path }) => Watch.open(widgets.world.server.url, path)),
    )
    if (converted === undefined || hub === undefined) throw new Error('no watches')
    await Promise.all([converted.synced(), hub.synced()])
    widgets.webhook.convert = () => ({})
    const { metadata } = await v1.create('a', { color: 'red' })
    await hub.reaches(metadata.version)
    await converted.closed
    expect(converted.changes.map(({ type }) => type)).toEqual(['ERROR'])
    const { message } = readStatus(converted.changes[0]?.raw.object, 500)
    expect(message).toContain(
      'conversion webhook for conv.example.com/v1, Kind=Widget returned invalid object',
    )
    await hub.close()
  })
})
