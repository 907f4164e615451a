import { readdirSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fullFormats } from 'ajv-formats/dist/formats.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { docsPaths } from '../apiserver/src/openapi/index.ts'
import { type Caller, hostileRequests, pathOf } from './support/hostile-requests.ts'
import { HostileTarget, longestAllowedMs } from './support/hostile-target.ts'
import { hostileText, shapeNames } from './support/hostile-text.ts'
import { Multiplexed, multiplexProtocol } from './support/multiplex.ts'
import { exampleOf, type Operation, operationsOf } from './support/operations.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { type ServerProcess, spawnProgram, startServer } from './support/server.ts'
import { TurnMeter } from './support/turn-meter.ts'
import { Users } from './support/users.ts'
import { copyFixture } from './support/worlds.ts'

const fixtures = ['items-plugin', 'described-plugin', 'echo-plugin']
const shipped = ['certificates', 'uptime', 'webhooks']

/** Returns the operations of the server's own router, which are in no document, from its source. */
function systemOperations(): readonly Operation[] {
  const folder = fileURLToPath(new URL('../apiserver/src/http', import.meta.url))
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .flatMap(name => [...readFileSync(join(folder, name), 'utf8').matchAll(/\brouter\.get\(\s*(\S+),/g)])
    .flatMap(([, path = '']) => (path === 'path' ? docsPaths : path.slice(1, -1)))
    // Only administrators may take profiles, and a heap snapshot stops the server on purpose.
    .filter(path => !path.startsWith('/debug/pprof/'))
  return ['/', '/elsewhere', ...paths].map(path => operation('GET', path.replace(/:(\w+)/g, '{$1}')))
}

function operation(method: string, path: string): Operation {
  return { method, path, query: new Map(), bodies: new Map() }
}

const handshake = {
  connection: 'Upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'sec-websocket-protocol': multiplexProtocol,
}

describe('no request takes a turn of more than 50 ms of processor time, however hostile it is,', () => {
  let users: Users<'root'>
  let folders: readonly string[] = []
  let server: ServerProcess
  let target: HostileTarget
  let admin: Caller
  let operations: readonly Operation[]
  let watchable: readonly Operation[]
  const system = systemOperations()

  beforeAll(async () => {
    const meter = new TurnMeter()
    users = await Users.make({ root: ['setpoint:admins'] })
    const formats = Object.keys(fullFormats).map(
      format => `'${format}': { type: 'array', items: { type: 'string', format: '${format}' } }`,
    )
    folders = await Promise.all([
      ...fixtures.map(copyFixture),
      writePlugin({
        'index.js': pluginModule('formats').replace("text: { type: 'string' }", formats.join()),
      }),
    ])
    const plugins = shipped.map(name => fileURLToPath(new URL(`../plugins/${name}`, import.meta.url)))
    server = await startServer({
      args: [...users.args, '--allowed-origin', 'http://localhost:3000'],
      plugins: [...folders, ...plugins],
      env: meter.env,
    })
    target = new HostileTarget(server.port, meter)
    admin = { name: 'an administrator', headers: users.headersOf('root') }
    const api = users.api(server.url, 'root')
    // The handler of `throw` throws, whatever the request.
    operations = (await operationsOf(api)).filter(({ path }) => !path.endsWith('/throw'))
    watchable = operations.filter(({ query }) => query.has('watch'))
    for (const each of operations) {
      const description = each.bodies.get('application/json')
      if (each.method !== 'POST' || description === undefined) continue
      // An example may lack what its kind needs. The requests for that object are read, too, before they get 404.
      await api.post(pathOf(each), exampleOf(description))
    }
  })
  afterAll(async () => {
    target?.close()
    // It may be busy for minutes.
    await server?.kill()
    await server?.stop()
    await users?.remove()
    await Promise.all(folders.map(folder => rm(folder, { recursive: true, force: true })))
  })

  it('in no route of the program', () => {
    const paths = new Set([...system, ...operations].map(({ path }) => path))
    for (const path of ['/livez', '/metrics', '/apis/{group}/{version}', '/openapi/v3', '/docs'])
      expect(paths).toContain(path)
    expect(paths).toContain('/apis/api.echo.example.com/v1/headers')
    expect(paths).toContain('/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token')
    expect(watchable.length).toBeGreaterThan(10)
  })

  // Thousands of requests, one after the other.
  it('with the credentials of an administrator', { timeout: 1_200_000 }, async () => {
    const requests = hostileRequests([...system, operation('OPTIONS', '/apis'), ...operations], admin)
    expect(await target.problemsOf(requests)).toEqual([])
  })

  it('without credentials', async () => {
    const isOpen = async (each: Operation) => (await fetch(`${server.url}${pathOf(each)}`)).status !== 401
    const open = (
      await Promise.all(system.map(async each => ((await isOpen(each)) ? each : undefined)))
    ).filter(each => each !== undefined)
    expect(open.map(({ path }) => path)).toContain('/livez')
    const closed = operations.slice(0, 1)
    const requests = hostileRequests([...open, ...closed], { name: 'a stranger', headers: {} })
    expect(await target.problemsOf(requests)).toEqual([])
  })

  it('as a watch over HTTP', async () => {
    const caller = { ...admin, name: 'a watcher', query: 'watch=true', isEndless: true }
    expect(await target.problemsOf(hostileRequests(watchable.slice(0, 2), caller))).toEqual([])
  })

  it('as the handshake of a WebSocket', async () => {
    const caller = { name: 'a browser', headers: { ...admin.headers, ...handshake } }
    const places = [operation('GET', '/apis'), ...watchable.slice(0, 2)]
    expect(await target.problemsOf(hostileRequests(places, caller))).toEqual([])
  })

  it('as a message of a multiplexed socket', async () => {
    const socket = await Multiplexed.open(server.url, '/apis', admin.headers)
    const path = '/apis/items.example.com/v1/items'
    for (const shape of shapeNames) {
      const text = hostileText(shape, 60_000, 'a')
      const encoded = encodeURIComponent(text).slice(0, 60_000)
      const messages = [
        text,
        { op: text },
        { op: 'subscribe', id: text, path },
        { op: 'subscribe', id: 'a', path: text },
        { op: 'subscribe', id: 'a', path: `/${encoded}` },
        { op: 'subscribe', id: 'a', path: `${path}?fieldSelector=${encoded}` },
      ]
      const ms = await target.longestTurnMs(async () => {
        for (const message of messages) {
          const known = socket.messages.length
          const isRefused = () =>
            socket.messages.slice(known).some(({ id, type }) => type === (id === undefined ? 'ERROR' : 'END'))
          socket.say(message)
          await socket.until(isRefused, shape)
        }
      })
      expect(ms, shape).toBeLessThan(longestAllowedMs())
    }
    await socket.close()
  })

  it('to the health of controllers', async () => {
    const meter = new TurnMeter()
    const tokenFile = join(folders[0] ?? '', 'token')
    await writeFile(tokenFile, users.tokenOf('root'), { mode: 0o600 })
    const controllers = spawnProgram(
      [
        ...['serve', '--role', 'controllers', '--server', server.url, '--server-token-file', tokenFile],
        ...['--plugin', folders[0] ?? '', '--health-listen', '127.0.0.1:0'],
      ],
      { env: meter.env },
    )
    const [, port = ''] = await controllers.says(/"url":"[^"]+:(\d+)".*serving health and metrics/, 'stderr')
    const health = new HostileTarget(Number(port), meter, { mayReset: true })
    const paths = ['/livez', '/readyz', '/healthz', '/metrics', '/'].map(path => operation('GET', path))
    try {
      const prober = { name: 'a prober', headers: {}, headerBytes: 16 * 1024 }
      expect(await health.problemsOf(hostileRequests(paths, prober))).toEqual([])
    } finally {
      health.close()
      await controllers.kill('SIGTERM')
    }
  })
})
