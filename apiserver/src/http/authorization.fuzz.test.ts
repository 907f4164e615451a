import { mkdtemp, rm } from 'node:fs/promises'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { defineModel, silentLogger, singleValueIndex } from '@setpoint/controller-runtime'
import { expect, it } from 'vitest'
import { Metrics } from '../metrics/index.ts'
import { ServedModel } from '../model/index.ts'
import { serviceWriteOptions } from '../registry/index.ts'
import { assembleRooms, startBuiltInKinds, startKind } from '../rooms.ts'
import { type Access, LocalOrigins, type PolicyRule } from '../security/index.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import { WatchConnections } from '../watch/index.ts'
import { CustomRoutes } from './custom-routes.ts'
import { Health } from './health.ts'
import { RouteCallers } from './route-callers.ts'
import { ApiServer } from './server.ts'

const requests = Number(process.env.FUZZ_REQUESTS ?? 100_000)
const inFlight = 64

const schema = {
  spec: { type: 'object', properties: { text: { type: 'string' }, code: { type: 'string' } } },
} as const
const Thing = defineModel({
  ...{ group: 'fuzz.example.com', version: 'v1', kind: 'Thing', singular: 'thing', plural: 'things', schema },
  indexes: [singleValueIndex({ name: 'spec.code', unique: true, indexFunc: ({ spec }) => spec.code })],
})
const Seat = defineModel({
  ...{ group: 'fuzz.example.com', version: 'v1', kind: 'Seat', singular: 'seat', plural: 'seats', schema },
  scope: 'Namespaced',
})
const Vault = defineModel({
  ...{ group: 'fuzz.example.com', version: 'v1', kind: 'Vault', singular: 'vault', plural: 'vaults', schema },
  sensitive: true,
})

const objects = [
  ...['a', 'b', 'c'].map(name => ({ model: Thing, name, namespace: undefined })),
  ...['x', 'y'].flatMap(namespace => ['a', 'b'].map(name => ({ model: Seat, name, namespace }))),
  ...['a', 'b'].map(name => ({ model: Vault, name, namespace: undefined })),
].map(object => ({ ...object, mark: `<<${object.model.plural}/${object.namespace ?? ''}/${object.name}>>` }))

const rule = (
  verbs: readonly string[],
  resources: readonly string[],
  resourceNames: readonly string[] = [],
) => ({ verbs, apiGroups: ['fuzz.example.com'], resources, resourceNames }) satisfies PolicyRule
const reading = ['get', 'list', 'watch']

/** The users, with their rules by namespace ('' is cluster-wide), and the marks that they may see. */
const users: Readonly<
  Record<
    string,
    {
      groups?: readonly string[]
      rules?: Readonly<Record<string, PolicyRule[]>>
      sees: (mark: string) => boolean
    }
  >
> = {
  viewer: { groups: ['setpoint:viewers'], sees: mark => !mark.startsWith('<<vaults') },
  named: { rules: { '': [rule(reading, ['things'], ['a'])] }, sees: mark => mark === '<<things//a>>' },
  inX: { rules: { x: [rule(['*'], ['*'])] }, sees: mark => mark.startsWith('<<seats/x/') },
  writer: { rules: { '': [rule(['create'], ['things'])] }, sees: () => false },
  lister: { rules: { '': [rule(['list'], ['seats'])] }, sees: mark => mark.startsWith('<<seats/') },
  nothing: { sees: () => false },
  statusOnly: { rules: { '': [rule(['*'], ['*/status', 'things/scale'])] }, sees: () => false },
}

/** A generator of numbers below a bound, the same in each run (Lehmer). */
function randomNumbers(seed: number): (bound: number) => number {
  let state = seed
  return bound => {
    state = (state * 48_271) % 2_147_483_647
    return state % bound
  }
}

const random = randomNumbers(20_261_122)
const pick = <T>(...values: readonly [T, ...T[]]): T => values[random(values.length)] ?? values[0]

/** Returns the usual value nine times out of ten. */
const mostly = <T>(usual: T, ...odd: readonly [T, ...T[]]): T => (random(10) > 0 ? usual : pick(...odd))

function randomPath(): string {
  const root = mostly('/apis/', '/api/', '//apis/', '/apis/../apis/', '/openapi/v3/apis/')
  const group = mostly('fuzz.example.com', 'Fuzz.example.com', '', 'fuzz.example.com%2Fv1')
  const plural = mostly(
    pick('things', 'seats', 'vaults'),
    'Things',
    'things%00',
    'seat%73',
    'vaults%2Fa',
    '*',
    '',
  )
  const inNamespace = pick('namespaces/x/', 'namespaces/x/', 'namespaces/y/', '')
  const place = mostly(
    plural === 'seats' ? inNamespace : '',
    'namespaces//',
    'namespaces/x%2Fa/',
    'NAMESPACES/x/',
  )
  const name = mostly(pick('', '/a', '/b', '/c'), '/%61', '/a%2Fstatus', '/..', '/*', '/')
  const sub =
    name === '' ? '' : mostly(pick('', '', '', '/status'), '/scale', '/finalize', '/', '//', '/status/a')
  return `${root}${group}/v1/${place}${plural}${name}${sub}`
}

/** Writes are dry runs, so that all objects stay. */
function randomQuery(isRead: boolean): string {
  const term = () =>
    pick(
      'watch=true',
      'watch=1&timeoutSeconds=1',
      'fieldSelector=metadata.name%3Da',
      'fieldSelector=metadata.name%3Da,metadata.name%3Db',
      'fieldSelector=metadata.name!%3Da',
      'fieldSelector=metadata.name%20in%20(a,b)',
      'fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db',
      'fieldSelector=spec.code%3Da%5C,metadata.name%3Da',
      'limit=1',
      'size=1&page=2',
      'sort=metadata.name',
      'dryRun=All',
      'resourceVersion=0',
      'fieldManager=m',
      'labelSelector=a',
      'continue=abc',
      '%zz',
    )
  if (!isRead) return pick('?dryRun=All', `?dryRun=All&${term()}`)
  return pick('', '', `?${term()}`, `?${term()}&${term()}`)
}

function randomBody(): string {
  const name = pick('a', 'b', 'new')
  const body = { metadata: { name }, spec: { code: pick('a', 'b', 'c', 'z') } }
  const typed = { apiVersion: 'fuzz.example.com/v1', kind: pick('Thing', 'Seat', 'Vault'), ...body }
  return pick('', '{', '[]', 'null', JSON.stringify(body), JSON.stringify(typed), JSON.stringify(typed))
}

function randomHeaders(body: string): Record<string, string> {
  return {
    host: 'localhost',
    ...(body !== '' && { 'content-length': String(body.length) }),
    'content-type': mostly(
      'application/json',
      'application/merge-patch+json',
      'application/apply-patch+yaml',
      'application/json-patch+json',
      'text/plain',
    ),
    accept: mostly(
      '*/*',
      'application/json;as=Table;v=v1;g=meta.k8s.io',
      'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io',
      'text/event-stream',
      'nonsense',
    ),
    ...mostly<Record<string, string>>(
      {},
      { 'impersonate-user': 'viewer' },
      { 'impersonate-user': 'x', 'impersonate-group': 'setpoint:admins' },
      { 'impersonate-group': 'setpoint:viewers' },
      { 'impersonate-extra-%zz': 'a' },
    ),
  }
}

const callers: Access = {
  identify({ headers }) {
    const name = String(headers['x-user'])
    const groups = [...(users[name]?.groups ?? []), 'system:authenticated']
    return { user: { name, groups }, credential: undefined }
  },
  onRevoked: () => () => {},
}

it('no fuzzed request gets a 500, or an object that its caller may not see', {
  timeout: 300_000,
}, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
  const log = silentLogger
  const storage = await openEmbeddedStorage({ dataDir, durable: false })
  const rooms = assembleRooms({ storage, reservedDomain: 'setpoint.dev', basePath: '', log })
  const { models, registry, follower, hub, api, authorizer, builtIn, queues } = rooms
  const stopping = new AbortController()
  follower.start()
  const served = [Thing, Seat, Vault].map(model => new ServedModel(model))
  for (const each of [...builtIn.all, ...served]) models.add(each)
  const starting = { log, signal: stopping.signal }
  await Promise.all([
    startBuiltInKinds(rooms, starting),
    ...served.map(each => startKind(rooms, each, starting)),
  ])
  const create = async (
    apiVersion: string,
    kind: string,
    metadata: { name: string; namespace?: string },
    content: object,
  ) => {
    const found = models.findKind(apiVersion, kind)
    if (found === undefined) throw new Error(kind)
    const { namespace } = metadata
    const options = { ...serviceWriteOptions, ...(namespace !== undefined && { namespace }) }
    await registry.create(found, { apiVersion, kind, metadata, ...content }, options)
  }
  const rbac = 'rbac.authorization.k8s.io'
  for (const name of ['x', 'y']) await create('v1', 'Namespace', { name }, {})
  for (const [name, { rules = {} }] of Object.entries(users)) {
    for (const [namespace, given] of Object.entries(rules)) {
      const prefix = namespace === '' ? 'Cluster' : ''
      const metadata = { name: name.toLowerCase(), ...(namespace !== '' && { namespace }) }
      const roleRef = { apiGroup: rbac, kind: `${prefix}Role`, name: metadata.name }
      const subjects = [{ apiGroup: rbac, kind: 'User', name }]
      await create(`${rbac}/v1`, `${prefix}Role`, metadata, { rules: given })
      await create(`${rbac}/v1`, `${prefix}RoleBinding`, metadata, { roleRef, subjects })
    }
  }
  for (const { model, name, namespace, mark } of objects) {
    const metadata = { name, ...(namespace !== undefined && { namespace }) }
    await create(model.apiVersion, model.kind, metadata, {
      spec: { text: mark, code: `${name}${namespace ?? ''}` },
    })
  }
  await rooms.gate.pass()

  const app = new ApiServer({
    ...{ models, api, hub, authorizer, queues, log, access: callers, origins: new LocalOrigins() },
    routes: new CustomRoutes(models, 'setpoint.dev', new RouteCallers()),
    watchConnections: new WatchConnections(),
    health: new Health({ storage, follower, plugins: () => [] }),
    metrics: new Metrics({ models, follower, hub }),
    isStarting: () => false,
    basePath: '',
  })
  // Most requests are refused, and the stacks of their errors take a sixth of the time.
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  const names = Object.keys(users)
  const seen = new Map<string, Set<string>>(names.map(name => [name, new Set()]))
  const statuses = new Map<number, number>()
  const faults: string[] = []

  /** Sends a request through the whole chain, without a socket. */
  const send = async (name: string): Promise<void> => {
    const method = pick(
      'GET',
      'GET',
      'GET',
      'GET',
      'HEAD',
      'POST',
      'PUT',
      'PATCH',
      'DELETE',
      'OPTIONS',
      'QUERY',
    )
    const isRead = method === 'GET' || method === 'HEAD'
    const body = isRead ? '' : randomBody()
    const target = randomPath() + randomQuery(isRead)
    const socket = new Socket()
    let received = ''
    socket._write = (chunk, _encoding, done) => {
      received += chunk
      done()
    }
    socket._writev = (chunks, done) => {
      for (const { chunk } of chunks) received += chunk
      done()
    }
    const message = new IncomingMessage(socket)
    const headers = { ...randomHeaders(body), 'x-user': name }
    Object.assign(message, {
      method,
      url: target,
      httpVersion: '1.1',
      httpVersionMajor: 1,
      httpVersionMinor: 1,
    })
    for (const [key, value] of Object.entries(headers)) {
      message.headers[key] = value
      message.rawHeaders.push(key, value)
    }
    message.push(body)
    message.push(null)
    const response = new ServerResponse(message)
    response.assignSocket(socket)
    let isOver = false
    const over = new Promise<void>(resolve => {
      for (const event of ['finish', 'close'] as const)
        response.once(event, () => {
          isOver = true
          resolve()
        })
    })
    app.server.emit('request', message, response)
    if (target.includes('watch=')) {
      // A watch sends its first events and stays open.
      for (let turn = 0; turn < 20 && !isOver; turn++) await setImmediate()
      response.destroy()
    } else await over
    const { statusCode } = response
    statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
    if (statusCode === 500) faults.push(`${name}: ${method} ${target} ${body}: ${received.slice(-300)}`)
    for (const [mark] of received.matchAll(/<<[a-z]+\/[a-z]*\/[a-z]>>/g)) {
      seen.get(name)?.add(mark)
      if (!users[name]?.sees(mark))
        faults.push(`${name} sees ${mark}: ${method} ${target} ${JSON.stringify(headers)}`)
    }
    socket.destroy()
  }

  try {
    let sent = 0
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        while (sent < requests && faults.length < 5) await send(names[sent++ % names.length] ?? '')
      }),
    )
    expect(faults).toEqual([])
    // The requests are not all nonsense.
    for (const [name, marks] of seen) {
      const visible = objects.filter(({ mark }) => users[name]?.sees(mark)).length
      expect([name, marks.size]).toEqual([name, visible])
    }
    for (const status of [200, 403, 404, 400])
      expect(statuses.get(status), String(status)).toBeGreaterThan(200)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
    hub.close()
    app.close()
    stopping.abort()
    await follower.stop()
    await storage.close()
    await rm(dataDir, { recursive: true, force: true })
  }
})
