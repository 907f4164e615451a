import { once } from 'node:events'
import http from 'node:http'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fieldsOf, textOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

/** Lists above and below the sizes that are sent in blocks and compressed. */

const path = '/apis/items.example.com/v1/items'
const objects = 400
const note = 'a rather long text about nothing in particular, '.repeat(20)

let world: SharedWorld

beforeAll(async () => {
  world = await startSharedWorld('embedded', ['items-plugin'])
  const items = itemsOf(world.api)
  const names = Array.from({ length: objects }, (_, i) => `item-${i}`)
  for (let at = 0; at < objects; at += 50)
    await Promise.all(
      names.slice(at, at + 50).map((name, i) => items.create(name, { note, rank: String(i) })),
    )
})

afterAll(() => world.end())

interface Received {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
  readonly localPort: number | undefined
}

/** Sends a request over a connection of this agent, without decompression. */
async function ask(
  agent: http.Agent,
  target: string,
  options: { method?: string; acceptEncoding?: string } = {},
): Promise<Received> {
  const { method = 'GET', acceptEncoding } = options
  const request = http.request(new URL(`${world.server.url}${target}`), {
    agent,
    method,
    headers: acceptEncoding === undefined ? {} : { 'accept-encoding': acceptEncoding },
  })
  request.end()
  const [response]: http.IncomingMessage[] = await once(request, 'response')
  if (response === undefined) throw new Error('no response')
  const localPort = response.socket.localPort
  const parts: Buffer[] = []
  for await (const part of response) parts.push(part)
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: Buffer.concat(parts),
    localPort,
  }
}

function namesOf(body: Buffer): string[] {
  const { items } = fieldsOf(JSON.parse(body.toString()))
  if (!Array.isArray(items)) throw new Error('no items')
  return items.map(item => textOf(fieldsOf(fieldsOf(item).metadata).name))
}

describe('a large list', () => {
  it('is sent with its length, and the connection is reused', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    const ports = new Set<number | undefined>()
    for (let i = 0; i < 3; i++) {
      const { status, headers, body, localPort } = await ask(agent, path)
      expect(status).toBe(200)
      expect(headers['content-length']).toBe(String(body.length))
      expect(headers['content-encoding']).toBeUndefined()
      expect(headers.vary).toBe('Accept-Encoding, Origin')
      expect(new Set(namesOf(body)).size).toBe(objects)
      ports.add(localPort)
    }
    expect(ports.size).toBe(1)
    agent.destroy()
  })

  it('is compressed for a client that accepts gzip, with the same content', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    const plain = await ask(agent, path)
    for (const acceptEncoding of ['gzip', 'gzip, deflate, br', 'identity;q=0.2, gzip;q=0.8', '*']) {
      const packed = await ask(agent, path, { acceptEncoding })
      expect(packed.headers['content-encoding'], acceptEncoding).toBe('gzip')
      expect(packed.headers['content-length']).toBeUndefined()
      expect(packed.headers.vary).toBe('Accept-Encoding, Origin')
      expect(packed.headers['content-type']).toBe(plain.headers['content-type'])
      expect(packed.body.length).toBeLessThan(plain.body.length / 3)
      expect(gunzipSync(packed.body).equals(plain.body)).toBe(true)
      expect(packed.localPort).toBe(plain.localPort)
    }
    agent.destroy()
  })

  it('is not compressed for a client that does not accept gzip', async () => {
    const agent = new http.Agent()
    for (const acceptEncoding of ['identity', 'gzip;q=0', 'gzip;q=0.3, identity;q=0.5', 'br', '']) {
      const { headers, body } = await ask(agent, path, { acceptEncoding })
      expect(headers['content-encoding'], acceptEncoding).toBeUndefined()
      expect(namesOf(body)).toHaveLength(objects)
    }
  })

  it('has the same headers for HEAD, and no body', async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    for (const acceptEncoding of ['identity', 'gzip']) {
      for (const target of [path, `${path}?size=2`, `${path}/item-1`, `${path}/nobody`]) {
        const get = await ask(agent, target, { acceptEncoding })
        const head = await ask(agent, target, { acceptEncoding, method: 'HEAD' })
        expect(head.body).toHaveLength(0)
        expect(head.status).toBe(get.status)
        for (const header of ['content-type', 'content-length', 'content-encoding', 'vary', 'cache-control'])
          expect(head.headers[header], `${header} of ${target}`).toBe(get.headers[header])
      }
    }
    agent.destroy()
  })

  it('can be abandoned halfway, and other clients are served as before', async () => {
    for (const acceptEncoding of ['identity', 'gzip']) {
      const request = http.get(`${world.server.url}${path}`, {
        agent: false,
        headers: { 'accept-encoding': acceptEncoding },
      })
      const [response]: http.IncomingMessage[] = await once(request, 'response')
      if (response === undefined) throw new Error('no response')
      // The response is incomplete on purpose.
      response.on('error', () => {})
      response.once('data', () => request.destroy())
      await new Promise(resolve => response.once('close', resolve))
      const { body } = await ask(new http.Agent(), path)
      expect(namesOf(body)).toHaveLength(objects)
    }
  })
})

describe('a small list', () => {
  it('is not compressed, unless the client accepts only gzip', async () => {
    const agent = new http.Agent()
    const small = await ask(agent, `${path}?size=2`, { acceptEncoding: 'gzip' })
    expect(small.headers['content-encoding']).toBeUndefined()
    expect(small.headers['content-length']).toBe(String(small.body.length))
    expect(small.headers.vary).toBe('Accept-Encoding, Origin')
    const only = await ask(agent, `${path}?size=2`, { acceptEncoding: 'gzip, identity;q=0' })
    expect(only.headers['content-encoding']).toBe('gzip')
    expect(gunzipSync(only.body).equals(small.body)).toBe(true)
  })
})
