import { rm } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Answer, Api, objectOf, refusalOf } from './support/api.ts'
import { itemsOf } from './support/kinds.ts'
import { multiplexProtocol } from './support/multiplex.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { requestText, sendRaw } from './support/raw-socket.ts'
import { Users } from './support/users.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** What a browser asks and reads for a page of another origin. `browser.test.ts` does the same in a browser. */

const path = '/apis/items.example.com/v1/items'
const page = 'https://console.example.org'
const foreign = 'https://evil.example'
const exposed = 'Location, Warning, Retry-After, ETag'

/** Asserts that a page of the origin can read a response. */
function readableBy(origin: string, { headers }: Answer): void {
  expect(headers.get('access-control-allow-origin')).toBe(origin)
  expect(headers.get('access-control-expose-headers')).toBe(exposed)
  expect(headers.get('vary')).toMatch(/\bOrigin\b/)
  expect(headers.get('access-control-allow-credentials')).toBeNull()
}

/** Asserts that a response is a 403 that no page can read. */
function refusedFor(answer: Answer): void {
  refusalOf(answer, 403)
  for (const name of answer.headers.keys()) expect(name).not.toMatch(/^access-control-/)
}

describe('with tokens', () => {
  let world: SharedWorld
  let users: Users<'ann' | 'joe'>
  let routes: string
  const bearer = () => users.headersOf('ann')
  const raw = (line: string, headers: Readonly<Record<string, string>>, body?: string) =>
    sendRaw(
      world.server.port,
      requestText(line, { host: `127.0.0.1:${world.server.port}`, ...headers }, body),
    )
  const preflight = (target: string, origin: string, headers: Readonly<Record<string, string>> = {}) =>
    raw(`OPTIONS ${target}`, { origin, 'access-control-request-method': 'PATCH', ...headers })

  beforeAll(async () => {
    users = await Users.make({ ann: ['setpoint:admins'], joe: ['nobody'] })
    const setup = `plugin.routes('reports.example.com/v1', r => r
      .get('/daily', () => ({ body: 'x', headers: { vary: 'Accept-Language' } }))
      .get('/broken', () => { throw new Error('broken') }))`
    routes = await writePlugin({ 'index.js': pluginModule('reports', { setup }) })
    world = await startSharedWorld('embedded', ['items-plugin'], {
      args: [
        ...[...users.args, '--plugin', routes],
        ...['--allowed-origin', page, '--allowed-origin', '*.example.com'],
      ],
    })
  })
  afterAll(async () => {
    await world?.end()
    await users?.remove()
    await rm(routes, { recursive: true, force: true })
  })

  it.each([
    path,
    `${path}/a`,
    `${path}?watch=true`,
    '/apis/reports.example.com/v1/daily',
    '/metrics',
    '/nowhere',
  ])('a preflight for %s needs no token', async target => {
    const answer = await preflight(target, page, { 'access-control-request-headers': 'authorization' })
    expect(answer.status).toBe(204)
    expect(answer.text).toBe('')
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'access-control-allow-origin': page,
      'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': 'Authorization, *',
      'access-control-max-age': '600',
      vary: 'Origin',
    })
    expect(answer.headers.has('access-control-allow-private-network')).toBe(false)
    refusedFor(await preflight(target, foreign))
  })

  it('a preflight from a public network to a private one is allowed', async () => {
    const asked = { 'access-control-request-private-network': 'true' }
    const { headers } = await preflight(path, 'https://a.example.com', asked)
    expect(headers.get('access-control-allow-origin')).toBe('https://a.example.com')
    expect(headers.get('access-control-allow-private-network')).toBe('true')
  })

  it('an OPTIONS request that is not a preflight needs a token', async () => {
    refusalOf(await raw(`OPTIONS ${path}`, { origin: page }), 401)
    refusalOf(await raw(`OPTIONS ${path}`, { 'access-control-request-method': 'GET' }), 401)
    refusalOf(await raw(`OPTIONS ${path}`, { origin: page, ...bearer() }), 405)
  })

  it('a named page may list, write and watch', async () => {
    const headers = { ...bearer(), origin: page }
    const made = await world.api.post(path, itemsOf(world.api).body('by-page', {}), { headers })
    objectOf(made, 201)
    expect(made.headers.get('location')).toMatch(/by-page$/)
    readableBy(page, made)
    for (const target of [path, `${path}/by-page`, '/apis', '/openapi/v3', '/metrics', '/livez', '/docs']) {
      const answer = await world.api.get(target, { headers })
      expect(answer.status, target).toBe(200)
      readableBy(page, answer)
    }
    const large = await world.api.get(path, {
      headers: { ...headers, 'accept-encoding': 'gzip, identity;q=0' },
    })
    expect(large.headers.get('vary')).toBe('Origin, Accept-Encoding')
    for (const accept of ['application/json', 'text/event-stream']) {
      const stream = await fetch(`${world.server.url}${path}?watch=true`, { headers: { ...headers, accept } })
      expect(stream.headers.get('access-control-allow-origin')).toBe(page)
      expect(stream.headers.get('vary')).toBe('Origin')
      await stream.body?.cancel()
    }
    const watch = await Watch.open(world.server.url, path, { headers })
    await watch.synced()
    await watch.close()
  })

  it('a document that has not changed varies by Origin, too', async () => {
    const first = await world.api.get('/apis', { headers: bearer() })
    expect(first.headers.get('vary')).toBe('Accept, Accept-Encoding, Origin')
    const known = { ...bearer(), origin: page, 'if-none-match': first.headers.get('etag') ?? '' }
    const again = await world.api.get('/apis', { headers: known })
    expect(again.status).toBe(304)
    readableBy(page, again)
  })

  it("a plugin's route keeps its own Vary", async () => {
    const headers = { ...bearer(), origin: page }
    const answer = await world.api.get('/apis/reports.example.com/v1/daily', { headers })
    readableBy(page, answer)
    expect(answer.headers.get('vary')).toBe('Origin, Accept-Language')
  })

  it('errors are readable, also before authentication', async () => {
    const headers = { ...bearer(), origin: page }
    const body = itemsOf(world.api).body('twice', {})
    objectOf(await world.api.post(path, body, { headers }), 201)
    const length = { 'content-length': String(4 * 2 ** 20), 'content-type': 'application/json' }
    const answers: [number, Answer][] = [
      [400, await world.api.get(`${path}?page=0`, { headers })],
      [400, await raw('GET /apis?a=%', headers)],
      [401, await world.api.get(path, { headers: { origin: page } })],
      [403, await world.api.get(path, { headers: { ...headers, ...users.headersOf('joe') } })],
      [404, await world.api.get('/nowhere', { headers })],
      [405, await world.api.request('POST', '/metrics', undefined, { headers })],
      [406, await world.api.get(path, { headers: { ...headers, accept: 'text/html' } })],
      [409, await world.api.post(path, body, { headers })],
      [413, await raw(`POST ${path}`, { ...headers, ...length }, '{}')],
      [500, await world.api.get('/apis/reports.example.com/v1/broken', { headers })],
    ]
    for (const [code, answer] of answers) {
      refusalOf(answer, code)
      readableBy(page, answer)
    }
  })

  it('the own pages of the server may call, also behind a proxy that adds TLS', async () => {
    for (const scheme of ['http', 'https']) {
      const own = { host: 'api.example.net', origin: `${scheme}://api.example.net` }
      expect((await raw(`GET ${path}`, { ...own, ...bearer() })).status).toBe(200)
    }
  })

  it('any other page gets 403, whatever its token, and stores nothing', async () => {
    for (const origin of [foreign, 'null', 'http://localhost:3000']) {
      const headers = { ...bearer(), origin }
      for (const target of [path, '/livez', '/version', '/docs', '/nowhere'])
        refusedFor(await raw(`GET ${target}`, headers))
      const body = JSON.stringify(itemsOf(world.api).body('planted', {}))
      const length = { 'content-type': 'application/json', 'content-length': String(body.length) }
      refusedFor(await raw(`POST ${path}`, { ...headers, ...length }, body))
    }
    refusalOf(await world.api.get(`${path}/planted`, { headers: bearer() }), 404)
    const image = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' }
    refusedFor(await raw(`GET ${path}`, { ...bearer(), ...image }))
  })

  it.each([
    [path, 'events.example.com'],
    ['/apis', multiplexProtocol],
  ])('a WebSocket at %s checks the page before the token', async (target, protocol) => {
    const carrier = `base64url.bearer.authorization.k8s.io.${Buffer.from(users.tokenOf('ann')).toString('base64url')}`
    const protocols = [carrier, protocol]
    const offered = { 'sec-websocket-protocol': protocols.join(', ') }
    refusalOf(await refusedWatch(world.server.url, target, { ...offered, origin: foreign }), 403)
    refusalOf(await refusedWatch(world.server.url, target, { origin: foreign }), 403)
    for (const origin of [page, 'https://a.example.com', world.server.url]) {
      const watch = await Watch.open(world.server.url, target, { headers: { origin }, protocols })
      await watch.close()
    }
  })
})

describe('without authentication', () => {
  let world: SharedWorld
  beforeAll(async () => {
    world = await startSharedWorld('embedded', ['items-plugin'])
  })
  afterAll(() => world?.end())

  it('local pages of any port may list, write and watch', async () => {
    for (const origin of ['http://localhost:3000', 'http://127.0.0.1:5173', 'https://[::1]']) {
      const headers = { origin }
      const asked = { host: 'localhost', origin, 'access-control-request-method': 'PUT' }
      const preflight = await sendRaw(world.server.port, requestText(`OPTIONS ${path}/a`, asked))
      expect(preflight.status).toBe(204)
      expect(preflight.headers.get('access-control-allow-origin')).toBe(origin)
      readableBy(origin, await new Api(world.server.url).get(path, { headers }))
      const watch = await Watch.open(world.server.url, path, { headers })
      await watch.synced()
      await watch.close()
    }
  })

  it('a preflight of another page gets 403', async () => {
    const asked = { host: 'localhost', origin: foreign, 'access-control-request-method': 'PUT' }
    refusedFor(await sendRaw(world.server.port, requestText(`OPTIONS ${path}/a`, asked)))
  })
})
