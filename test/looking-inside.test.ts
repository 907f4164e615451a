import { mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Api } from './support/api.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { type ServerProcess, startServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { Watch } from './support/watch.ts'
import { copyFixture, eventually } from './support/worlds.ts'

const looks = [
  '/configz',
  '/debug/callers',
  '/debug/watches',
  '/debug/pprof/profile?seconds=1',
  '/debug/pprof/heap',
]

describe('a server that an administrator looks into', () => {
  let folder: string
  let users: Users<'root' | 'vic' | 'scraper'>
  let plugins: readonly string[] = []
  let server: ServerProcess
  let root: Api
  let vic: Api

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-looks-'))
    users = await Users.make({
      root: ['setpoint:admins'],
      vic: ['setpoint:viewers'],
      scraper: ['setpoint:metrics-readers'],
    })
    const setup = `plugin.routes('api.slow.example.com/v1', r => r
      .get('/naps/:name', () => new Promise(resolve => setTimeout(resolve, 300, { body: 'rested' }))))`
    plugins = [
      await copyFixture('items-plugin'),
      await writePlugin({ 'index.js': pluginModule('slow', { setup }) }),
    ]
    const args = [...users.args, '--audit-log', join(folder, 'audit.log'), '--slow-request-ms', '300']
    server = await startServer({ plugins, args, env: { SETPOINT_ETCD_PASSWORD: 'correct-horse' } })
    root = users.api(server.url, 'root')
    vic = users.api(server.url, 'vic')
  })
  afterAll(async () => {
    await server?.stop()
    await users?.remove()
    for (const each of [...plugins, folder]) await rm(each, { recursive: true, force: true })
  })

  it.each(looks)('refuses %s to everybody but administrators, and audits it', async path => {
    expect((await fetch(`${server.url}${path}`)).status).toBe(401)
    for (const api of [vic, users.api(server.url, 'scraper')])
      expect((await api.request('HEAD', path)).status).toBe(403)
    expect((await root.request('HEAD', path)).status).toBe(200)
    expect((await root.post(path, {})).status).toBe(405)
    await eventually(async () => {
      const lines = (await readFile(join(folder, 'audit.log'), 'utf8')).trim().split('\n')
      const events = lines.map(line => fieldsOf(JSON.parse(line))).filter(each => each.requestURI === path)
      const codes = events.map(({ responseStatus = {} }) => fieldsOf(responseStatus).code)
      expect(codes).toEqual(expect.arrayContaining([401, 403, 200, 405]))
    })
  })

  it('shows the settings in force without their secrets', async () => {
    const { text, body } = await root.get('/configz')
    expect(body).toMatchObject({
      setpoint: {
        'slow-request-ms': { value: '300', from: '--slow-request-ms' },
        'etcd-password': { value: '[secret]', from: 'SETPOINT_ETCD_PASSWORD' },
        'base-path': { value: '/', from: 'default' },
        'token-file': { value: users.path },
      },
    })
    expect(text).not.toContain('correct-horse')
    expect(text).not.toContain('sha256')
  })

  it('counts the open watches and the requests of each caller', async () => {
    const items = itemsOf(root)
    const watching = await Watch.open(server.url, items.path, { headers: users.headersOf('vic') })
    await watching.synced()
    const row = { caller: 'vic', resource: 'items.items.example.com', watches: 1 }
    const watches = async () => arrayOf(fieldsOf((await root.get('/debug/watches')).body).rows)
    expect(await watches()).toContainEqual(expect.objectContaining(row))
    await watching.cut()
    await eventually(async () => expect(await watches()).not.toContainEqual(expect.objectContaining(row)))
    for (let n = 0; n < 3; n++) await vic.get(items.path)
    const { callers } = fieldsOf((await root.get('/debug/callers')).body)
    const ofVic = arrayOf(callers)
      .map(fieldsOf)
      .find(({ caller }) => caller === 'vic')
    expect(ofVic?.requests).toBeGreaterThanOrEqual(4)
  })

  it('takes one profile at a time', async () => {
    const path = '/debug/pprof/profile?seconds=1'
    const answers = await Promise.all([root.get(path), root.get(path)])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 429])
    const [profile] = answers.filter(({ status }) => status === 200)
    expect(fieldsOf(profile?.body)).toMatchObject({ nodes: expect.any(Array), samples: expect.any(Array) })
    for (const seconds of ['0', '61', 'x', ''])
      expect((await root.get(`/debug/pprof/profile?seconds=${seconds}`)).status).toBe(400)
  })

  it('takes another one when the client of the first has left', async () => {
    const leaving = new AbortController()
    const left = root.get('/debug/pprof/profile?seconds=60', { signal: leaving.signal }).catch(() => {})
    // The other one is that of the metrics.
    const inFlight = /^apiserver_current_inflight_requests\{request_kind="readOnly"\} 2$/m
    await eventually(async () => expect((await root.get('/metrics')).text).toMatch(inFlight))
    const quick = '/debug/pprof/profile?seconds=1'
    expect((await root.get(quick)).status).toBe(429)
    leaving.abort()
    await left
    await eventually(async () => expect((await root.get(quick)).status).toBe(200))
  })

  it('streams a snapshot of its heap, and nothing else until the client has it or has left', async () => {
    const { status, body } = await fetch(`${server.url}/debug/pprof/heap`, {
      headers: users.headersOf('root'),
    })
    expect(status).toBe(200)
    const reader = body?.getReader()
    const first = await reader?.read()
    expect(Buffer.from(first?.value ?? []).toString()).toMatch(/^\{"snapshot":\{"meta":/)
    const other = '/debug/pprof/profile?seconds=1'
    expect((await root.get(other)).status).toBe(429)
    await reader?.cancel()
    await eventually(async () => expect((await root.get(other)).status).toBe(200))
  })

  it('reports single checks, and all but some, to callers without credentials', async () => {
    const ask = async (path: string) => {
      const response = await fetch(`${server.url}${path}`)
      return { status: response.status, text: await response.text() }
    }
    expect(await ask('/readyz/store')).toEqual({ status: 200, text: 'ok' })
    expect(await ask('/livez/ping')).toEqual({ status: 200, text: 'ok' })
    expect((await ask('/readyz/store?verbose')).text).toBe('[+]store ok\nreadyz check passed\n')
    expect((await ask('/readyz?verbose&exclude=store')).text).not.toContain('store')
    for (const path of ['/readyz/elsewhere', '/livez/store', '/readyz/store/x', '/readyzz/store'])
      expect([path, (await ask(path)).status]).toEqual([path, path.startsWith('/readyzz') ? 401 : 404])
  })

  it('tells its version, checks, certificates, files and requests in progress as metrics', async () => {
    const { text } = await root.get('/metrics')
    expect(text).toMatch(
      /^setpoint_build_info\{version=".+",commit="",node="v.+",store="embedded",role="all"\} 1$/m,
    )
    expect(text).toContain('kubernetes_healthcheck{name="store",type="readyz"} 1')
    expect(text).toMatch(/^apiserver_current_inflight_requests\{request_kind="readOnly"\} [1-9]/m)
    expect(text).toContain('apiserver_current_inflight_requests{request_kind="mutating"} 0')
    expect(text).toContain('setpoint_file_reloads_total{file="token-file",outcome="success"} 0')
  })

  it('counts reloads of its files', async () => {
    const failing = /^setpoint_file_reloads_total\{file="token-file",outcome="failure"\} 1$/m
    await rename(users.path, `${users.path}.away`)
    await eventually(async () => expect((await root.get('/metrics')).text).toMatch(failing))
    expect((await root.get('/metrics')).text).toMatch(
      /^setpoint_file_failing_seconds\{file="token-file"\} (0\.|[1-9])/m,
    )
    await rename(`${users.path}.away`, users.path)
    const working = /^setpoint_file_failing_seconds\{file="token-file"\} 0$/m
    await eventually(async () => expect((await root.get('/metrics')).text).toMatch(working))
  })

  it('logs slow requests with where their time went, and without the values of parameters', async () => {
    const path = '/apis/api.slow.example.com/v1/naps/long'
    expect((await vic.get(`${path}?password=hidden&limit=1`)).status).toBe(200)
    const line = await eventually(() => {
      const found = server
        .stderr()
        .split('\n')
        .find(each => each.includes('slow request') && each.includes(path))
      expect(found).toBeDefined()
      return fieldsOf(JSON.parse(textOf(found)))
    })
    expect(line).toMatchObject({
      level: 'warn',
      user: 'vic',
      verb: 'GET',
      path,
      parameters: 'password limit',
      code: 200,
    })
    expect(line.ms).toBeGreaterThanOrEqual(300)
    for (const part of ['queueMs', 'bodyMs', 'storeMs']) expect(line[part]).toEqual(expect.any(Number))
    expect(server.stderr()).not.toContain('hidden')
    // Profiles take long on purpose.
    await root.get('/debug/pprof/profile?seconds=1')
    expect(server.stderr()).not.toMatch(/slow request.*pprof/)
  })
})
