import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type ServerProcess, startServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { copyFixture } from './support/worlds.ts'

const items = '/apis/items.example.com/v1/items'
const objects = 300
/** Each list tests every object against 90 terms. */
const dearList = `${items}?size=1&labelSelector=${Array.from({ length: 90 }, (_, n) => `l${n}!=v`).join(',')}`

let users: Users<'ann' | 'vic'>
let plugin: string
let server: ServerProcess

beforeAll(async () => {
  users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
  plugin = await copyFixture('items-plugin')
  server = await startServer({ plugins: [plugin], args: users.args })
  const created = await Promise.all(Array.from({ length: objects }, (_, n) => create(`item-${n}`)))
  expect(new Set(created)).toEqual(new Set([201]))
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
  /** Resolves at the next bytes from the server. */
  next(): Promise<unknown>
  /** Sends everything once more. */
  send(): void
  /** From now on, sends a request for each response. */
  repeat(): void
  leave(): void
}

/** Sends the same request many times, pipelined on several connections. */
async function flood(connections: number, each: number, target: string, token: string): Promise<Flood> {
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
  const sent: Flood = {
    statuses: () => received.flatMap(text => text.match(/(?<=HTTP\/1\.1 )\d{3}/g) ?? []),
    next: () => Promise.race(sockets.map(socket => once(socket, 'data'))),
    send: () => {
      for (const socket of sockets) socket.write(request.repeat(each))
    },
    repeat: () => {
      for (const socket of sockets)
        socket.on('data', text => void socket.write(request.repeat(`${text}`.split('HTTP/1.1 ').length - 1)))
    },
    leave: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
  sent.send()
  return sent
}

it.each(['/item-0?resourceVersion=0', '?size=1&resourceVersion=0', '/unknown/status'])(
  "a flood of requests for %s does not hold up another identity's",
  async target => {
    const requests = 125 * 32
    // Its connections are open before the flood begins.
    const calm = await flood(3, 1, `${items}/item-1`, users.tokenOf('ann'))
    await expect.poll(() => calm.statuses()).toEqual(['200', '200', '200'])
    const noisy = await flood(125, 32, `${items}${target}`, users.tokenOf('vic'))
    try {
      await noisy.next()
      calm.send()
      await calm.next()
      expect(noisy.statuses().length).toBeLessThan(requests / 2)
      await expect.poll(() => noisy.statuses().length, { timeout: 30_000 }).toBe(requests)
      expect(noisy.statuses()).not.toContain('429')
    } finally {
      noisy.leave()
      calm.leave()
    }
  },
)

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
    await expect.poll(heldBytes, { timeout: 30_000 }).toBe(630 * 4)
    expect(await create('beside-stalled')).toBe(201)
    expect([...stalled.responses(), ...declared.responses()]).toEqual([])
  } finally {
    stalled.leave()
    declared.leave()
  }
  await expect.poll(heldBytes, { timeout: 30_000 }).toBe(0)
})

it('large bodies that stall are refused past 64 MiB, and other writes of the same identity pass', async () => {
  const large = await openHalfWay(30, 3_000_000, 2_900_000)
  try {
    // 23 of them fit.
    await expect.poll(() => large.responses().length, { timeout: 30_000 }).toBe(7)
    for (const each of large.responses()) {
      expect(each).toMatch(/^HTTP\/1\.1 429 [\s\S]*\r\nretry-after: 1\r\n/i)
      expect(each).toContain('too many bytes of request bodies: those of \\"ann\\" hold')
    }
    expect(await heldBytes()).toBeLessThanOrEqual(64 * 1024 * 1024)
    expect(await create('beside-large', { text: 'x'.repeat(1_000_000) })).toBe(201)
  } finally {
    large.leave()
  }
  await expect.poll(heldBytes, { timeout: 30_000 }).toBe(0)
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
  // After these, the server has accepted all connections, so the next requests arrive in one turn.
  const dear = await flood(400, 1, dearList, users.tokenOf('vic'))
  await expect.poll(() => dear.statuses().length).toBe(400)
  dear.send()
  dear.leave()
  const cancelled =
    /^apiserver_flowcontrol_rejected_requests_total\{priority_level="lists",flow_schema="users",reason="cancelled"\} ([1-9]\d*)$/m
  await expect.poll(metrics).toMatch(cancelled)
  await expect
    .poll(metrics)
    .toMatch(/^apiserver_flowcontrol_current_inqueue_requests\{priority_level="lists"\} 0$/m)
})

it('wrong tokens wait in a class of their own', async () => {
  const wrong = await flood(100, 20, items, 'wrong')
  try {
    const response = await fetch(`${server.url}${items}/item-1`, { headers: users.headersOf('ann') })
    expect(response.status).toBe(200)
    await expect.poll(() => wrong.statuses().length, { timeout: 30_000 }).toBe(2_000)
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
