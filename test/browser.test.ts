import { createServer, type Server } from 'node:http'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, refusalOf } from './support/api.ts'
import { Chromium, type Page } from './support/chromium.ts'
import { filesOfPage } from './support/doc-blocks.ts'
import { textOf } from './support/json.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'

/** The page of docs/guides/browser.md, and the page `/docs`, in a real browser. */

const path = '/apis/uptime.example.com/v1alpha1/probes'
const plugins = [fileURLToPath(new URL('../plugins/uptime', import.meta.url))]
/** The probes that the plugin creates. */
const shipped = ['setpoint-healthz', 'setpoint-readyz']
const named = 'console.example.org'
const foreign = 'evil.example'

let browser: Chromium
let site: Server
let port: number

beforeAll(async () => {
  const page = (await filesOfPage('docs/guides/browser.md'))['index.html'] ?? ''
  site = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end(page)
  })
  await new Promise<void>(resolve => site.listen(0, '127.0.0.1', resolve))
  const address = site.address()
  if (address === null || typeof address === 'string') throw new Error('the site has no port')
  port = address.port
  browser = await Chromium.open([named, foreign])
})
afterAll(async () => {
  await browser?.close()
  site?.closeAllConnections()
  site?.close()
})

const open = (host: string) => browser.page(`http://${host}:${port}`)
const message = (page: Page) => page.texts('#message')
const listed = (page: Page) => page.texts('#probes li')
const connect = (page: Page, server: string, transport: string, token = '') =>
  page.submit('#connect', { server, token, transport })
const add = (page: Page, name: string) => page.submit('#create', { name, url: 'http://127.0.0.1:9/' })

/** Returns how a WebSocket of the page opens, or the code with which it closes. */
function webSocket(page: Page, url: string, protocols: readonly string[] = []): Promise<unknown> {
  return page.evaluate(`new Promise(resolve => {
    const socket = new WebSocket(${JSON.stringify(url.replace('http', 'ws'))}, ${JSON.stringify(protocols)})
    socket.onopen = () => resolve('open')
    socket.onclose = ({ code }) => resolve(code)
  })`)
}

/** Tries to create an object. Returns the status, the type of a response that the page cannot read, or the error. */
function write(
  page: Page,
  url: string,
  options: { mode: 'cors' | 'no-cors'; token?: string },
): Promise<unknown> {
  const { mode, token } = options
  const headers = {
    // Without a preflight only the types of forms can be sent.
    'content-type': mode === 'cors' ? 'application/json' : 'text/plain',
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  }
  const probe = { metadata: { name: 'planted' }, spec: { url: 'http://127.0.0.1:9/' } }
  const request = { method: 'POST', mode, headers, body: JSON.stringify(probe) }
  return page.evaluate(
    `fetch(${JSON.stringify(url)}, ${JSON.stringify(request)}).then(({ status, type }) => status || type, error => error.message)`,
  )
}

describe('without authentication', () => {
  let server: RunningServer
  let api: Api
  beforeAll(async () => {
    server = await startSharedServer({ plugins, args: ['--role', 'apiserver'] })
    api = new Api(server.url)
  })
  afterAll(() => server?.stop())

  it.each(['WebSocket', 'fetch', 'EventSource'])(
    'a local page of another port lists, writes and watches by %s',
    async transport => {
      const name = `by-${transport.toLowerCase()}`
      const page = await open('localhost')
      await connect(page, server.url, transport)
      await expect.poll(() => listed(page)).toEqual(shipped)
      await add(page, name)
      await expect.poll(() => listed(page)).toContain(name)
      expect((await api.get(`${path}/${name}`)).status).toBe(200)
      await api.delete(`${path}/${name}`)
      await expect.poll(() => listed(page)).toEqual(shipped)
      await add(page, 'No-Name')
      await expect.poll(async () => String(await message(page))).toMatch(/^Invalid: /)
      // Chromium reports the 422.
      expect(page.errors.filter(error => !error.includes('422'))).toEqual([])
    },
  )

  it('a foreign page reads nothing, writes nothing and opens no WebSocket', async () => {
    const page = await open(foreign)
    await connect(page, server.url, 'fetch')
    await expect.poll(() => message(page)).toEqual(['Failed to fetch'])
    expect(await write(page, `${server.url}${path}`, { mode: 'cors' })).toBe('Failed to fetch')
    expect(await write(page, `${server.url}${path}`, { mode: 'no-cors' })).toBe('opaque')
    expect(await webSocket(page, `${server.url}${path}`)).toBe(1006)
    expect((await api.get(path)).text).not.toContain('planted')
  })

  it('the page /docs shows every operation, and a command line for it', async () => {
    const page = await browser.page(`${server.url}/docs#apis/uptime.example.com/v1alpha1`)
    await expect.poll(() => page.texts('#document h2')).toEqual(['Probe'])
    await page.evaluate(`document.querySelector('details.operation summary').click()`)
    await expect
      .poll(() => page.texts('details.operation[open] > div > pre'))
      .toEqual([`curl -s ${server.url}${path}`])
    expect(page.errors).toEqual([])
  })

  it('the page /docs fits on a phone, with its long paths', async () => {
    const page = await browser.page(`${server.url}/docs#apis/uptime.example.com/v1alpha1`)
    await page.onPhone(390)
    await expect.poll(() => page.texts('#document h2')).toEqual(['Probe'])
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390)
  })
})

describe('with tokens', () => {
  let users: Users<'ann'>
  let server: RunningServer
  let api: Api
  let token: string

  beforeAll(async () => {
    users = await Users.make({ ann: ['setpoint:admins'] })
    token = users.tokenOf('ann')
    const access = [...users.args, '--allowed-origin', `http://${named}:${port}`]
    server = await startSharedServer({ plugins, args: ['--role', 'apiserver', ...access] })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    await users?.remove()
  })

  const headers = () => users.headersOf('ann')

  it.each(['WebSocket', 'fetch'])('a named page lists, writes and watches by %s', async transport => {
    const name = `by-${transport.toLowerCase()}`
    const page = await open(named)
    await connect(page, server.url, transport, token)
    await expect.poll(() => listed(page)).toEqual(shipped)
    await add(page, name)
    await expect.poll(() => listed(page)).toContain(name)
    expect(page.errors).toEqual([])
    expect((await api.delete(`${path}/${name}`, undefined, { headers: headers() })).status).toBe(200)
    await expect.poll(() => listed(page)).toEqual(shipped)
  })

  it('an EventSource cannot send a token, so its watch is refused', async () => {
    const page = await open(named)
    await connect(page, server.url, 'EventSource', token)
    await expect.poll(() => message(page)).toEqual(['the stream is interrupted'])
    expect(page.errors.join()).toContain('401')
  })

  it('a named page reads the error when it sends no token', async () => {
    const page = await open(named)
    await connect(page, server.url, 'fetch')
    await expect.poll(async () => String(await message(page))).toMatch(/^Unauthorized: a token is required/)
  })

  it('a named page reads the headers that are exposed', async () => {
    const page = await open(named)
    const etag = await page.evaluate(
      `fetch('${server.url}/apis', { headers: { authorization: 'Bearer ${token}' } }).then(({ headers }) => headers.get('etag'))`,
    )
    expect(textOf(etag)).toMatch(/^"/)
  })

  it.each([foreign, 'localhost'])('a page of %s reads and writes nothing, even with a token', async host => {
    const page = await open(host)
    await connect(page, server.url, 'fetch', token)
    await expect.poll(() => message(page)).toEqual(['Failed to fetch'])
    expect(await write(page, `${server.url}${path}`, { mode: 'cors', token })).toBe('Failed to fetch')
    expect(await write(page, `${server.url}${path}`, { mode: 'no-cors' })).toBe('opaque')
    const carrier = `base64url.bearer.authorization.k8s.io.${Buffer.from(token).toString('base64url')}`
    expect(await webSocket(page, `${server.url}${path}`, [carrier, 'events'])).toBe(1006)
    expect((await api.get(path, { headers: headers() })).text).not.toContain('planted')
    refusalOf(await api.get(path, { headers: { ...headers(), origin: `http://${host}:${port}` } }), 403)
  })

  it('the page /docs asks for a token and works with it', async () => {
    const page = await browser.page(`${server.url}/docs#apis/uptime.example.com/v1alpha1`)
    await expect.poll(() => message(page)).toEqual(['A token is required.'])
    await page.evaluate(`document.querySelector('#secret').value = ${JSON.stringify(token)}`)
    await page.submit('#token', {})
    await expect.poll(() => page.texts('#document h2')).toEqual(['Probe'])
    await page.evaluate(`document.querySelector('details.operation summary').click()`)
    await expect
      .poll(() => page.texts('details.operation[open] > div > pre'))
      .toEqual([`curl -s -H "Authorization: Bearer $TOKEN" ${server.url}${path}`])
    // The response that asked for the token.
    expect(page.errors.filter(error => !error.includes('401'))).toEqual([])
  })
})
