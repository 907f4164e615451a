import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { ApiError, isApiError } from '@setpoint/controller-runtime/api'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { WebSocket } from 'ws'
import { AuditLog, type AuditSink, metadataPolicy } from '../apiserver/src/audit/index.ts'
import { ApiServer, CustomRoutes, Health, RouteCallers } from '../apiserver/src/http/index.ts'
import { Metrics } from '../apiserver/src/metrics/index.ts'
import { loadRules, ServedModel } from '../apiserver/src/model/index.ts'
import type { Actor } from '../apiserver/src/plugins/actor.ts'
import { ActorWrites, LoopbackTransport } from '../apiserver/src/plugins/index.ts'
import { serviceWriteOptions } from '../apiserver/src/registry/index.ts'
import { assembleRooms, startKind } from '../apiserver/src/rooms.ts'
import { LocalOrigins } from '../apiserver/src/security/index.ts'
import { openEmbeddedStorage } from '../apiserver/src/storage/embedded/index.ts'
import { WatchConnections } from '../apiserver/src/watch/index.ts'
import { fieldsOf } from './support/json.ts'
import { Multiplexed, multiplexProtocol } from './support/multiplex.ts'
import { testModel } from './support/rooms.ts'

/** The checks of a request in their order, and the operation that they protect. */
const steps = ['authenticate', 'impersonate', 'read', 'turn', 'authorize', 'operate'] as const

type Step = (typeof steps)[number]

/** What each check refuses a request with. */
const refusals: Record<Exclude<Step, 'operate'>, ApiError> = {
  authenticate: new ApiError('Unauthorized', 'the token is not valid'),
  impersonate: new ApiError('Forbidden', 'the caller may not act for ann'),
  read: new ApiError('BadRequest', 'the path is malformed'),
  turn: new ApiError('TooManyRequests', 'too many requests wait'),
  authorize: new ApiError('Forbidden', 'ann may not do this'),
}

const things = `/apis/${testModel.apiVersion}/${testModel.plural}`
const nothing = `/apis/${testModel.apiVersion}/nothings`

/** Steps of the request under test, while it is under way. */
let reached: Step[] = []
let refusing: Step | undefined

/** Notes a step, and refuses the request if the step is to refuse it. */
function reach(step: Step): void {
  // The audit log reads the path of a request that was refused early.
  if (refusing !== undefined && reached.includes(refusing)) return
  reached.push(step)
  if (step === refusing && step !== 'operate') throw refusals[step]
}

/** The events of the audit log, as stage and code. */
const audited: string[] = []

const sink: AuditSink = {
  name: 'log',
  dropped: 0,
  write(text) {
    const { stage, responseStatus, verb } = fieldsOf(JSON.parse(text))
    audited.push([verb, stage, responseStatus && fieldsOf(responseStatus).code].join(' ').trim())
  },
  close: async () => {},
}

async function openServer() {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
  const storage = await openEmbeddedStorage({ dataDir })
  const audit = new AuditLog({ policy: metadataPolicy, sinks: [sink], isSensitive: () => false })
  const log = silentLogger
  const rooms = assembleRooms({ storage, reservedDomain: 'setpoint.dev', basePath: '', log, audit })
  const { models, api, hub, authorizer, queues, follower, registry } = rooms
  await loadRules([testModel])
  const served = new ServedModel(testModel)
  models.add(served)
  follower.start()
  const { signal } = new AbortController()
  for (const kind of [served, ...rooms.admission.kinds.all]) await startKind(rooms, kind, { log, signal })
  rooms.admission.follow()

  const grant = { reason: 'everyone may do everything' }
  vi.spyOn(authorizer, 'grantOf').mockImplementation((_user, verb) => {
    // A watch checks the permission again when it opens.
    if (reached.includes('operate')) return grant
    if (verb === 'impersonate') reach('impersonate')
    else reached.push('authorize')
    return verb !== 'impersonate' && refusing === 'authorize' ? undefined : grant
  })
  const { handle, modelOf } = api
  vi.spyOn(api, 'modelOf').mockImplementation(path => {
    reach('read')
    return modelOf.call(api, path)
  })
  const { passes } = queues
  vi.spyOn(queues, 'passes').mockImplementation(party => {
    if (party.class !== 'unauthenticated' && party.class !== 'bodies') reach('turn')
    return passes.call(queues, party)
  })
  vi.spyOn(api, 'handle').mockImplementation((...args) => {
    reach('operate')
    return handle.apply(api, args)
  })
  const { admit } = hub
  vi.spyOn(hub, 'admit').mockImplementation((...args) => {
    reach('operate')
    return admit.apply(hub, args)
  })

  const user = { name: 'system:plugin', groups: [] }
  const actor: Actor = {
    user,
    checkUser() {
      if (!reached.includes('operate')) reach('impersonate')
    },
    grantOf: (user, { verb, target }) => authorizer.grantOf(user, verb, target),
    onChange: () => () => {},
  }
  const server = new ApiServer({
    models,
    api,
    routes: new CustomRoutes(models, 'setpoint.dev', new RouteCallers()),
    hub,
    watchConnections: new WatchConnections(),
    origins: new LocalOrigins(),
    access: {
      identify() {
        reach('authenticate')
        return { user: { name: 'proxy', groups: [] }, credential: undefined }
      },
      onRevoked: () => () => {},
    },
    authorizer,
    queues,
    health: new Health({ storage, follower, plugins: () => [] }),
    metrics: new Metrics({ models, follower, hub }),
    log,
    audit,
    isStarting: () => false,
    basePath: '',
  })
  server.server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    served,
    transport: new LoopbackTransport({ api, hub, queues, log, audit, isStarting: () => false }, actor),
    writes: new ActorWrites(
      {
        registry: {
          create(...args) {
            reach('operate')
            return registry.create(...args)
          },
          patch: (...args) => registry.patch(...args),
          delete: (...args) => registry.delete(...args),
          readLive: (...args) => registry.readLive(...args),
        },
        audit,
      },
      actor,
    ),
    async close() {
      hub.close()
      server.close()
      await follower.stop()
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

let server: Awaited<ReturnType<typeof openServer>>
let names = 0

/** Who a request acts for. */
const asAnn = { 'impersonate-user': 'ann' }
const json = { 'content-type': 'application/json' }

/** Every way into the server. Each sends a request and returns the status of its response. */
const ways: Record<string, { readonly passes: readonly Step[]; send(path: string): Promise<number> }> = {
  'a read over HTTP': {
    passes: steps,
    send: path => statusOf(fetch(server.url + path, { headers: asAnn })),
  },
  'a write over HTTP': {
    passes: steps,
    send: path =>
      statusOf(
        fetch(server.url + path, { method: 'POST', headers: { ...asAnn, ...json }, body: newThing() }),
      ),
  },
  'a watch over HTTP': {
    passes: steps,
    send: path => statusOf(fetch(`${server.url}${path}?watch=1`, { headers: asAnn })),
  },
  'a WebSocket': {
    passes: steps,
    send: path => handshake(path),
  },
  'a WebSocket of many watches': {
    // The path does not name a kind, and no watch opens yet.
    passes: ['authenticate', 'impersonate', 'turn', 'authorize'],
    send: () => handshake('/apis', [multiplexProtocol]),
  },
  'a subscription on a WebSocket': {
    // The connection has been authenticated.
    passes: ['read', 'turn', 'authorize', 'operate'],
    send: subscribe,
  },
  'a request of a plugin': {
    passes: ['impersonate', 'read', 'turn', 'authorize', 'operate'],
    send: async path => (await server.transport.request({ method: 'GET', path })).status,
  },
  'a watch of a plugin': {
    passes: ['impersonate', 'read', 'turn', 'authorize', 'operate'],
    async send(path) {
      const watch = await server.transport.watch(path, { signal: new AbortController().signal })
      watch.close()
      return 200
    },
  },
  'a write of the server itself': {
    // It has no path to read, and its writes follow one another.
    passes: ['authorize', 'operate'],
    async send() {
      const options = { ...serviceWriteOptions, namespace: undefined }
      await server.writes.create(server.served, JSON.parse(newThing()), options)
      return 201
    },
  },
}

async function statusOf(sent: Promise<Response>): Promise<number> {
  const response = await sent
  await response.body?.cancel()
  return response.status
}

function handshake(path: string, protocols: string[] = []): Promise<number> {
  const socket = new WebSocket(server.url.replace('http', 'ws') + path, protocols, { headers: asAnn })
  return new Promise((resolve, reject) => {
    socket.on('error', reject)
    socket.on('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0))
    socket.on('open', () => {
      socket.on('close', () => resolve(101))
      socket.terminate()
    })
  })
}

async function subscribe(path: string): Promise<number> {
  const refused = refusing
  refusing = undefined
  const socket = await Multiplexed.open(server.url)
  refusing = refused
  reached = []
  audited.length = 0
  socket.subscribe('a', path)
  await socket.until(() => socket.messages.length > 0, 'an event or the end')
  await socket.cut()
  const end = socket.messages.find(({ type }) => type === 'END')
  return end === undefined ? 200 : Number(end.raw.code)
}

function newThing(): string {
  names++
  const { apiVersion, kind } = testModel
  return JSON.stringify({ apiVersion, kind, metadata: { name: `t${names}` }, spec: {} })
}

/** Sends a request, one of whose checks may refuse it. */
async function send(way: string, path: string, refuse?: Step): Promise<number> {
  refusing = refuse
  reached = []
  audited.length = 0
  try {
    return (await ways[way]?.send(path)) ?? 0
  } catch (error) {
    if (isApiError(error)) return error.code
    throw error
  }
}

beforeAll(async () => {
  server = await openServer()
})
afterAll(async () => {
  await server?.close()
  vi.restoreAllMocks()
})

describe.each(Object.keys(ways))('%s', way => {
  const passes = ways[way]?.passes ?? []
  const checks = passes.filter(step => step !== 'operate')

  it('passes the checks in the one order, and is audited', async () => {
    expect(await send(way, things)).toBeLessThan(300)
    expect(reached).toEqual(passes)
    await expect.poll(() => audited).toContainEqual(expect.stringMatching(/ResponseComplete( \d+)?$/))
  })

  it.each(checks)(
    'is refused by the check %s before any later one, and the refusal is audited',
    async check => {
      const { code } = refusals[check]
      expect(await send(way, things, check)).toBe(code)
      // From another process, a refusal for want of a role is decided again once the roles have caught up.
      const once = reached.filter((step, n) => step !== reached[n - 1])
      expect(once).toEqual(passes.slice(0, passes.indexOf(check) + 1))
      await expect.poll(() => audited).toContainEqual(expect.stringMatching(`ResponseComplete ${code}$`))
    },
  )
})

describe.each(Object.keys(ways).filter(way => ways[way]?.passes.includes('read')))(
  '%s of an unknown kind',
  way => {
    it('is refused with 404, and with 403 without the permission', async () => {
      expect(await send(way, nothing)).toBe(404)
      expect(await send(way, nothing, 'authorize')).toBe(403)
    })
  },
)
