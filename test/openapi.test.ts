import { createHash } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { Validator } from '@seriousme/openapi-schema-validator'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, type Fields, fieldsOf, textOf } from './support/json.ts'
import { pluginsPath } from './support/kinds.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { copyFixture, type SharedWorld, startSharedWorld } from './support/worlds.ts'

const boats = '/apis/described.example.com/v1/boats'
const boatsDocument = '/openapi/v3/apis/described.example.com/v1'

/** Returns the URL of each document by its group version. */
async function indexOf(api: Api): Promise<Map<string, string>> {
  const { status, body } = await api.get('/openapi/v3')
  expect(status).toBe(200)
  return new Map(
    Object.entries(fieldsOf(fieldsOf(body).paths)).map(([key, entry]) => [
      key,
      textOf(fieldsOf(entry).serverRelativeURL),
    ]),
  )
}

/** Returns the operations of a document with their paths and methods. */
function operationsOf(document: Fields): { path: string; method: string; operation: Fields }[] {
  return Object.entries(fieldsOf(document.paths)).flatMap(([path, item]) =>
    Object.entries(fieldsOf(item))
      .filter(([method]) => method !== 'parameters')
      .map(([method, operation]) => ({ path, method, operation: fieldsOf(operation) })),
  )
}

/** Follows keys and indexes into a JSON value. */
function at(value: unknown, ...keys: (string | number)[]): unknown {
  return keys.reduce<unknown>(
    (part, key) => (Array.isArray(part) ? part[Number(key)] : fieldsOf(part)[String(key)]),
    value,
  )
}

describe('OpenAPI documents', () => {
  let world: SharedWorld
  let api: Api
  let documents: Map<string, Fields>
  beforeAll(async () => {
    world = await startSharedWorld('embedded', ['described-plugin', 'items-plugin', 'demo-plugin'])
    api = world.api
    documents = new Map()
    for (const [key, url] of await indexOf(api)) documents.set(key, fieldsOf((await api.get(url)).body))
  })
  afterAll(() => world?.end())

  const boatDocument = () => documents.get('apis/described.example.com/v1') ?? {}
  const boatSchema = (...keys: string[]) =>
    at(boatDocument(), 'components', 'schemas', 'com.example.described.v1.Boat', ...keys)

  it('exist for every group version of discovery', async () => {
    const groups = fieldsOf((await api.get('/apis')).body).groups
    const core = arrayOf(fieldsOf((await api.get('/api')).body).versions).map(version => `api/${version}`)
    const named = (Array.isArray(groups) ? groups : []).flatMap(group =>
      (Array.isArray(group.versions) ? group.versions : []).map(
        (version: { groupVersion: string }) => `apis/${version.groupVersion}`,
      ),
    )
    const versions = [...core, ...named]
    expect([...documents.keys()].sort()).toEqual(versions.sort())
    expect(versions).toContain('api/v1')
    expect(versions).toContain('apis/described.example.com/v1beta1')
    expect(versions).toContain('apis/harbour.api.described.example.com/v1')
  })

  it('are valid OpenAPI 3.0', async () => {
    const validator = new Validator()
    for (const [key, document] of documents) {
      expect(await validator.validate(structuredClone(document)), key).toEqual({ valid: true })
      expect(validator.version, key).toBe('3.0')
    }
    const broken = structuredClone(boatDocument())
    Object.assign(fieldsOf(broken.info), { title: 7 })
    expect((await validator.validate(broken)).valid).toBe(false)
  })

  it('refer only to components that they have', () => {
    for (const [key, document] of documents) {
      const refs = new Set(
        [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]*)"/g)].map(([, ref = '']) => ref),
      )
      for (const ref of refs) expect(at(document, ...ref.split('/')), `${key} ${ref}`).toBeDefined()
    }
  })

  it('give every operation an id of its own, a tag, a summary and responses with a Status', () => {
    for (const [key, document] of documents) {
      const operations = operationsOf(document).map(({ operation }) => operation)
      const ids = operations.map(({ operationId }) => operationId)
      expect(new Set(ids).size, key).toBe(ids.length)
      for (const { tags, summary, responses } of operations) {
        expect([tags, typeof summary]).toEqual([[expect.any(String)], 'string'])
        expect(fieldsOf(responses)).toHaveProperty('403', { $ref: '#/components/responses/Status403' })
      }
    }
  })

  it('declare each parameter in a path, and no other', () => {
    for (const document of documents.values()) {
      for (const [path, item] of Object.entries(fieldsOf(document.paths))) {
        const names = [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name)
        const declared = JSON.stringify(fieldsOf(item).parameters ?? [])
          .replaceAll(/\{"\$ref":"#\/components\/parameters\/([^"]+)"\}/g, '{"name":"$1"}')
          .matchAll(/"name":"([^"]+)"/g)
        expect(
          [...declared].map(([, name]) => name),
          path,
        ).toEqual(names)
      }
    }
  })

  it('have exactly the operations that the server serves', async () => {
    const actions = operationsOf(boatDocument())
      .filter(({ path }) => path === boats || path.startsWith(`${boats}/{name}`))
      .map(({ path, method, operation }) => [
        method,
        path.slice(boats.length),
        operation['x-kubernetes-action'],
      ])
    expect(actions).toEqual([
      ['get', '', 'list'],
      ['post', '', 'post'],
      ['delete', '', 'deletecollection'],
      ['get', '/{name}', 'get'],
      ['put', '/{name}', 'put'],
      ['patch', '/{name}', 'patch'],
      ['delete', '/{name}', 'delete'],
      ['get', '/{name}/status', 'get'],
      ['put', '/{name}/status', 'put'],
      ['patch', '/{name}/status', 'patch'],
    ])
    const paths = Object.keys(fieldsOf(boatDocument().paths))
    expect(paths).toContain('/apis/described.example.com/v1/boatstatuses/{name}')
    expect(paths).not.toContain('/apis/described.example.com/v1/boatstatuses/{name}/status')
    for (const { path, method } of operationsOf(boatDocument())) {
      const { status } = await api.request(method.toUpperCase(), path.replace(/\{\w+\}/g, 'none'))
      expect(status, `${method} ${path}`).not.toBe(405)
    }
  })

  it('list the media types of patches that are served, and no others', async () => {
    const content = fieldsOf(
      at(boatDocument(), 'paths', `${boats}/{name}`, 'patch', 'requestBody', 'content'),
    )
    for (const type of Object.keys(content))
      expect((await api.request('PATCH', `${boats}/none`, '{}', { type })).status, type).not.toBe(415)
    const strategic = 'application/strategic-merge-patch+json'
    expect(Object.keys(content)).not.toContain(strategic)
    expect((await api.request('PATCH', `${boats}/none`, '{}', { type: strategic })).status).toBe(415)
  })

  it('have what kubectl looks for in each PATCH', () => {
    for (const path of [`${boats}/{name}`, `${boats}/{name}/status`]) {
      const operation = fieldsOf(at(boatDocument(), 'paths', path, 'patch'))
      expect(operation['x-kubernetes-group-version-kind']).toEqual({
        group: 'described.example.com',
        kind: 'Boat',
        version: 'v1',
      })
      expect(operation.parameters).toContainEqual(
        expect.objectContaining({ name: 'fieldValidation', in: 'query' }),
      )
    }
    expect(boatSchema('x-kubernetes-group-version-kind')).toEqual([
      { group: 'described.example.com', kind: 'Boat', version: 'v1' },
    ])
  })

  it('name the fields that a kind can be selected and sorted by', async () => {
    const parameters = JSON.stringify(at(boatDocument(), 'paths', boats, 'get', 'parameters'))
    expect(parameters).toMatch(/"name":"fieldSelector","in":"query","description":"[^"]*, spec\.hull\."/)
    expect(parameters).toMatch(/"name":"sort","in":"query","description":"[^"]*, spec\.hull\."/)
  })

  it("have the indexes and the columns of a kind, for clients that show any kind's objects", () => {
    expect(boatSchema('x-setpoint-indexes')).toEqual([
      { name: 'metadata.name', unique: true },
      { name: 'metadata.creationTimestamp' },
      { name: 'metadata.deletionTimestamp' },
      { name: 'metadata.labels', multi: true },
      { name: 'spec.hull' },
    ])
    expect(boatSchema('x-setpoint-columns')).toEqual([
      { name: 'Name', jsonPath: '.metadata.name', type: 'string', priority: 0, index: 'metadata.name' },
      {
        name: 'Age',
        jsonPath: '.metadata.creationTimestamp',
        type: 'date',
        priority: 0,
        index: 'metadata.creationTimestamp',
      },
    ])
  })

  it('translate what OpenAPI 3.0 does not have', () => {
    expect(boatSchema('required')).toEqual(['apiVersion', 'kind', 'metadata', 'spec'])
    const property = (name: string) => boatSchema('properties', 'spec', 'properties', name)
    expect(property('draught')).toEqual({
      type: 'number',
      minimum: 0.5,
      exclusiveMinimum: false,
      maximum: 20,
      exclusiveMaximum: true,
    })
    expect(property('hull')).toMatchObject({ enum: ['wood', 'steel', null], nullable: true })
    expect(property('anything')).toMatchObject({ type: 'array', items: {} })
    expect(property('masts')).toMatchObject({ default: 1 })
    expect(property('port')).toMatchObject({ anyOf: [{ type: 'integer' }, { type: 'string' }] })
    expect(property('sails')).toMatchObject({ 'x-kubernetes-list-map-keys': ['id'] })
    expect(property('engine')).toMatchObject({ 'x-kubernetes-validations': [{ message: 'no power' }] })
    expect(property('engine')).not.toHaveProperty('required')
    expect(property('template')).toMatchObject({ required: ['apiVersion', 'kind'] })
    const text = JSON.stringify(boatDocument())
    expect(text).not.toContain('not for readers')
    // kubectl 1.27 and 1.28 do not explain a kind with this.
    expect(text).not.toContain('"additionalProperties":true')
  })

  it('give the schema of each version of a kind, and mark deprecated ones', () => {
    const older = documents.get('apis/described.example.com/v1beta1') ?? {}
    expect(
      at(older, 'components', 'schemas', 'com.example.described.v1beta1.Boat', 'properties', 'spec'),
    ).toMatchObject({ properties: { title: { type: 'string' } } })
    for (const { operation } of operationsOf(older)) expect(operation.deprecated).toBe(true)
  })

  it('have examples that the server accepts', async () => {
    let sent = 0
    const operations = [...documents.values()].flatMap(document =>
      operationsOf(document).map(each => ({ document, ...each })),
    )
    for (const { document, path, method, operation } of operations) {
      if (method !== 'post' || operation['x-kubernetes-action'] !== 'post') continue
      const example = at(operation, 'requestBody', 'content', 'application/json')
      if (fieldsOf(example).examples === undefined) continue
      const name =
        textOf(at(example, 'examples', 'example', '$ref'))
          .split('/')
          .at(-1) ?? ''
      const value = at(document, 'components', 'examples', name, 'value')
      const { status, text } = await api.post(`${path}?dryRun=All&fieldValidation=Strict`, value)
      expect(status, `${path}: ${text}`).toBe(201)
      sent++
    }
    expect(sent).toBeGreaterThan(5)
    expect(JSON.stringify(at(boatDocument(), 'components', 'examples'))).not.toContain('BoatStatus')
  })

  it('describe the operations of a namespace, which differ from those of other kinds', async () => {
    const core = documents.get('api/v1') ?? {}
    const namespaces = operationsOf(core).filter(({ path }) =>
      /^\/api\/v1\/namespaces(\/\{name\}|$)/.test(path),
    )
    expect(namespaces.map(({ path, method }) => `${method} ${path}`)).toEqual([
      'get /api/v1/namespaces',
      'post /api/v1/namespaces',
      'get /api/v1/namespaces/{name}',
      'put /api/v1/namespaces/{name}',
      'patch /api/v1/namespaces/{name}',
      'delete /api/v1/namespaces/{name}',
      'get /api/v1/namespaces/{name}/status',
      'put /api/v1/namespaces/{name}/status',
      'patch /api/v1/namespaces/{name}/status',
      'put /api/v1/namespaces/{name}/finalize',
    ])
    const finalize = namespaces.find(({ path }) => path.endsWith('/finalize'))?.operation
    expect(finalize).toMatchObject({
      operationId: 'replaceCoreV1NamespaceFinalize',
      'x-kubernetes-action': 'put',
      'x-kubernetes-group-version-kind': { group: '', kind: 'Namespace', version: 'v1' },
    })
    // The server does the same.
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'example' } }
    const made = objectOf(await api.post('/api/v1/namespaces', body), 201)
    const put = await api.put('/api/v1/namespaces/example/finalize', made.raw)
    expect(objectOf(put).spec).toEqual({ finalizers: ['kubernetes'] })
    refusalOf(await api.delete('/api/v1/namespaces'), 405)
  })

  it("describe plugins' routes, with optional parts and the rest of a path", () => {
    const harbour = documents.get('apis/harbour.api.described.example.com/v1') ?? {}
    const prefix = '/apis/harbour.api.described.example.com/v1'
    const routes = operationsOf(harbour).map(({ path, method }) => `${method} ${path.slice(prefix.length)}`)
    expect(routes.sort()).toEqual([
      'delete /ports/{name}',
      'get /files/{path}',
      'get /ports',
      'get /ports/{name}',
      'post /ports/{name}',
      'put /charts/{name}.pdf',
    ])
    const log = at(boatDocument(), 'paths', `${boats}/{boat}/log/{page}`, 'get')
    expect(log).toMatchObject({ tags: ['described'], summary: 'Read a page of the log' })
  })

  it('are cached for good under their hash, and elsewhere only with an ETag', async () => {
    const url = (await indexOf(api)).get('apis/described.example.com/v1') ?? ''
    const hash = url.split('?hash=')[1]
    const hashed = await api.get(url)
    expect(hashed.headers.get('cache-control')).toMatch(/\bimmutable\b.*\bmax-age=31536000\b/)
    expect(hashed.headers.get('vary')).toBe('Accept, Accept-Encoding, Origin')
    expect(hashed.headers.get('etag')).toBe(`"${hash}"`)
    expect(createHash('sha256').update(hashed.text).digest('hex')).toBe(hash)
    const plain = await api.get(boatsDocument)
    expect(plain.text === hashed.text).toBe(true)
    expect(plain.headers.get('cache-control')).not.toContain('immutable')
    for (const path of [url, boatsDocument, '/openapi/v3']) {
      const etag = (await api.get(path)).headers.get('etag') ?? ''
      const again = await api.get(path, { headers: { 'if-none-match': etag } })
      expect([again.status, again.text.length, again.headers.get('etag')]).toEqual([304, 0, etag])
      expect((await api.get(path, { headers: { 'if-none-match': '"other"' } })).status).toBe(200)
    }
  })

  it('redirect a stale hash to the current one, which no cache may keep', async () => {
    const url = (await indexOf(api)).get('apis/described.example.com/v1')
    const { status, headers } = await api.get(`${boatsDocument}?hash=0123`)
    expect([status, headers.get('location')]).toEqual([301, url])
    expect(headers.get('cache-control')).toBe('no-store')
  })

  it('are JSON for clients that accept JSON after protobuf, and 406 for others', async () => {
    const protobuf = 'application/com.github.proto-openapi.spec.v3@v1.0+protobuf'
    for (const path of ['/openapi/v3', boatsDocument]) {
      const both = await api.get(path, { headers: { accept: `${protobuf}, application/json` } })
      expect([both.status, both.headers.get('content-type')]).toEqual([200, 'application/json'])
      const refused = await api.get(path, { headers: { accept: protobuf } })
      expect(refusalOf(refused, 406).reason).toBe('NotAcceptable')
    }
  })

  it('are 404 where nothing is served, and 405 for other methods', async () => {
    const missing = await api.get('/openapi/v3/apis/described.example.com/v9')
    expect(refusalOf(missing, 404).message).toContain('/openapi/v3/apis/described.example.com/v9')
    expect((await api.post('/openapi/v3', {})).headers.get('allow')).toBe('GET, HEAD')
  })

  it('are converted to one of Swagger 2.0, which has the same operations', async () => {
    const { body, headers } = await api.get('/openapi/v2')
    expect(headers.get('content-type')).toBe('application/json')
    const swagger = fieldsOf(body)
    const validator = new Validator()
    expect(await validator.validate(structuredClone(swagger))).toEqual({ valid: true })
    expect(validator.version).toBe('2.0')
    const listed = (document: Fields) => operationsOf(document).map(({ path, method }) => `${method} ${path}`)
    expect(listed(swagger).sort()).toEqual([...documents.values()].flatMap(listed).sort())
    const names = [...documents.values()].map(document =>
      Object.keys(fieldsOf(at(document, 'components', 'schemas'))),
    )
    expect(new Set(Object.keys(fieldsOf(swagger.definitions)))).toEqual(new Set(names.flat()))
    const ids = operationsOf(swagger).map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    const refs = new Set(
      [...JSON.stringify(swagger).matchAll(/"\$ref":"#\/([^"]*)"/g)].map(([, ref = '']) => ref),
    )
    for (const ref of refs) expect(at(swagger, ...ref.split('/')), ref).toBeDefined()
    // Without these, kubectl up to 1.28 does not apply.
    const patch = fieldsOf(at(swagger, 'paths', `${boats}/{name}`, 'patch'))
    expect(patch['x-kubernetes-group-version-kind']).toMatchObject({ kind: 'Boat' })
    expect(patch.parameters).toContainEqual(expect.objectContaining({ name: 'fieldValidation', in: 'query' }))
    expect(at(swagger, 'definitions', 'core.v1.ServiceAccount', 'properties', 'secrets')).toMatchObject({
      'x-kubernetes-patch-strategy': 'merge',
      'x-kubernetes-patch-merge-key': 'name',
    })
  })

  it('are in Swagger 2.0 as JSON and as protobuf, each with its ETag', async () => {
    const json = 'application/json'
    const protobuf = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf'
    const older = 'application/com.github.proto-openapi.spec.v2@v1.0+protobuf'
    const etags = new Set<string | null>()
    for (const [accept, type] of [
      ['*/*', json],
      [`${older}, ${json};q=0.5`, protobuf],
      [protobuf, protobuf],
      [older, protobuf],
    ] as const) {
      const headers = { accept }
      const { status, headers: received } = await api.get('/openapi/v2', { headers })
      expect([status, received.get('content-type')], accept).toEqual([200, type])
      expect(received.get('vary')).toBe('Accept, Accept-Encoding, Origin')
      const etag = received.get('etag') ?? ''
      etags.add(etag)
      const again = await api.get('/openapi/v2', { headers: { ...headers, 'if-none-match': etag } })
      expect([again.status, again.text.length]).toEqual([304, 0])
    }
    expect(etags.size).toBe(2)
    const refused = await api.get('/openapi/v2', { headers: { accept: 'application/yaml' } })
    expect(refusalOf(refused, 406).message).toContain(`only ${json}, ${older}, ${protobuf} can be produced`)
  })

  it('follow the routes of a plugin that is disabled and enabled', async () => {
    const harbour = 'apis/harbour.api.described.example.com/v1'
    const before = await indexOf(api)
    const swagger = async () => (await api.get('/openapi/v2')).text
    const swaggerBefore = await swagger()
    const enable = (enabled: boolean) => api.mergePatch(`${pluginsPath}/described`, { spec: { enabled } })
    await enable(false)
    await expect.poll(async () => (await indexOf(api)).has(harbour)).toBe(false)
    const stale = before.get('apis/described.example.com/v1') ?? ''
    const { status, headers } = await api.get(stale)
    expect(status).toBe(301)
    const current = await api.get(headers.get('location') ?? '')
    expect(current.text).not.toContain('Read a page of the log')
    expect(await swagger()).not.toContain('Read a page of the log')
    await enable(true)
    await expect.poll(async () => Object.fromEntries(await indexOf(api))).toEqual(Object.fromEntries(before))
    expect((await api.get(stale)).status).toBe(200)
    expect((await swagger()) === swaggerBefore).toBe(true)
  })
})

describe('OpenAPI documents of a server with a base path and tokens', () => {
  let users: Users<'vic'>
  let plugin: string
  let server: RunningServer
  beforeAll(async () => {
    plugin = await copyFixture('items-plugin')
    users = await Users.make({ vic: ['setpoint:viewers'] })
    server = await startSharedServer({ plugins: [plugin], args: [...users.args, '--base-path', '/x'] })
  })
  afterAll(async () => {
    await server?.stop()
    await Promise.all([users.remove(), rm(plugin, { recursive: true, force: true })])
  })

  it('have full URLs in the index, and paths below the server of the document', async () => {
    const headers = users.headersOf('vic')
    const { body } = await new Api(server.url).get('/openapi/v3', { headers })
    const url = textOf(at(body, 'paths', 'apis/items.example.com/v1', 'serverRelativeURL'))
    expect(url).toMatch(/^\/x\/openapi\/v3\/apis\/items\.example\.com\/v1\?hash=/)
    const document = fieldsOf((await new Api(new URL(server.url).origin).get(url, { headers })).body)
    expect(document.servers).toEqual([{ url: '/x' }])
    const swagger = await new Api(server.url).get('/openapi/v2', { headers })
    expect(swagger.body).toMatchObject({ basePath: '/x', paths: { '/apis/items.example.com/v1/items': {} } })
    expect(fieldsOf(document.paths)).toHaveProperty(['/apis/items.example.com/v1/items'])
  })

  it('need a token, as discovery does', async () => {
    const api = new Api(server.url)
    for (const path of ['/openapi/v2', '/openapi/v3', '/openapi/v3/apis/items.example.com/v1'])
      expect((await api.get(path)).status).toBe(401)
  })
})
