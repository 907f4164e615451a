import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type Api,
  type Collection,
  isStatus,
  listOf,
  objectOf,
  type RequestOptions,
  refusalOf,
} from './support/api.ts'
import { gadgetsOf, itemsOf } from './support/kinds.ts'
import { requestText, sendRaw } from './support/raw-socket.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

interface BadRequestCase {
  readonly method?: string
  readonly path?: string
  readonly body?: unknown
  readonly options?: RequestOptions
  readonly code: number
  /** The expected refusal. */
  readonly says?: RegExp
}

const base = '/apis/items.example.com/v1'
const valid = { apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name: 'bad' }, spec: {} }
const withMeta = (metadata: object) => ({ ...valid, metadata: { name: 'bad', ...metadata } })
const withSpec = (spec: unknown) => ({ ...valid, spec })

/** Many kinds of bad input. The request is a POST to items unless the case says otherwise. */
const cases: Readonly<Record<string, BadRequestCase>> = {
  'broken JSON, with its position': {
    body: '{"metadata": {"name": "bad",}}',
    code: 400,
    says: /line 1|column|position/i,
  },
  'JSON that stops in the middle': { body: '{"metadata": {"na', code: 400 },
  'no body at all': { body: '', code: 400 },
  'a JSON text and something behind it': { body: `${JSON.stringify(valid)} x`, code: 400 },
  'an array for an object': { body: [valid], code: 400 },
  'null for an object': { body: 'null', code: 400 },
  'a string for an object': { body: '"bad"', code: 400 },
  'bytes that are not UTF-8': {
    body: Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
    code: 400,
  },
  'JSON nested ten thousand deep': { body: `${'['.repeat(10_000)}${']'.repeat(10_000)}`, code: 400 },
  'an object nested ten thousand deep': {
    body: `{"metadata":{"name":"bad"},"spec":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_001)}`,
    code: 400,
  },
  'broken YAML, with its position': {
    body: 'metadata:\n  name: bad\n spec: [',
    options: { type: 'application/yaml' },
    code: 400,
    says: /line \d|:\d|\d:\d/i,
  },
  'two YAML documents': { body: 'a: 1\n---\nb: 2\n', options: { type: 'application/yaml' }, code: 400 },
  'a YAML bomb': {
    body: `a: &a [x,x,x,x,x,x,x,x,x]\n${Array.from({ length: 12 }, (_, n) => {
      const [from, to] = [String.fromCharCode(97 + n), String.fromCharCode(98 + n)]
      return `${to}: &${to} [${Array.from({ length: 9 }, () => `*${from}`).join(',')}]`
    }).join('\n')}\n`,
    options: { type: 'application/yaml' },
    code: 400,
  },
  'a wrong content type': {
    body: 'a',
    options: { type: 'text/plain' },
    code: 415,
    says: /text\/plain.*application\/json/s,
  },
  'a content type that is none': { body: 'a', options: { type: 'rubbish' }, code: 415 },
  'a charset that we do not know': {
    body: valid,
    options: { type: 'application/json; charset=utf-16' },
    code: 415,
  },
  'a compressed body': { body: valid, options: { headers: { 'content-encoding': 'br' } }, code: 415 },
  'a body over 3 MiB': { body: withSpec({ deep: { text: 'x'.repeat(3 * 1024 * 1024) } }), code: 413 },
  'a name of 254 characters': { body: withMeta({ name: 'x'.repeat(254) }), code: 422, says: /253/ },
  'a name with a capital': { body: withMeta({ name: 'Bad' }), code: 422, says: /metadata\.name/ },
  'a name with a dot': { body: withMeta({ name: 'a.b' }), code: 422 },
  'a name with a slash': { body: withMeta({ name: 'a/b' }), code: 422 },
  'a name that starts with a dash': { body: withMeta({ name: '-a' }), code: 422 },
  'a name that ends with a dash': { body: withMeta({ name: 'a-' }), code: 422 },
  'an empty name': { body: withMeta({ name: '' }), code: 422 },
  'a name that is a number': { body: withMeta({ name: 7 }), code: 422 },
  'a name with a line break at its end': { body: withMeta({ name: 'bad\n' }), code: 422 },
  'a generateName that makes no name': { body: withMeta({ name: undefined, generateName: 'A_' }), code: 422 },
  'metadata that is a list': { body: { ...valid, metadata: [] }, code: 400 },
  'metadata that is not there': { body: { ...valid, metadata: undefined }, code: 422 },
  'a label key with two slashes': {
    body: withMeta({ labels: { 'a/b/c': 'x' } }),
    code: 422,
    says: /a\/b\/c/,
  },
  'a label key without a name': { body: withMeta({ labels: { 'a.com/': 'x' } }), code: 422 },
  'a label key without a prefix before its slash': { body: withMeta({ labels: { '/a': 'x' } }), code: 422 },
  'a label name of 64 characters': { body: withMeta({ labels: { ['x'.repeat(64)]: 'x' } }), code: 422 },
  'a label prefix of 254 characters': {
    body: withMeta({ labels: { [`${'x'.repeat(254)}/a`]: 'x' } }),
    code: 422,
  },
  'a label prefix with a capital': { body: withMeta({ labels: { 'A.com/a': 'x' } }), code: 422 },
  'a label value of 64 characters': { body: withMeta({ labels: { 'a.com/a': 'x'.repeat(64) } }), code: 422 },
  'a label value with a space': { body: withMeta({ labels: { 'a.com/a': 'x y' } }), code: 422 },
  'a label value that is a number': { body: withMeta({ labels: { 'a.com/a': 1 } }), code: 422 },
  'labels that are a list': { body: withMeta({ labels: ['a'] }), code: 422 },
  'annotations that are not strings': { body: withMeta({ annotations: { a: {} } }), code: 422 },
  'annotations over 256 KiB': {
    body: withMeta({ annotations: { a: 'x'.repeat(256 * 1024), b: 'y' } }),
    code: 422,
  },
  'owner references that are none': { body: withMeta({ ownerReferences: [{ name: 'x' }] }), code: 422 },
  "another kind's body": { body: { ...valid, kind: 'Device' }, code: 400, says: /Device/ },
  "another group's body": { body: { ...valid, apiVersion: 'demo.example.com/v1' }, code: 400 },
  'a spec that is a string': { body: withSpec('x'), code: 422 },
  'a number beyond what JSON numbers keep': {
    body: '{"metadata":{"name":"bad"},"spec":{"big":9007199254740993}}',
    code: 400,
    says: /9007199254740993/,
  },
  'a number beyond every number': { body: '{"metadata":{"name":"bad"},"spec":{"ratio":1e999}}', code: 400 },

  'an unknown kind': { method: 'GET', path: `${base}/nothings`, code: 404 },
  'an unknown group': { method: 'POST', path: '/apis/nobody.example.com/v1/items', body: valid, code: 404 },
  'an unknown version': { method: 'POST', path: '/apis/items.example.com/v2/items', body: valid, code: 404 },
  'an unknown object': { method: 'GET', path: `${base}/items/nobody`, code: 404, says: /nobody/ },
  'an unknown subresource': { method: 'GET', path: `${base}/items/nobody/scale`, code: 404 },
  'a path outside': { method: 'GET', path: '/nowhere', code: 404 },
  'the root': { method: 'GET', path: '/', code: 404 },
  'a path that is not percent-encoded': { method: 'GET', path: `${base}/items/%zz`, code: 400 },
  'an encoded slash in a name': { method: 'GET', path: `${base}/items/a%2Fb`, code: 404 },
  'a method that a collection does not have': {
    method: 'PUT',
    path: `${base}/items`,
    body: valid,
    code: 405,
    says: /PUT/,
  },
  'a patch of a collection': { method: 'PATCH', path: `${base}/items`, body: {}, code: 405 },
  'a POST to a name': { method: 'POST', path: `${base}/items/one`, body: valid, code: 405 },
  'a method that nobody knows': { method: 'PROPFIND', path: `${base}/items`, code: 405 },
  'a POST to discovery': { method: 'POST', path: '/apis', body: {}, code: 405 },
  'an Accept that nobody can serve': {
    method: 'GET',
    path: `${base}/items`,
    options: { headers: { accept: 'image/png' } },
    code: 406,
    says: /image\/png/,
  },

  'a version that is no number': {
    method: 'PUT',
    path: `${base}/items/there`,
    body: { ...valid, metadata: { name: 'there', version: 'latest' } },
    code: 400,
    says: /latest/,
  },
  'a resourceVersion that is no number': {
    method: 'PUT',
    path: `${base}/items/there`,
    body: { ...valid, metadata: { name: 'there', resourceVersion: '1.5' } },
    code: 400,
  },
  'a version that is a JSON number': {
    method: 'PUT',
    path: `${base}/items/there`,
    body: { ...valid, metadata: { name: 'there', version: 1 } },
    code: 422,
  },
  'a JSON patch that is no list': {
    method: 'PATCH',
    path: `${base}/items/there`,
    body: { op: 'add' },
    options: { type: 'application/json-patch+json' },
    code: 400,
  },
  'a JSON patch with an unknown operation': {
    method: 'PATCH',
    path: `${base}/items/there`,
    body: [{ op: 'multiply', path: '/spec/count' }],
    options: { type: 'application/json-patch+json' },
    code: 400,
  },
  'a JSON patch without a path': {
    method: 'PATCH',
    path: `${base}/items/there`,
    body: [{ op: 'add', value: 1 }],
    options: { type: 'application/json-patch+json' },
    code: 400,
  },
  'a merge patch that is a list': {
    method: 'PATCH',
    path: `${base}/items/there`,
    body: [],
    options: { type: 'application/merge-patch+json' },
    code: 400,
    says: /a merge patch must be an object/,
  },
  'a merge patch that breaks the object': {
    method: 'PATCH',
    path: `${base}/items/there`,
    body: { metadata: 7 },
    options: { type: 'application/merge-patch+json' },
    code: 400,
  },
  'delete options that are no object': {
    method: 'DELETE',
    path: `${base}/items/there`,
    body: [1],
    code: 400,
  },
  'delete options of another kind': {
    method: 'DELETE',
    path: `${base}/items/there`,
    body: { ...valid, metadata: { name: 'there', version: '1' } },
    code: 400,
    says: /DeleteOptions/,
  },
  'a grace period that is no integer': {
    method: 'DELETE',
    path: `${base}/items/there`,
    body: { gracePeriodSeconds: 'x' },
    code: 400,
    says: /gracePeriodSeconds/,
  },
  'orphanDependents in the query that is no boolean': {
    method: 'DELETE',
    path: `${base}/items/there?orphanDependents=maybe`,
    code: 400,
    says: /orphanDependents/,
  },
  'a dry run in delete options that is no list': {
    method: 'DELETE',
    path: `${base}/items/there`,
    body: { dryRun: 'All' },
    code: 400,
    says: /dryRun/,
  },
  'orphanDependents that is no boolean': {
    method: 'DELETE',
    path: `${base}/items/there`,
    body: { orphanDependents: 'true' },
    code: 400,
    says: /orphanDependents/,
  },
  'a propagation policy that there is not': {
    method: 'DELETE',
    path: `${base}/items/there?propagationPolicy=Sideways`,
    code: 422,
  },

  'page 0': { method: 'GET', path: `${base}/items?page=0`, code: 400, says: /page/ },
  'a negative page': { method: 'GET', path: `${base}/items?page=-1`, code: 400 },
  'a page that is no number': { method: 'GET', path: `${base}/items?page=one`, code: 400, says: /one/ },
  'a fractional page': { method: 'GET', path: `${base}/items?page=1.5`, code: 400 },
  'a page in exponent form': { method: 'GET', path: `${base}/items?page=1e1`, code: 400 },
  'an empty page': { method: 'GET', path: `${base}/items?page=`, code: 400 },
  'two pages': { method: 'GET', path: `${base}/items?page=1&page=2`, code: 400 },
  'size 0': { method: 'GET', path: `${base}/items?size=0`, code: 400, says: /size/ },
  'a negative size': { method: 'GET', path: `${base}/items?size=-5`, code: 400 },
  'a size beyond every number': { method: 'GET', path: `${base}/items?size=99999999999999999999`, code: 400 },
  'a sort by an unknown field, naming the known ones': {
    method: 'GET',
    path: `${base}/items?sort=spec.nothing,asc`,
    code: 400,
    says: /spec\.nothing.*spec\.rank/s,
  },
  'a sort in no direction that there is': {
    method: 'GET',
    path: `${base}/items?sort=spec.rank,up`,
    code: 400,
    says: /up/,
  },
  'a sort with three parts': { method: 'GET', path: `${base}/items?sort=spec.rank,asc,desc`, code: 400 },
  'an empty sort': { method: 'GET', path: `${base}/items?sort=`, code: 400 },
  'a direction alone': { method: 'GET', path: `${base}/items?sort=,asc`, code: 400 },
  'a label selector that does not parse': {
    method: 'GET',
    path: `${base}/items?labelSelector=a%20b`,
    code: 400,
    says: /labelSelector.*a b/s,
  },
  'a label selector with an open bracket': {
    method: 'GET',
    path: `${base}/items?labelSelector=a%20in%20(b`,
    code: 400,
  },
  'a label selector with an empty term': {
    method: 'GET',
    path: `${base}/items?labelSelector=a%3Db,,c%3Dd`,
    code: 400,
  },
  'a label selector with an impossible key': {
    method: 'GET',
    path: `${base}/items?labelSelector=a/b/c%3Dd`,
    code: 400,
  },
  'a field selector by an unknown field, naming the known ones': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.nothing%3Dx`,
    code: 400,
    says: /spec\.nothing.*spec\.rank/s,
  },
  'a field selector without an operator': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank`,
    code: 400,
  },
  'a field selector with an open bracket': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank%3D(a`,
    code: 400,
  },
  'a field selector with a closing bracket alone': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank%3Da)`,
    code: 400,
  },
  'a field selector with an empty list': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank%3D()`,
    code: 400,
  },
  'a field selector with an empty element': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank%3D(a,,b)`,
    code: 400,
  },
  'a field selector with an unescaped equals sign': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank%3Da%3Db`,
    code: 400,
  },
  'a field selector that ends in its escape': {
    method: 'GET',
    path: `${base}/items?fieldSelector=spec.rank%3Da%5C`,
    code: 400,
  },
  'a limit that is no number': { method: 'GET', path: `${base}/items?limit=many`, code: 400 },
  'a negative limit': { method: 'GET', path: `${base}/items?limit=-1`, code: 400 },
  'limit together with page': { method: 'GET', path: `${base}/items?limit=5&page=1`, code: 400 },
  'limit together with sort': { method: 'GET', path: `${base}/items?limit=5&sort=metadata.name`, code: 400 },
  'a continue that is rubbish': { method: 'GET', path: `${base}/items?limit=5&continue=rubbish`, code: 400 },
  'a list at a version that is no number': {
    method: 'GET',
    path: `${base}/items?resourceVersion=now`,
    code: 400,
  },
  'Exact without a version': { method: 'GET', path: `${base}/items?resourceVersionMatch=Exact`, code: 400 },
  'a match that there is not': {
    method: 'GET',
    path: `${base}/items?resourceVersion=1&resourceVersionMatch=Nearly`,
    code: 400,
  },
  'a list at a version in the future': {
    method: 'GET',
    path: `${base}/items?resourceVersion=999999999999&resourceVersionMatch=Exact`,
    code: 410,
  },
}

describe.each(stores)('bad input to the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection

  beforeAll(async () => {
    // Without controllers no lease is renewed, so that only a refused request could advance the version.
    world = await startSharedWorld(store, ['items-plugin', 'demo-plugin'], { args: ['--role', 'apiserver'] })
    api = world.api
    items = itemsOf(api)
    // The server may still create the plugin's objects and aggregate the roles of both plugins. Each advances the
    // version.
    await eventually(() => gadgetsOf(api).read('shipped-two'))
    const rulesOfPlugins = { 'setpoint:controllers': 2, view: 2, edit: 4, admin: 4 }
    for (const [role, count] of Object.entries(rulesOfPlugins))
      await eventually(async () => {
        const { text } = await api.get(`/apis/rbac.authorization.k8s.io/v1/clusterroles/${role}`)
        expect(text.match(/\.example\.com"/g)).toHaveLength(count)
      })
    await items.create('there', { count: 1 })
  })
  afterAll(() => world?.end())

  it.each(Object.entries(cases))(
    '%s is refused with its status and a message, and nothing is stored',
    async (_what, { method = 'POST', path = `${base}/items`, body, options, code, says }) => {
      const before = await items.list()
      const answer = await api.request(method, path, body, options)
      const refusal = refusalOf(answer, code)
      if (says !== undefined) expect(refusal.message).toMatch(says)
      if (code === 405) expect(answer.headers.get('allow')).toMatch(/GET/)
      const after = await items.list()
      expect(after.raw.items).toEqual(before.raw.items)
      expect(after.version).toBe(before.version)
    },
  )

  const long = 'x'.repeat(5000)
  it.each([
    ['name', 'GET', long, {}],
    ['value of dryRun', 'POST', `?dryRun=${long}`, {}],
    ['value of fieldValidation', 'POST', `?fieldValidation=${long}`, {}],
    ['content type', 'POST', '', { type: `text/${long}` }],
    ['charset', 'POST', '', { type: `application/json; charset=${long}` }],
    ['content encoding', 'POST', '', { headers: { 'content-encoding': long } }],
    [
      'value of force',
      'PATCH',
      `there?fieldManager=a&force=${long}`,
      { type: 'application/apply-patch+yaml' },
    ],
    ['precondition', 'DELETE', 'there', {}],
    ['value of watch', 'GET', `?watch=${long}`, {}],
    ['version of a watch', 'GET', `?watch=1&version=${long}`, {}],
    ['lifetime of a watch', 'GET', `?watch=1&timeoutSeconds=${long}`, {}],
    ['Accept header', 'GET', '', { headers: { accept: `text/${long}` } }],
    ['Origin', 'GET', '', { headers: { origin: `https://${long}` } }],
    ['field of a selector', 'GET', `?fieldSelector=${long}=1`, {}],
    ['operator of a selector', 'GET', `?fieldSelector=x%20${long}`, {}],
    ['sort key', 'GET', `?sort=${long}`, {}],
  ])('cuts a long %s that it repeats', async (_what, method, rest, options) => {
    const body = method === 'GET' ? undefined : { ...valid, preconditions: { uid: [long] }, kind: undefined }
    const path = rest === '' || rest.startsWith('?') ? `${items.path}${rest}` : items.at(rest)
    const answer = await api.request(method, path, body, options)
    refusalOf(answer, answer.status)
    expect(answer.text).toContain('xxxxx')
    expect(answer.text.length).toBeLessThan(1000)
  })

  it('lists the allowed methods with a 405', async () => {
    const answer = await api.put(items.path, {})
    expect(answer.headers.get('allow')?.split(/, */).sort()).toEqual(['DELETE', 'GET', 'HEAD', 'POST'])
  })

  it.each([
    ['no HTTP at all', 'hello\r\n\r\n'],
    ['a header without a colon', 'GET /version HTTP/1.1\r\nhost localhost\r\n\r\n'],
    [
      'a header of 256 KiB',
      requestText('GET /version', { host: 'localhost', 'x-large': 'x'.repeat(256 * 1024) }),
    ],
    [
      'two content lengths',
      requestText(
        'POST /apis/items.example.com/v1/items',
        { host: 'localhost', 'content-length': '5', 'Content-Length': '6' },
        'hello',
      ),
    ],
    [
      'a broken chunk',
      requestText(
        'POST /apis/items.example.com/v1/items',
        { host: 'localhost', 'content-type': 'application/json', 'transfer-encoding': 'chunked' },
        'zz\r\nhello\r\n',
      ),
    ],
  ])('%s gets a Status too', async (_what, bytes) => {
    const answer = await sendRaw(world.server.port, bytes)
    expect([400, 413, 431]).toContain(answer.status)
    expect(isStatus(answer.body)).toBe(true)
    expect((await api.get('/version')).status).toBe(200)
  })

  it.each([
    ['in other letters', 'GET /APIS', 404],
    ['in other letters below it', `GET /Apis/items.example.com/v1/items`, 404],
    ["a plugin's route in other letters", 'GET /apis/console.api.demo.example.com/v1/Gadgets/x/Summary', 404],
    ['with an empty segment', 'GET //apis', 404],
    ['with dots', 'GET /apis/../apis', 404],
    ['with a fragment', 'GET /apis#x', 400],
    ['as a URL of another host', 'GET http://evil.example.com/apis', 400],
    ['as a URL of another protocol', 'GET ftp://localhost/apis', 400],
    ['of the server as a whole', 'OPTIONS *', 400],
    ['with a query that encodes nothing', `GET ${base}/items?fieldSelector=spec.rank%3D%zz`, 400],
    ['with a query that is no UTF-8', `GET ${base}/items?fieldSelector=spec.rank%3D%ff`, 400],
    ['of another method than there is', 'TRACE /apis', 405],
  ])('a target %s is refused', async (_what, line, code) => {
    refusalOf(await sendRaw(world.server.port, requestText(line, { host: 'localhost' })), code)
  })

  it('an absolute-form target is the same as its path', async () => {
    const host = { host: 'LOCALHOST' }
    for (const target of [base, `${base}/items?size=1`, '/version', '/nowhere']) {
      const plain = await sendRaw(world.server.port, requestText(`GET ${target}`, host))
      const whole = await sendRaw(world.server.port, requestText(`GET http://localhost${target}`, host))
      expect([whole.status, whole.body]).toEqual([plain.status, plain.body])
    }
  })

  it.each([
    ['no Host', 'GET /apis HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
    ['two Hosts', 'GET /apis HTTP/1.1\r\nhost: localhost\r\nHost: evil\r\nconnection: close\r\n\r\n', 400],
    [
      'another Host behind thousands of headers',
      `GET /apis HTTP/1.1\r\n${'a:\r\n'.repeat(4000)}host: evil\r\nconnection: close\r\n\r\n`,
      403,
    ],
    ['another version of HTTP', 'GET /apis HTTP/2.0\r\nhost: localhost\r\nconnection: close\r\n\r\n', 400],
    ['no version of HTTP', 'GET /apis\r\n\r\n', 400],
    ['a tunnel', 'CONNECT localhost:443 HTTP/1.1\r\nhost: localhost:443\r\n\r\n', 405],
    ['a tunnel to elsewhere', 'CONNECT evil:443 HTTP/1.1\r\nhost: evil:443\r\n\r\n', 403],
    [
      'a content length with chunks',
      requestText(
        `POST ${base}/items`,
        { host: 'localhost', 'content-length': '5', 'transfer-encoding': 'chunked' },
        '0\r\n\r\n',
      ),
      400,
    ],
    [
      'an unknown transfer coding',
      requestText(`POST ${base}/items`, { host: 'localhost', 'transfer-encoding': 'gzip' }, '{}'),
      400,
    ],
  ])('a request with %s is refused', async (_what, bytes, code) => {
    refusalOf(await sendRaw(world.server.port, bytes), code)
  })

  it('a body with too large a Content-Length is refused before it is sent', async () => {
    const head = {
      host: 'localhost',
      'content-type': 'application/json',
      'content-length': String(4 * 1024 * 1024),
    }
    refusalOf(await sendRaw(world.server.port, requestText(`POST ${base}/items`, head)), 413)
  })

  it('a body of unknown length is refused as soon as it is too large', async () => {
    const head = { host: 'localhost', 'content-type': 'application/json', 'transfer-encoding': 'chunked' }
    const chunk = `100000\r\n${'x'.repeat(0x100000)}\r\n`
    refusalOf(
      await sendRaw(
        world.server.port,
        requestText(`POST ${base}/items`, head, `${chunk.repeat(4)}0\r\n\r\n`),
      ),
      413,
    )
  })

  it("an exception in a plugin's handler is a 500 without its message, and the server keeps serving", async () => {
    const answer = await api.get('/apis/uc.api.demo.example.com/v1/fail')
    const { message } = refusalOf(answer, 500)
    expect(message).not.toContain('secret')
    expect(answer.text).not.toMatch(/at .*\.js/)
    expect((await gadgetsOf(api).list()).names.length).toBeGreaterThan(0)
  })

  it('no random request gets a 500, or an error without a Status', async () => {
    const random = randomFrom(20_260_730)
    const problems: string[] = []
    for (let n = 0; n < 1000; n++) {
      const { method, path, headers, body } = randomRequest(random)
      const head = {
        host: 'localhost',
        ...headers,
        ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
      }
      const text = requestText(`${method} ${path}`, head, body ?? '')
      const answer = await sendRaw(world.server.port, text)
      const isFine =
        answer.status < 400 || (answer.status !== 500 && (method === 'HEAD' || isStatus(answer.body)))
      if (!isFine) problems.push(`${text.slice(0, 600)} -> ${answer.status} ${answer.text.slice(0, 300)}`)
    }
    expect(problems).toEqual([])
    const { version } = listOf(await api.get(items.path))
    const made = objectOf(
      await api.post(items.path, items.body(undefined, {}, { generateName: 'after-' })),
      201,
    )
    expect(Number(made.metadata.version)).toBeGreaterThan(Number(version))
  })
})

/** Mulberry32: the same requests in every run. */
function randomFrom(seed: number): <T>(choices: readonly T[]) => T {
  let state = seed
  return choices => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    const choice = choices[((t ^ (t >>> 14)) >>> 0) % choices.length]
    if (choice === undefined) throw new Error('nothing to choose from')
    return choice
  }
}

const words = [
  'a',
  '',
  '0',
  '-1',
  '1e9',
  'null',
  'true',
  '%00',
  '%ff',
  '%F0%9F%98%80',
  '(',
  ')',
  '(a,b)',
  ',',
  '=',
  '!',
  '!!',
  '\\',
  '..',
  '*',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'spec.rank',
  'spec.tags',
  'metadata.name',
  'metadata.labels',
  'spec.rank=a',
  'spec.rank!=(a,b)',
  'spec.tags in (a)',
  'spec.tags notin (',
  'a in (b)',
  'spec.rank,asc',
  '9'.repeat(40),
  'x'.repeat(300),
  '{}',
  '[]',
  '"',
]
const documents = [
  '{}',
  '[]',
  'null',
  '0',
  '"x"',
  '',
  '{',
  '{"metadata":null}',
  '{"metadata":{"name":null}}',
  '{"metadata":{"name":"fuzz","labels":{"__proto__":"x"}},"spec":{}}',
  '{"__proto__":{"name":"x"},"metadata":{"name":"fuzz-b"}}',
  '{"constructor":{"prototype":{"x":1}},"metadata":{"name":"fuzz-c"}}',
  '{"metadata":{"name":"fuzz-d"},"spec":{"__proto__":{"rank":"x"}}}',
  '{"metadata":{"name":"fuzz-e","finalizers":{}}}',
  '{"metadata":{"name":"fuzz-f","ownerReferences":[null]}}',
  '{"metadata":{"name":"fuzz-g","annotations":[]}}',
  '{"metadata":{"name":"fuzz-h"},"spec":null}',
  '{"metadata":{"name":"fuzz-i"},"spec":[]}',
  '{"metadata":{"name":"fuzz-j"},"status":7}',
  '{"metadata":{"name":"fuzz-k"},"spec":{"tags":"x"}}',
  '{"metadata":{"name":"fuzz-l"},"spec":{"tags":[null,1,{}]}}',
  '{"metadata":{"name":"fuzz-m"},"spec":{"code":"\\ud800"}}',
  '{"metadata":{"name":"fuzz-n"},"spec":{"aliases":[[]]}}',
  '{"metadata":{"name":"fuzz-o","version":{}},"spec":{}}',
  '{"metadata":{"name":"fuzz-p","uid":7},"spec":{}}',
  '{"metadata":{"name":"fuzz-q","deletionTimestamp":"x"},"spec":{"rank":"\\u0000"}}',
  '[{"op":"add","path":"/__proto__/x","value":1}]',
  '[{"op":"remove","path":""}]',
  '[{"op":"replace","path":"","value":null}]',
  '[{"op":"move","from":"/spec","path":"/spec/a"}]',
  '[{"op":"copy","from":"/nothing","path":"/spec"}]',
  '[{"op":"add","path":"/spec/tags/999999999","value":1}]',
  '[{"op":"test","path":"/~2"}]',
  '[null]',
  '[[]]',
  '{"preconditions":[]}',
  '{"preconditions":{"uid":{}}}',
  '{"propagationPolicy":{}}',
  '{"dryRun":"All"}',
  '{"dryRun":[{}]}',
  '{"metadata":{"finalizers":[null]}}',
  '{"spec":{"tags":{"a":null}}}',
  'a: b: c',
  '&a [*a]',
  '!!js/function x',
  '? [1]: 2',
  'a: 2026-01-01',
  '%YAML 3.0\n---\na',
  'metadata: {name: fuzz-y}\nspec: {count: 0x10}',
  '<<: 1',
]
const parameters = [
  'page',
  'size',
  'sort',
  'labelSelector',
  'fieldSelector',
  'limit',
  'continue',
  'resourceVersion',
  'version',
  'resourceVersionMatch',
  'dryRun',
  'fieldValidation',
  'propagationPolicy',
  'uid',
  'watch',
  'timeoutSeconds',
  'allowWatchBookmarks',
  'sendInitialEvents',
]
const types = [
  'application/json',
  'application/yaml',
  'application/json-patch+json',
  'application/merge-patch+json',
  'text/plain',
  ';',
  'application/json; charset="',
  'application/json; charset=utf-8',
  '*/*',
  'application/apply-patch+yaml',
]

function randomRequest(random: <T>(choices: readonly T[]) => T) {
  const chance = (percent: number) =>
    random(Array.from({ length: 100 }, (_, n) => n < percent).map(hit => ({ hit }))).hit
  const encode = (word: string) =>
    chance(85) ? encodeURIComponent(word.replaceAll('%', '')) : word.replaceAll(/[\s\\"<>[\]{}]/g, '')
  const path = chance(80)
    ? `/apis/items.example.com/v1/${random(['items', 'devices', 'vaults'])}${chance(60) ? `/${random(['there', 'there', 'fuzz', encode(random(words))])}` : ''}${chance(15) ? `/${random(['status', 'scale', encode(random(words))])}` : ''}`
    : `/${Array.from({ length: random([0, 1, 2, 3, 4, 5]) }, () => random(['apis', 'items.example.com', 'v1', 'items', 'openapi', 'version', 'readyz', encode(random(words))])).join('/')}`
  const query = Array.from(
    { length: random([0, 0, 1, 1, 2, 3]) },
    () => `${random(parameters)}=${encode(random(words))}`,
  )
    // A watch is an endless response.
    .filter(pair => !/^watch=(true|1)?$/i.test(pair))
    .join('&')
  const method = random([
    'GET',
    'GET',
    'POST',
    'POST',
    'PUT',
    'PATCH',
    'PATCH',
    'DELETE',
    'HEAD',
    'OPTIONS',
    'TRACE',
    'LOCK',
  ])
  const headers = {
    ...(chance(90) && { 'content-type': random(types) }),
    ...(chance(20) && {
      accept: random([
        '*/*',
        'application/json;as=Table;v=v1;g=meta.k8s.io',
        ';;;',
        'application/json;q=',
        'text/html',
        'application/json;q=0',
      ]),
    }),
    ...(chance(5) && { 'content-encoding': random(['gzip', 'x']) }),
    ...(chance(5) && { 'accept-encoding': random(['gzip', 'identity;q=0']) }),
    ...(chance(5) && { 'x-setpoint-plugin': random(words).replaceAll(/[^ -~]/g, '') }),
  }
  const body = method === 'GET' || method === 'HEAD' || method === 'TRACE' ? undefined : random(documents)
  return { method, path: query === '' ? path : `${path}?${query}`, headers, body }
}
