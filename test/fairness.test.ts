import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { Agent, get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf } from './support/api.ts'
import { Flood } from './support/flood.ts'
import { fieldsOf } from './support/json.ts'
import { Multiplexed } from './support/multiplex.ts'
import { type ServerProcess, startServer } from './support/server.ts'
import { resume, suspend } from './support/suspend.ts'
import { Users } from './support/users.ts'
import { copyFixture } from './support/worlds.ts'

const items = '/apis/items.example.com/v1/items'
const objects = 1_500
/** More than one user's share of selectors needs. */
const watchesPerUser = 80
const manyTerms = Array.from({ length: 90 }, (_, n) => `l${n}!=v`).join(',')
/** Each list tests every object against 90 terms. */
const dearList = `${items}?size=1&labelSelector=${manyTerms}`

let users: Users<'ann' | 'vic'>
let plugin: string
let server: ServerProcess

beforeAll(async () => {
  users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
  plugin = await copyFixture('items-plugin')
  server = await startServer({
    plugins: [plugin],
    args: [...users.args, '--max-watches-per-user', String(watchesPerUser)],
  })
  for (let at = 0; at < objects; at += 100) {
    const created = await Promise.all(Array.from({ length: 100 }, (_, n) => create(`item-${at + n}`)))
    expect(new Set(created)).toEqual(new Set([201]))
  }
})
afterAll(async () => {
  await server?.stop()
  await Promise.all([users?.remove(), rm(plugin, { recursive: true, force: true })])
})

async function create(name: string, spec: object = {}): Promise<number> {
  const body = JSON.stringify({ apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name }, spec })
  const headers = { ...users.headersOf('ann'), 'content-type': 'application/json' }
  const response = await fetch(`${server.url}${items}`, { method: 'POST', headers, body })
  await response.arrayBuffer()
  return response.status
}

async function metrics(): Promise<string> {
  return (await fetch(`${server.url}/metrics`, { headers: users.headersOf('ann') })).text()
}

/** Opens connections for pipelined requests of one user. */
function openFlood(connections: number, target: string, token: string): Promise<Flood> {
  return Flood.open(server.port, connections, target, () => ({ authorization: `Bearer ${token}` }))
}

/** Sends as many requests at once. */
async function flood(connections: number, each: number, target: string, token: string): Promise<Flood> {
  const opened = await openFlood(connections, target, token)
  await opened.send(each)
  return opened
}

it.each(['/item-0?resourceVersion=0', '?size=1&resourceVersion=0', '/unknown/status'])(
  "a flood of requests for %s does not hold up another identity's",
  async target => {
    const [connections, each] = [125, 32]
    const agent = new Agent({ keepAlive: true })
    const noisy = await openFlood(connections, `${items}${target}`, users.tokenOf('vic'))
    try {
      await noisy.send(1)
      await expect.poll(() => noisy.statuses().length).toBe(connections)
      const before = answeredIn(await text(await scrape(agent).response))
      // The server finds all requests at once, that of the other identity behind all of the flood.
      await suspend(server.pid)
      await noisy.send(each)
      const calm = scrape(agent)
      await calm.sent
      resume(server.pid)
      const answered = answeredIn(await text(await calm.response)) - before
      expect(answered).toBeLessThan((connections * each) / 2)
      await expect.poll(() => noisy.statuses().length).toBe(connections * (1 + each))
      expect(noisy.statuses()).not.toContain('429')
    } finally {
      resume(server.pid)
      noisy.leave()
      agent.destroy()
    }
  },
)

/** Sends a request for the metrics. It waits for its turn like any other. */
function scrape(agent: Agent): { sent: Promise<unknown>; response: Promise<IncomingMessage> } {
  const request = get(`${server.url}/metrics`, { agent, headers: users.headersOf('ann') })
  return {
    sent: once(request, 'finish'),
    response: new Promise((resolve, reject) => request.on('response', resolve).on('error', reject)),
  }
}

/** Returns the number of requests that the server has answered, from its metrics. */
function answeredIn(metrics: string): number {
  const counts = metrics.matchAll(/^apiserver_request_total\{.*\} (\d+)$/gm)
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

/** Opens requests whose bodies of a declared length arrive up to the first `sent` bytes only. */
async function openHalfWay(
  count: number,
  length: number,
  sent: number,
  headersOf: (connection: number) => Readonly<Record<string, string>> = () => users.headersOf('ann'),
): Promise<HalfWay> {
  const headOf = (n: number) =>
    [
      `POST ${items} HTTP/1.1`,
      'host: 127.0.0.1',
      ...Object.entries(headersOf(n)).map(([name, value]) => `${name}: ${value}`),
      'content-type: application/json',
      `content-length: ${length}`,
      '\r\n',
    ].join('\r\n')
  const sockets = Array.from({ length: count }, () => connect(server.port, '127.0.0.1'))
  const received = sockets.map(() => '')
  for (const [n, socket] of sockets.entries()) {
    socket.on('error', () => {})
    socket.setEncoding('latin1').on('data', text => {
      received[n] = (received[n] ?? '') + text
    })
  }
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  for (const [n, socket] of sockets.entries()) socket.write(`${headOf(n)}${'x'.repeat(sent)}`)
  return {
    responses: () => received.filter(each => each !== ''),
    leave: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}

interface HalfWay {
  responses(): readonly string[]
  leave(): void
}

/** Returns the writes of users that were refused while their bodies arrived. */
async function refusedBodies(): Promise<number> {
  const labels = 'priority_level="writes",flow_schema="users",reason="bodies-full"'
  const series = `apiserver_flowcontrol_rejected_requests_total{${labels}} `
  return Number((await metrics()).split(series)[1]?.split('\n')[0])
}

async function heldBytes(): Promise<number> {
  return Number(/^setpoint_flowcontrol_held_bytes (\d+)$/m.exec(await metrics())?.[1])
}

it('600 writes whose bodies stall do not hold up another write of the same identity', async () => {
  const stalled = await openHalfWay(600, 500, 4)
  const declared = await openHalfWay(30, 3_000_000, 4)
  try {
    await expect.poll(heldBytes).toBe(630 * 4)
    expect(await create('beside-stalled')).toBe(201)
    expect([...stalled.responses(), ...declared.responses()]).toEqual([])
  } finally {
    stalled.leave()
    declared.leave()
  }
  await expect.poll(heldBytes).toBe(0)
})

it('large bodies that stall are refused past 64 MiB, and other writes of the same identity pass', async () => {
  const before = await refusedBodies()
  const large = await openHalfWay(30, 3_000_000, 2_900_000)
  try {
    // 23 of them fit.
    await expect.poll(() => large.responses().length).toBe(7)
    for (const each of large.responses()) {
      expect(each).toMatch(/^HTTP\/1\.1 429 [\s\S]*\r\nretry-after: 1\r\n/i)
      expect(each).toContain('too many bytes of request bodies: those of \\"ann\\" hold')
    }
    expect(await refusedBodies()).toBe(before + 7)
    expect(await heldBytes()).toBeLessThanOrEqual(64 * 1024 * 1024)
    expect(await create('beside-large', { text: 'x'.repeat(1_000_000) })).toBe(201)
  } finally {
    large.leave()
  }
  await expect.poll(heldBytes).toBe(0)
})

it('a program that pipelines requests holds up no other program of its identity', async () => {
  const noisy = await flood(20, 32, `${items}/item-0?resourceVersion=0`, users.tokenOf('vic'))
  noisy.repeat()
  try {
    for (let n = 0; n < 20; n++) {
      const response = await fetch(`${server.url}${items}/item-1`, { headers: users.headersOf('vic') })
      await response.arrayBuffer()
      expect(response.status).toBe(200)
    }
    expect(new Set(noisy.statuses())).toEqual(new Set(['200']))
  } finally {
    noisy.leave()
  }
})

it('requests of clients that have left are not served', async () => {
  const series =
    'apiserver_flowcontrol_rejected_requests_total{priority_level="lists",flow_schema="users",reason="cancelled"} '
  const cancelled = async () => Number((await metrics()).split(series)[1]?.split('\n')[0] ?? 0)
  const before = await cancelled()
  // Seconds of work, which has begun when the clients leave.
  const dear = await flood(400, 1, dearList, users.tokenOf('vic'))
  await expect.poll(() => dear.statuses().length).toBeGreaterThan(0)
  dear.leave()
  await expect.poll(cancelled).toBeGreaterThan(before)
  await expect
    .poll(metrics)
    .toMatch(/^apiserver_flowcontrol_current_inqueue_requests\{priority_level="lists"\} 0$/m)
})

it('wrong tokens wait in a class of their own', async () => {
  const wrong = await flood(100, 20, items, 'wrong')
  try {
    const response = await fetch(`${server.url}${items}/item-1`, { headers: users.headersOf('ann') })
    expect(response.status).toBe(200)
    await expect.poll(() => wrong.statuses().length).toBe(2_000)
    expect(new Set(wrong.statuses())).toEqual(new Set(['401']))
  } finally {
    wrong.leave()
  }
  expect(await metrics()).toMatch(
    /^apiserver_flowcontrol_dispatched_requests_total\{priority_level="unauthenticated",flow_schema="unauthenticated"\} \d{4,}$/m,
  )
})

/** The headers by which ann acts for users that do not exist, another one on each connection. */
function invented(connection: number): Record<string, string> {
  return {
    ...users.headersOf('ann'),
    'impersonate-user': `invented-${connection}`,
    'impersonate-group': 'setpoint:admins',
  }
}

describe('a caller that acts for many users', () => {
  const gzip = { 'accept-encoding': 'gzip' }
  const longQuery = `/apis/items.example.com/v1/devices?labelSelector=${manyTerms}`
  const watch = `${items}?watch=true&allowWatchBookmarks=true`
  const isComplete = /\r\n0\r\n\r\n/g

  it.each([
    // Far more of them than the turn of the event loop in which they arrive has time for.
    { share: 'requests', connections: 300, target: longQuery, headers: {}, done: /HTTP\/1\.1 200/g },
    { share: 'compression', connections: 70, target: items, headers: gzip, done: isComplete },
    { share: 'initial events', connections: 70, target: watch, headers: {}, done: /initial-events-end/g },
  ])('has one share of the $share', async ({ connections, target, headers, done }) => {
    const noisy = await Flood.open(server.port, connections, target, n => ({ ...invented(n), ...headers }))
    const calm = await Flood.open(server.port, 1, target, () => ({ ...users.headersOf('vic'), ...headers }))
    try {
      // The server finds all requests at once.
      await suspend(server.pid)
      await noisy.send(1)
      await calm.send(1)
      resume(server.pid)
      await calm.until(done, 1)
      expect(noisy.count(done)).toBeLessThan(connections / 2)
    } finally {
      resume(server.pid)
      noisy.leave()
      calm.leave()
    }
  })

  it('has one share of the messages on WebSockets', async () => {
    const open = (headers: Record<string, string>) => Multiplexed.open(server.url, '/apis', headers)
    const noisy = await Promise.all(Array.from({ length: 70 }, (_, n) => open(invented(n))))
    const calm = await open(users.headersOf('vic'))
    try {
      await suspend(server.pid)
      const path = `/apis/unknown/v1/${'x'.repeat(16_000)}`
      for (const socket of noisy) socket.subscribe('a', path)
      calm.subscribe('a', path)
      resume(server.pid)
      await calm.ends('a')
      expect(noisy.filter(({ messages }) => messages.length > 0).length).toBeLessThan(35)
    } finally {
      resume(server.pid)
      await Promise.all([...noisy, calm].map(socket => socket.cut()))
    }
  })

  it('has one share of the connections that watch, over every transport', async () => {
    const streams = await Flood.open(server.port, watchesPerUser - 2, watch, invented)
    const sockets = []
    try {
      await streams.send(1)
      await expect.poll(() => streams.statuses().length).toBe(watchesPerUser - 2)
      sockets.push(await Multiplexed.open(server.url, '/apis', invented(1_000)))
      sockets.push(await Multiplexed.open(server.url, '/apis', invented(1_001)))
      const refused = await fetch(`${server.url}${watch}`, { headers: invented(1_002) })
      expect(refused.status).toBe(429)
      expect(await refused.text()).toContain(`ann has ${watchesPerUser} connections that watch`)
      await expect(Multiplexed.open(server.url, '/apis', invented(1_003))).rejects.toThrow('429')
    } finally {
      streams.leave()
      await Promise.all(sockets.map(socket => socket.cut()))
    }
  })

  it('has one share of the selectors of watches', async () => {
    const terms = Array.from({ length: 100 }, (_, n) => `key-${n}=${'v'.repeat(60)}`)
    const path = `${items}?resourceVersion=0&labelSelector=${encodeURIComponent(terms.join(','))}`
    // 1 MiB each.
    const sockets = await Promise.all(
      Array.from({ length: 17 }, (_, n) => Multiplexed.open(server.url, '/apis', invented(n))),
    )
    try {
      const refusals = []
      for (const socket of sockets) {
        for (let n = 0; n < 60; n++) socket.subscribe(`${n}`, path)
        await socket.ends('59')
        refusals.push(JSON.stringify(socket.of('59')))
      }
      for (const refusal of refusals.slice(0, 16)) expect(refusal).toContain('this connection has')
      expect(refusals[16]).toContain('ann has')
    } finally {
      await Promise.all(sockets.map(socket => socket.cut()))
    }
  })

  it('has one share of the memory for bodies', async () => {
    const large = await openHalfWay(30, 3_000_000, 2_900_000, invented)
    try {
      await expect.poll(() => large.responses().length).toBe(7)
      for (const each of large.responses()) expect(each).toContain('those of \\"ann\\" hold')
    } finally {
      large.leave()
    }
    await expect.poll(heldBytes).toBe(0)
  })
})

describe('service accounts', () => {
  const watch = `${items}?watch=true&allowWatchBookmarks=true`
  let ann: Api
  beforeAll(async () => {
    ann = users.api(server.url, 'ann')
    const rbac = { apiGroup: 'rbac.authorization.k8s.io' }
    objectOf(
      await ann.post('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: 'accounts' },
        roleRef: { ...rbac, kind: 'ClusterRole', name: 'cluster-admin' },
        subjects: [{ ...rbac, kind: 'Group', name: 'system:serviceaccounts' }],
      }),
      201,
    )
  })

  /** Creates a service account. Returns the headers with a token of it. */
  async function account(namespace: string, name: string): Promise<Record<string, string>> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts`
    objectOf(await ann.post(path, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name } }), 201)
    const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} }
    const { body } = await ann.post(`${path}/${name}/token`, request)
    return { authorization: `Bearer ${fieldsOf(fieldsOf(body).status).token}` }
  }

  it.each([
    ['of a namespace have one share', 'default', 429],
    ['of setpoint-system have a share each', 'setpoint-system', 200],
  ])('%s', async (_what, namespace, status) => {
    const [first, second] = [await account(namespace, 'first'), await account(namespace, 'second')]
    const streams = await Flood.open(server.port, watchesPerUser, watch, () => first)
    const leaving = new AbortController()
    try {
      await streams.send(1)
      await expect.poll(() => streams.statuses().length).toBe(watchesPerUser)
      const response = await fetch(`${server.url}${watch}`, { headers: second, signal: leaving.signal })
      expect(response.status).toBe(status)
      if (status === 429)
        expect(await response.text()).toContain(
          `system:serviceaccounts:default has ${watchesPerUser} connections that watch`,
        )
    } finally {
      leaving.abort()
      streams.leave()
    }
  })
})

it('requests that wait when the server stops get their responses', async () => {
  const dear = await flood(20, 10, dearList, users.tokenOf('vic'))
  await expect.poll(() => dear.statuses().length).toBeGreaterThan(0)
  const { code } = await server.kill('SIGTERM')
  expect(code).toBe(0)
  expect(new Set(dear.statuses())).toEqual(new Set(['200']))
})
