import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { Agent, get, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ServerProcess, startServer } from './support/server.ts'
import { resume, suspend } from './support/suspend.ts'
import { Users } from './support/users.ts'
import { copyFixture } from './support/worlds.ts'

const items = '/apis/items.example.com/v1/items'
const objects = 1_500
/** Each list tests every object against 90 terms. */
const dearList = `${items}?size=1&labelSelector=${Array.from({ length: 90 }, (_, n) => `l${n}!=v`).join(',')}`

let users: Users<'ann' | 'vic'>
let plugin: string
let server: ServerProcess

beforeAll(async () => {
  users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
  plugin = await copyFixture('items-plugin')
  server = await startServer({ plugins: [plugin], args: users.args })
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

interface Flood {
  /** Status codes of the responses so far. */
  statuses(): string[]
  /** Sends this many requests on each connection. */
  send(each: number): void
  /** From now on, sends a request for each response. */
  repeat(): void
  leave(): void
}

/** Opens connections for pipelined requests, which are all the same. */
async function openFlood(connections: number, target: string, token: string): Promise<Flood> {
  const request = `GET ${target} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${token}\r\n\r\n`
  const received = Array.from({ length: connections }, () => '')
  const sockets = Array.from({ length: connections }, () => connect(server.port, '127.0.0.1'))
  await Promise.all(sockets.map(socket => once(socket, 'connect')))
  for (const [n, socket] of sockets.entries()) {
    socket.on('error', () => {})
    socket.setEncoding('latin1').on('data', text => {
      received[n] = (received[n] ?? '') + text
    })
  }
  return {
    statuses: () => received.flatMap(text => text.match(/(?<=HTTP\/1\.1 )\d{3}/g) ?? []),
    send: each => {
      for (const socket of sockets) socket.write(request.repeat(each))
    },
    repeat: () => {
      for (const socket of sockets)
        socket.on('data', text => void socket.write(request.repeat(`${text}`.split('HTTP/1.1 ').length - 1)))
    },
    // A client that only closes its half gets responses for a while.
    leave: () => {
      for (const socket of sockets) socket.resetAndDestroy()
    },
  }
}

/** Sends as many requests at once. */
async function flood(connections: number, each: number, target: string, token: string): Promise<Flood> {
  const opened = await openFlood(connections, target, token)
  opened.send(each)
  return opened
}

it.each(['/item-0?resourceVersion=0', '?size=1&resourceVersion=0', '/unknown/status'])(
  "a flood of requests for %s does not hold up another identity's",
  async target => {
    const [connections, each] = [125, 32]
    const agent = new Agent({ keepAlive: true })
    const noisy = await openFlood(connections, `${items}${target}`, users.tokenOf('vic'))
    try {
      noisy.send(1)
      await expect.poll(() => noisy.statuses().length).toBe(connections)
      const before = answeredIn(await text(await scrape(agent).response))
      // The server finds all requests at once, that of the other identity behind all of the flood.
      await suspend(server.pid)
      noisy.send(each)
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
async function openHalfWay(count: number, length: number, sent: number): Promise<HalfWay> {
  const head = [
    `POST ${items} HTTP/1.1`,
    'host: 127.0.0.1',
    `authorization: Bearer ${users.tokenOf('ann')}`,
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
  for (const socket of sockets) socket.write(`${head}${'x'.repeat(sent)}`)
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
  const large = await openHalfWay(30, 3_000_000, 2_900_000)
  try {
    // 23 of them fit.
    await expect.poll(() => large.responses().length).toBe(7)
    for (const each of large.responses()) {
      expect(each).toMatch(/^HTTP\/1\.1 429 [\s\S]*\r\nretry-after: 1\r\n/i)
      expect(each).toContain('too many bytes of request bodies: those of \\"ann\\" hold')
    }
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

it('requests that wait when the server stops get their responses', async () => {
  const dear = await flood(20, 10, dearList, users.tokenOf('vic'))
  await expect.poll(() => dear.statuses().length).toBeGreaterThan(0)
  const { code } = await server.kill('SIGTERM')
  expect(code).toBe(0)
  expect(new Set(dear.statuses())).toEqual(new Set(['200']))
})
