import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parseHTML } from 'linkedom'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { curlOf, groupsOf, sectionsOf } from '../apiserver/pages/view.js'
import { Api } from './support/api.ts'
// Finds bash and curl.
import './support/doc-shell.ts'
import { fieldsOf } from './support/json.ts'
import { devicesOf } from './support/kinds.ts'
import { type RunningServer, startSharedServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { copyFixture, type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** The page `/docs`, over the documents of a real server. */

describe('the page', () => {
  let world: SharedWorld
  beforeAll(async () => {
    world = await startSharedWorld('embedded', ['described-plugin', 'items-plugin'])
  })
  afterAll(() => world?.end())

  const documentOf = async (groupVersion: string) =>
    (await world.api.get(`/openapi/v3/apis/${groupVersion}`)).body

  it('refers to nothing outside of the server, and may load nothing from there', async () => {
    const page = await world.api.get('/docs')
    const files = [...page.text.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, path = '']) => path)
    // The first one leads to the console.
    expect(files.sort()).toEqual(['console', 'docs/docs.css', 'docs/docs.js'])
    for (const path of ['/docs', ...files.slice(1).map(file => `/${file}`), '/docs/view.js']) {
      const { status, headers, text } = await world.api.get(path)
      expect(status, path).toBe(200)
      expect(text, path).not.toMatch(/https?:\/\/|url\(|@import/)
      const policy = headers.get('content-security-policy') ?? ''
      expect(policy.split('; ')).toContain("default-src 'none'")
      expect(policy).not.toMatch(/unsafe|\*|:\/\//)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
    }
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect((await world.api.get('/docs/docs.js')).headers.get('content-type')).toMatch(/^text\/javascript/)
    expect((await world.api.get('/docs/')).status).toBe(404)
  })

  it('lists the groups with their versions', async () => {
    const groups = groupsOf((await world.api.get('/openapi/v3')).body)
    expect(
      groups.map(({ group, versions }) => [group, versions.map(({ version }) => version)]),
    ).toContainEqual(['described.example.com', ['v1', 'v1beta1']])
  })

  it('shows operations by kind and plugin, with fields, parameters and errors', async () => {
    const sections = sectionsOf(await documentOf('described.example.com/v1'))
    expect(sections.map(({ name, operations }) => [name, operations.length])).toEqual([
      ['described', 1],
      ['Boat', 10],
      ['BoatStatus', 7],
    ])
    const create = sections[1]?.operations.find(({ method }) => method === 'POST')
    expect(create?.parameters.map(({ name }) => name)).toEqual(['dryRun', 'fieldValidation', 'fieldManager'])
    expect(create?.responses.find(({ code }) => code === '422')?.description).toMatch(/^Invalid: /)
    const [metadata, spec] = ['metadata', 'spec'].map(name =>
      create?.bodies[0]?.schema.children().find(field => field.name === name),
    )
    expect(metadata?.children().map(({ name }) => name)).toContain('version')
    expect(metadata?.type).toBe('ObjectMeta')
    const fields = new Map(spec?.children().map(field => [field.name, field]))
    expect(fields.get('name')).toMatchObject({
      type: 'string',
      isRequired: true,
      description: 'What the boat is called.',
      notes: ['maxLength: 40'],
    })
    expect(fields.get('cargo')?.type).toBe('map of integer')
    expect(fields.get('sails')).toMatchObject({ type: '[]object' })
    expect(
      fields
        .get('sails')
        ?.children()
        .map(({ name }) => name),
    ).toEqual(['id', 'area'])
    expect(fields.get('engine')?.notes).toEqual(['rule: !has(self.power) || self.power > 0'])
  })

  it('gives command lines that work', async () => {
    const operations = sectionsOf(await documentOf('items.example.com/v1')).flatMap(each => each.operations)
    const run = async (method: string, path: string) => {
      const operation = operations.find(each => each.method === method && each.path.endsWith(path))
      if (operation === undefined) throw new Error(`no operation ${method} ${path}`)
      const { stdout } = await promisify(execFile)('sh', ['-c', curlOf(world.server.url, operation, false)])
      return fieldsOf(JSON.parse(stdout))
    }
    expect(await run('POST', '/devices')).toMatchObject({ kind: 'Device', metadata: { name: 'example' } })
    expect(await run('GET', '/devices')).toMatchObject({ kind: 'DeviceList', total: 1 })
    expect(await run('PATCH', '/devices/{name}')).toMatchObject({
      metadata: { labels: { 'example.com/team': 'a' } },
    })
    expect(await run('PUT', '/devices/{name}/status')).toMatchObject({ status: { phase: 'Up' } })
    expect(await run('DELETE', '/devices/{name}')).toMatchObject({ metadata: { name: 'example' } })
    expect((await world.api.get(devicesOf(world.api).at('example'))).status).toBe(404)
  })

  const schema = { name: '', type: '', isRequired: false, notes: [], description: '', children: () => [] }
  it('names a file for a body that has no example', () => {
    const body = { schema, type: 'application/json', example: '' }
    expect(curlOf('http://h', { method: 'POST', path: '/apis/a/v1/b', bodies: [body] }, false)).toBe(
      "curl -s -X POST -H 'Content-Type: application/json' --data-binary @body http://h/apis/a/v1/b",
    )
  })

  it('quotes what a shell would interpret', () => {
    const body = { schema, type: 'application/json', example: '{"a":"it\'s $HOME"}' }
    const operation = { method: 'POST', path: '/apis/a/v1/b', bodies: [body] }
    expect(curlOf('http://h', operation, true)).toBe(
      `curl -s -X POST -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{"a":"it'\\''s $HOME"}' http://h/apis/a/v1/b`,
    )
  })
})

describe('the documents of the shipped plugins', () => {
  let server: RunningServer
  beforeAll(async () => {
    const folder = (name: string) => fileURLToPath(new URL(`../plugins/${name}`, import.meta.url))
    server = await startSharedServer({ plugins: ['uptime', 'certificates', 'webhooks'].map(folder) })
  })
  afterAll(() => server?.stop())

  it.each([
    ['uptime', 'probes'],
    ['certificates', 'issuers'],
    ['certificates', 'certificates'],
    ['webhooks', 'subscriptions'],
  ])('have an example for %s/%s that can be created', async (plugin, plural) => {
    const api = new Api(server.url)
    const groupVersion = `apis/${plugin}.example.com/v1alpha1`
    const { body } = await api.get(`/openapi/v3/${groupVersion}`)
    const operation = sectionsOf(body)
      .flatMap(({ operations }) => operations)
      .find(({ method, path }) => method === 'POST' && path.endsWith(`/${plural}`))
    const [sent] = operation?.bodies ?? []
    const created = await api.post(`/${groupVersion}/${plural}?dryRun=All`, JSON.parse(sent?.example ?? ''))
    expect(created).toMatchObject({ status: 201 })
  })
})

describe('the page in a browser, on a server with tokens and a base path', () => {
  let users: Users<'ann'>
  let plugins: string[]
  let server: RunningServer
  let token: string
  let requests: { url: string; authorization: string | null }[]

  beforeAll(async () => {
    plugins = await Promise.all(['items-plugin', 'described-plugin'].map(copyFixture))
    users = await Users.make({ ann: ['setpoint:admins'] })
    token = users.tokenOf('ann')
    server = await startSharedServer({ plugins, args: [...users.args, '--base-path', '/x'] })
  })
  afterAll(async () => {
    await server?.stop()
    await users.remove()
    await Promise.all(plugins.map(dir => rm(dir, { recursive: true, force: true })))
  })

  let page: ReturnType<typeof parseHTML>
  beforeEach(async () => {
    const { status, text } = await new Api(server.url).get('/docs')
    expect(status).toBe(200)
    page = parseHTML(text)
    requests = []
    const { origin } = new URL(server.url)
    vi.stubGlobal('document', page.document)
    vi.stubGlobal('HTMLInputElement', page.HTMLInputElement)
    vi.stubGlobal('location', { origin, pathname: '/x/docs', hash: '#apis/items.example.com/v1' })
    vi.stubGlobal('addEventListener', page.window.addEventListener.bind(page.window))
    const send = globalThis.fetch
    vi.stubGlobal('fetch', (path: string, options: RequestInit) => {
      requests.push({ url: path, authorization: new Headers(options.headers).get('authorization') })
      return send(`${origin}${path}`, options)
    })
    vi.resetModules()
    await import(fileURLToPath(new URL('../apiserver/pages/docs.js', import.meta.url)))
  })
  afterEach(() => {
    vi.unstubAllGlobals()
  })

  const shown = (selector: string) => page.document.querySelector(selector)
  const texts = (selector: string) =>
    [...page.document.querySelectorAll(selector)].map(each => each.textContent)

  async function enter(secret: string): Promise<void> {
    await expect.poll(() => shown('#message')?.textContent).toBe('A token is required.')
    Object.assign(shown('#secret') ?? {}, { value: secret })
    shown('#token')?.dispatchEvent(new page.Event('submit', { cancelable: true }))
  }

  it('asks for a token, and shows the documents with it', async () => {
    await enter(token)
    await expect.poll(() => texts('#document h2')).toEqual(['Device', 'Item', 'Vault'])
    expect(texts('nav h2')).toContain('described.example.com')
    expect(texts('nav a[aria-current]')).toEqual(['v1'])
    expect(shown('#secret')).toMatchObject({ value: '' })
    expect(requests.map(({ url }) => url.replace(/\?.*/, ''))).toEqual([
      '/x/openapi/v3',
      '/x/openapi/v3',
      '/x/openapi/v3/apis/items.example.com/v1',
    ])
    expect(requests.at(-1)?.authorization).toBe(`Bearer ${token}`)
    const operation = shown('details.operation')
    operation?.dispatchEvent(new page.Event('toggle'))
    expect(operation?.querySelector('pre')?.textContent).toBe(
      `curl -s -H "Authorization: Bearer $TOKEN" ${server.url}/apis/items.example.com/v1/devices`,
    )
    expect(operation?.textContent).toContain('labelSelector')
  })

  it('asks again after a wrong token', async () => {
    await enter('wrong')
    expect(shown('#message')?.textContent).toBe('Loading')
    await enter(token)
    await expect.poll(() => texts('#document h2').length).toBe(3)
    expect(requests[1]?.authorization).toBe('Bearer wrong')
  })

  it('shows what was asked for last, whatever responds last', async () => {
    await enter('wrong')
    // Sent before the response to the wrong token.
    Object.assign(shown('#secret') ?? {}, { value: token })
    shown('#token')?.dispatchEvent(new page.Event('submit', { cancelable: true }))
    await expect.poll(() => texts('#document h2').length).toBe(3)
    expect(requests.at(-1)?.authorization).toBe(`Bearer ${token}`)
  })
})
