import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { eventually } from '../../../../test/support/sdk/eventually.ts'
import { FakeClock } from '../fake-clock.ts'
import { type FaultProxy, startFaultProxy } from './index.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** A server whose watches the test controls; it echoes the body of other requests. */
interface Target {
  readonly url: string
  /** Method, path, Host and body of each received request. */
  readonly seen: { line: string; host: string | undefined; body: string }[]
  /** The server's ends of the watches, in order. */
  readonly watches: Watch[]
  answer: string
}

interface Watch {
  say(text: string): void
  end(): void
  closed: boolean
}

async function startTarget(): Promise<Target> {
  const seen: Target['seen'] = []
  const watches: Watch[] = []
  const target: Target = { url: '', seen, watches, answer: '{"items":[]}' }
  const sockets = new WebSocketServer({ noServer: true })
  const server = http.createServer(async (request, response) => {
    let body = ''
    for await (const part of request.setEncoding('utf8')) body += part
    seen.push({ line: `${request.method} ${request.url}`, host: request.headers.host, body })
    if (!request.url?.includes('watch=true')) {
      response.writeHead(body === '' ? 200 : 201, { 'content-type': 'application/json', 'x-own': 'kept' })
      response.end(body === '' ? target.answer : body)
      return
    }
    const isEvents = request.headers.accept === 'text/event-stream'
    response.writeHead(200, { 'content-type': isEvents ? 'text/event-stream' : 'application/json' })
    response.flushHeaders()
    const watch: Watch = {
      say: text => void response.write(isEvents ? `id: ${text.length}\ndata: ${text}\n\n` : `${text}\n`),
      end: () => response.end(),
      closed: false,
    }
    response.on('close', () => {
      watch.closed = true
    })
    watches.push(watch)
  })
  server.on('upgrade', (request, socket, head) => {
    seen.push({ line: `UPGRADE ${request.url}`, host: request.headers.host, body: '' })
    sockets.handleUpgrade(request, socket, head, client => {
      const watch: Watch = {
        say: text => client.send(text),
        end: () => client.close(1000, 'done'),
        closed: false,
      }
      client.on('message', data => client.send(`echo ${data}`))
      client.on('close', () => {
        watch.closed = true
      })
      watches.push(watch)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  cleanups.push(async () => {
    server.closeAllConnections()
    for (const client of sockets.clients) client.terminate()
    await new Promise(resolve => server.close(resolve))
  })
  return Object.assign(target, { url: `http://127.0.0.1:${port}` })
}

async function start(clock?: FakeClock): Promise<{ target: Target; proxy: FaultProxy }> {
  const target = await startTarget()
  const proxy = await startFaultProxy(target.url, clock && { clock })
  cleanups.push(() => proxy.close())
  return { target, proxy }
}

/** The received data of a watch's client. */
interface Client {
  /** Messages of a WebSocket; else all text so far, as one. */
  readonly got: string[]
  /** The close code of a WebSocket, `end` for a complete response, `broken` for one that was cut. */
  end: string | number | undefined
  /** Whether the response to the upgrade has arrived. */
  isOpen: boolean
  close(): void
  send(text: string): void
}

type Transport = 'WebSocket' | 'lines' | 'events'
const transports: Transport[] = ['WebSocket', 'lines', 'events']
const things = '/apis/demo.example.com/v1/things'

function watch(proxy: FaultProxy, transport: Transport): Client {
  if (transport === 'WebSocket') {
    const socket = new WebSocket(`${proxy.url.replace('http', 'ws')}${things}`)
    const client: Client = {
      got: [],
      end: undefined,
      isOpen: false,
      close: () => socket.terminate(),
      send: text => socket.send(text),
    }
    socket.on('open', () => {
      client.isOpen = true
    })
    socket.on('message', data => client.got.push(data.toString()))
    socket.on('close', code => {
      client.end = code
    })
    socket.on('error', () => {})
    cleanups.push(async () => socket.terminate())
    return client
  }
  const headers = transport === 'events' ? { accept: 'text/event-stream' } : {}
  const request = http.get(`${proxy.url}${things}?watch=true`, { headers, agent: false })
  const client: Client = {
    got: [''],
    end: undefined,
    isOpen: false,
    close: () => request.destroy(),
    send: () => {},
  }
  request.on('error', () => {
    client.end ??= 'broken'
  })
  request.on('response', response => {
    client.isOpen = true
    response.setEncoding('utf8').on('data', (text: string) => {
      client.got[0] += text
    })
    response.on('error', () => {})
    response.on('close', () => {
      client.end ??= response.complete ? 'end' : 'broken'
    })
  })
  cleanups.push(async () => request.destroy())
  return client
}

/** A watch that is open on both sides. */
async function opened(target: Target, proxy: FaultProxy, transport: Transport) {
  const before = target.watches.length
  const client = watch(proxy, transport)
  await eventually(() => target.watches.length > before && client.isOpen)
  const served = target.watches[before]
  if (served === undefined) throw new Error('no watch')
  return { client, served }
}

function textOn(transport: Transport, ...events: string[]): string[] {
  if (transport === 'WebSocket') return events
  return [
    events
      .map(text => (transport === 'lines' ? `${text}\n` : `id: ${text.length}\ndata: ${text}\n\n`))
      .join(''),
  ]
}

const list = (proxy: FaultProxy) => fetch(`${proxy.url}${things}`).then(answer => answer.text())
const read = (proxy: FaultProxy) => fetch(`${proxy.url}${things}/one`).then(answer => answer.text())

describe('a fault proxy', () => {
  it('passes requests and responses unchanged, with the server as Host', async () => {
    const { target, proxy } = await start()
    const body = JSON.stringify({ text: 'ä'.repeat(100_000) })
    const answer = await fetch(`${proxy.url}${things}`, { method: 'POST', body })
    expect([answer.status, answer.headers.get('x-own'), await answer.text()]).toEqual([201, 'kept', body])
    const deleted = await fetch(`${proxy.url}${things}/one?a=b`, { method: 'DELETE', body: '{}' })
    expect([deleted.status, await deleted.text()]).toEqual([201, '{}'])
    const { host } = new URL(target.url)
    expect(target.seen.map(({ line }) => line)).toEqual([`POST ${things}`, `DELETE ${things}/one?a=b`])
    expect(target.seen.map(each => each.host)).toEqual([host, host])
  })

  it('keeps the base path of its target', async () => {
    const target = await startTarget()
    await using proxy = await startFaultProxy(`${target.url}/under/here`)
    await list(proxy)
    expect(target.seen.map(({ line }) => line)).toEqual([`GET /under/here${things}`])
    expect(proxy.lists.total).toBe(1)
  })

  it('accepts only http: targets', async () => {
    await expect(startFaultProxy('https://localhost')).rejects.toThrow(TypeError)
  })

  it('distinguishes watches, lists and other requests, also on one connection', async () => {
    const { target, proxy } = await start()
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    cleanups.push(async () => agent.destroy())
    for (const path of [things, `${things}/one`, '/apis', `${things}?labelSelector=a`]) {
      await new Promise<void>((resolve, reject) => {
        http
          .get(`${proxy.url}${path}`, { agent }, answer => answer.resume().on('end', resolve))
          .on('error', reject)
      })
    }
    for (const transport of transports) await opened(target, proxy, transport)
    const counts = [proxy.watches, proxy.lists, proxy.requests, proxy.all].map(({ open, total }) => [
      open,
      total,
    ])
    expect(counts).toEqual([
      [3, 3],
      [0, 2],
      [0, 2],
      [3, 7],
    ])
  })

  it.each(transports)('cuts only %s watches, and new ones pass', async transport => {
    const { target, proxy } = await start()
    const { client, served } = await opened(target, proxy, transport)
    proxy.watches.cut()
    await eventually(() => client.end !== undefined && served.closed)
    expect(client.end).toBe(transport === 'WebSocket' ? 1006 : 'broken')
    expect(proxy.watches.open).toBe(0)
    expect(await list(proxy)).toBe(target.answer)
    const again = await opened(target, proxy, transport)
    again.served.say('here')
    await eventually(() => again.client.got.join('').includes('here'))
  })

  it('cuts only lists', async () => {
    const { target, proxy } = await start()
    const { client, served } = await opened(target, proxy, 'WebSocket')
    proxy.lists.delay(1_000_000)
    const asked = list(proxy)
    await eventually(() => target.seen.length === 2)
    proxy.lists.cut()
    await expect(asked).rejects.toThrow()
    served.say('alive')
    await eventually(() => client.got.length === 1)
    expect(await read(proxy)).toBe(target.answer)
  })

  it.each(transports)('passes the close of a %s watch in both directions', async transport => {
    const { target, proxy } = await start()
    const first = await opened(target, proxy, transport)
    first.served.end()
    await eventually(() => first.client.end !== undefined)
    expect(first.client.end).toBe(transport === 'WebSocket' ? 1000 : 'end')
    const second = await opened(target, proxy, transport)
    second.client.close()
    await eventually(() => second.served.closed && proxy.watches.open === 0)
  })

  it.each(transports)('truncates a %s watch after any byte, which still arrives', async transport => {
    const { target, proxy } = await start()
    const whole = Buffer.byteLength(
      transport === 'WebSocket' ? '..first' : textOn(transport, 'first').join(''),
    )
    for (let bytes = 0; bytes <= whole; bytes++) {
      const { client, served } = await opened(target, proxy, transport)
      proxy.watches.truncateAfter(bytes, 'once')
      served.say('first')
      served.say('second')
      await eventually(() => client.end !== undefined)
      expect(client.end).toBe(transport === 'WebSocket' ? 1006 : 'broken')
      const expected = textOn(transport, 'first').join('')
      expect(client.got.join('')).toBe(
        transport === 'WebSocket' ? (bytes === whole ? 'first' : '') : expected.slice(0, bytes),
      )
    }
    // `once` truncates only one.
    const { client, served } = await opened(target, proxy, transport)
    served.say('first')
    await eventually(() => client.got.join('') !== '')
    expect(client.end).toBeUndefined()
  })

  it('truncates each response until it is reset, and counts only bodies', async () => {
    const { target, proxy } = await start()
    target.answer = 'x'.repeat(100_000)
    proxy.lists.truncateAfter(99_999)
    await expect(list(proxy)).rejects.toThrow()
    await expect(list(proxy)).rejects.toThrow()
    expect(await read(proxy)).toBe(target.answer)
    proxy.lists.truncateAfter(undefined)
    expect(await list(proxy)).toBe(target.answer)
  })

  it.each(transports)('delays the events of a %s watch, in order', async transport => {
    const clock = new FakeClock()
    const { target, proxy } = await start(clock)
    const { client, served } = await opened(target, proxy, transport)
    served.say('zero')
    await eventually(() => client.got.join('').includes('zero'))
    proxy.watches.delay(500)
    served.say('one')
    await eventually(() => clock.pendingTimers === 1)
    await clock.advance(499)
    expect(client.got.join('')).not.toContain('one')
    proxy.watches.delay(0)
    served.say('two')
    await list(proxy)
    expect(client.got.join('')).not.toContain('two')
    await clock.advance(1)
    await eventually(() => client.got.join('').includes('two'))
    expect(client.got).toEqual(textOn(transport, 'zero', 'one', 'two'))
  })

  it.each(transports)('holds %s watches half-open while lists pass', async transport => {
    const { target, proxy } = await start()
    const { client, served } = await opened(target, proxy, transport)
    const other = await opened(target, proxy, transport)
    proxy.watches.hold()
    served.say('one')
    other.served.end()
    const late = watch(proxy, transport)
    expect(await list(proxy)).toBe(target.answer)
    await eventually(() => proxy.watches.open === 3)
    expect(target.watches).toHaveLength(2)
    expect([client.got.join(''), client.end, other.client.end, late.end]).toEqual([
      '',
      undefined,
      undefined,
      undefined,
    ])
    proxy.watches.release()
    await eventually(() => other.client.end !== undefined && target.watches.length === 3)
    await eventually(() => client.got.join('') !== '')
    expect(client.got).toEqual(textOn(transport, 'one'))
  })

  it.each(transports)(
    'hides the disconnect of the client of a held %s watch from the server',
    async transport => {
      const { target, proxy } = await start()
      const { client, served } = await opened(target, proxy, transport)
      proxy.watches.hold('open')
      client.close()
      const next = await opened(target, proxy, transport)
      next.served.say('new ones pass')
      await eventually(() => next.client.got.join('') !== '')
      expect([served.closed, proxy.watches.open]).toEqual([false, 2])
      proxy.watches.release()
      await eventually(() => served.closed)
      expect(next.client.end).toBeUndefined()
    },
  )

  it('passes nothing of a held client to the server until it is released', async () => {
    const { target, proxy } = await start()
    const { client } = await opened(target, proxy, 'WebSocket')
    proxy.watches.hold()
    client.send('hello')
    await list(proxy)
    expect(client.got).toEqual([])
    proxy.watches.release()
    await eventually(() => client.got.length === 1)
    expect(client.got).toEqual(['echo hello'])
  })

  it('holds lists and other requests before the server sees them', async () => {
    const { target, proxy } = await start()
    proxy.lists.hold()
    proxy.requests.hold()
    const answers = [list(proxy), fetch(`${proxy.url}${things}`, { method: 'POST', body: 'made' })] as const
    await eventually(() => proxy.all.open === 2)
    const { client, served } = await opened(target, proxy, 'WebSocket')
    served.say('alive')
    await eventually(() => client.got.length === 1)
    expect(target.seen.map(({ line }) => line)).toEqual([`UPGRADE ${things}`])
    proxy.all.release()
    expect(await answers[0]).toBe(target.answer)
    expect(await (await answers[1]).text()).toBe('made')
  })

  it.each(transports)(
    'refuses %s watches with a status or a reset, and accepts them again',
    async transport => {
      const { target, proxy } = await start()
      proxy.watches.refuse(503)
      const headers = { accept: transport === 'events' ? 'text/event-stream' : '*/*' }
      if (transport === 'WebSocket') {
        const socket = new WebSocket(`${proxy.url.replace('http', 'ws')}${things}`)
        const [, answer] = await once(socket, 'unexpected-response')
        expect([answer.statusCode, answer.headers['retry-after']]).toEqual([503, '1'])
        answer.destroy()
      } else {
        const answer = await fetch(`${proxy.url}${things}?watch=true`, { headers })
        expect(answer.status).toBe(503)
        expect(await answer.json()).toMatchObject({ kind: 'Status', code: 503, reason: 'ServiceUnavailable' })
      }
      proxy.watches.refuse('connection')
      const reset = watch(proxy, transport)
      await eventually(() => reset.end !== undefined)
      expect(target.watches).toEqual([])
      expect(await list(proxy)).toBe(target.answer)
      proxy.watches.accept()
      await opened(target, proxy, transport)
      expect(proxy.watches.total).toBe(3)
    },
  )

  it.each(transports)(
    'passes complete events of a %s watch to a tamper, however they are chunked',
    async transport => {
      const { target, proxy } = await start()
      const seen: [string, number][] = []
      const long = 'l'.repeat(70_000)
      const middle = 'm'.repeat(200)
      proxy.watches.tamper((frame, nth) => {
        seen.push([frame, nth])
        if (frame === 'dropped') return []
        if (frame === 'doubled') return [frame, frame]
        return [frame === 'false' ? 'made up' : frame]
      })
      const { client, served } = await opened(target, proxy, transport)
      for (const text of ['first', 'dropped', 'doubled', long, 'false', middle]) served.say(text)
      const expected = ['first', 'doubled', 'doubled', long, 'made up', middle]
      await eventually(() => client.got.join('').includes(middle))
      if (transport === 'events') {
        const data = client.got
          .join('')
          .split('\n')
          .filter(line => line.startsWith('data: '))
        expect(data).toEqual(expected.map(text => `data: ${text}`))
        expect(client.got.join('')).toContain('id: 5\ndata: made up\n\n')
      } else expect(client.got).toEqual(textOn(transport, ...expected))
      expect(seen.map(([, nth]) => nth)).toEqual([0, 1, 2, 3, 4, 5])
      expect(seen.map(([frame]) => frame)).toEqual(['first', 'dropped', 'doubled', long, 'false', middle])
    },
  )

  it('resets the connection if the server cannot be reached', async () => {
    const { target, proxy } = await start()
    await opened(target, proxy, 'WebSocket')
    for (const clean of cleanups.splice(0, 1)) await clean()
    await expect(list(proxy)).rejects.toThrow()
    const client = watch(proxy, 'WebSocket')
    await eventually(() => client.end === 1006)
    await eventually(() => proxy.all.open === 0)
  })

  it('ends everything when it is closed', async () => {
    const { target, proxy } = await start()
    const { client, served } = await opened(target, proxy, 'lines')
    const held = await opened(target, proxy, 'WebSocket')
    proxy.watches.hold()
    await proxy.close()
    await proxy.close()
    await eventually(() => client.end === 'broken' && held.client.end === 1006 && served.closed)
    await expect(list(proxy)).rejects.toThrow()
  })
})
