import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeToken } from '../apiserver/src/security/index.ts'
import { type ServerProcess, startServer } from './support/server.ts'
import { copyFixture } from './support/worlds.ts'

const items = '/apis/items.example.com/v1/items'
const objects = 300
/** Each list tests every object against 90 terms. */
const dearList = `${items}?size=1&labelSelector=${Array.from({ length: 90 }, (_, n) => `l${n}!=v`).join(',')}`

const ann = makeToken({ name: 'ann', groups: ['setpoint:admins'] })
const vic = makeToken({ name: 'vic', groups: ['setpoint:viewers'] })

let folder: string
let plugin: string
let server: ServerProcess

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-fairness-'))
  const tokenFile = join(folder, 'tokens.yaml')
  await writeFile(tokenFile, ann.entry + vic.entry, { mode: 0o600 })
  plugin = await copyFixture('items-plugin')
  server = await startServer({ plugins: [plugin], args: ['--token-file', tokenFile] })
  const created = await Promise.all(Array.from({ length: objects }, (_, n) => create(`item-${n}`)))
  expect(new Set(created)).toEqual(new Set([201]))
})
afterAll(async () => {
  await server?.stop()
  await Promise.all([folder, plugin].map(path => rm(path, { recursive: true, force: true })))
})

const bearer = ({ token }: { token: string }) => ({ authorization: `Bearer ${token}` })

async function create(name: string, spec: object = {}): Promise<number> {
  const body = JSON.stringify({ apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name }, spec })
  const headers = { ...bearer(ann), 'content-type': 'application/json' }
  const response = await fetch(`${server.url}${items}`, { method: 'POST', headers, body })
  await response.arrayBuffer()
  return response.status
}

async function metrics(): Promise<string> {
  return (await fetch(`${server.url}/metrics`, { headers: bearer(ann) })).text()
}

interface Flood {
  /** Status codes of the responses so far. */
  statuses(): string[]
  /** Resolves at the next bytes from the server. */
  next(): Promise<unknown>
  /** Sends everything once more. */
  send(): void
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
    const requests = 20 * 200
    // Its connections are open before the flood begins.
    const calm = await flood(3, 1, `${items}/item-1`, ann.token)
    await expect.poll(() => calm.statuses()).toEqual(['200', '200', '200'])
    const noisy = await flood(20, 200, `${items}${target}`, vic.token)
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

it('requests of clients that have left are not served', async () => {
  const dear = await flood(20, 50, dearList, vic.token)
  await expect.poll(() => dear.statuses().length).toBeGreaterThan(0)
  dear.leave()
  await expect
    .poll(metrics)
    .toMatch(/^apiserver_flowcontrol_current_inqueue_requests\{priority_level="lists"\} 0$/m)
  const cancelled =
    /^apiserver_flowcontrol_rejected_requests_total\{priority_level="lists",flow_schema="users",reason="cancelled"\} ([1-9]\d*)$/m
  expect(await metrics()).toMatch(cancelled)
})

it('wrong tokens wait in a class of their own', async () => {
  const wrong = await flood(10, 200, items, 'wrong')
  try {
    const response = await fetch(`${server.url}${items}/item-1`, { headers: bearer(ann) })
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
  const dear = await flood(20, 10, dearList, vic.token)
  await expect.poll(() => dear.statuses().length).toBeGreaterThan(0)
  const { code } = await server.kill('SIGTERM')
  expect(code).toBe(0)
  expect(new Set(dear.statuses())).toEqual(new Set(['200']))
})
