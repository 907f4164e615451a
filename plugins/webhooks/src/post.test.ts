import { getEventListeners, once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { TargetPolicy, targetSettings } from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, expect, test } from 'vitest'
import { HttpPost, postDefaults } from './post.ts'

const never = new AbortController().signal
const open = new TargetPolicy({ allowedHosts: [], deniedNetworks: [], allowedNetworks: [] })
const clock = new FakeClock()
const servers: Server[] = []

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

async function serve(listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener)
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server does not listen')
  return { server, url: `http://127.0.0.1:${address.port}/hook?x=1` }
}

function send(url: string, { policy = open, signal = never } = {}) {
  const { post } = new HttpPost({ policy, clock })
  return post({ url, headers: { 'x-test': 'yes' }, body: '{"text":"ü"}', timeoutMs: 5_000 }, signal)
}

test('a request has method, path, headers and body, and any 2xx is a success', async () => {
  let seen: unknown
  const { url } = await serve(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    seen = [request.method, request.url, request.headers['x-test'], Buffer.concat(chunks).toString()]
    response.writeHead(204).end()
  })
  expect(await send(url)).toEqual({})
  expect(seen).toEqual(['POST', '/hook?x=1', 'yes', '{"text":"ü"}'])
})

test('a redirect is a failure, and is not followed', async () => {
  let requests = 0
  const { url } = await serve((_, response) => {
    requests++
    response.writeHead(307, { location: url }).end()
  })
  expect(await send(url)).toEqual({ failure: 'the receiver responded with 307' })
  expect(requests).toBe(1)
})

test('the content of a response is never part of the result', async () => {
  const { url } = await serve((_, response) => response.writeHead(500).end('a secret of another service'))
  expect(await send(url)).toEqual({ failure: 'the receiver responded with 500' })
})

test('a request leaves no listener in the signal, which lives on', async () => {
  const { url } = await serve((_, response) => response.end())
  const { signal } = new AbortController()
  expect(await send(url, { signal })).toEqual({})
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('an endless response is cut, and its status counts', async () => {
  let written = 0
  const { url } = await serve((_, response) => {
    response.writeHead(200)
    const more = () => {
      if (response.destroyed) return
      written += 16 * 1024
      response.write(Buffer.alloc(16 * 1024), more)
    }
    more()
  })
  expect(await send(url)).toEqual({})
  expect(written).toBeGreaterThanOrEqual(postDefaults.responseBytes)
})

test('without a response in time the attempt fails', async () => {
  const { server, url } = await serve(() => {})
  const result = send(url)
  await once(server, 'request')
  await clock.advance(5_000)
  expect(await result).toEqual({ failure: 'no response within 5 s' })
})

test('a response whose body does not end counts, and its connection is closed after the time-out', async () => {
  const { server, url } = await serve((_, response) => response.writeHead(200).write('x'))
  const other = await serve((_, response) => response.end())
  const result = send(url)
  const [request] = await once(server, 'request')
  const closed = once(request.socket, 'close')
  // By the time of a later response, the earlier one has arrived.
  await send(other.url)
  await clock.advance(5_000)
  expect(await result).toEqual({})
  await closed
})

test('failures are named', async () => {
  const { server, url } = await serve(() => {})
  await new Promise(resolve => server.close(resolve))
  expect(await send(url)).toEqual({ failure: 'connection refused' })
  const cut = await serve(request => request.socket.destroy())
  expect((await send(cut.url)).failure).toMatch(/socket hang up|reset/)
})

test('a denied target is not requested', async () => {
  let requests = 0
  const { url } = await serve((_, response) => {
    requests++
    response.end()
  })
  const { default: deniedNetworks } = targetSettings.deniedNetworks
  const policy = new TargetPolicy({ allowedHosts: [], deniedNetworks, allowedNetworks: [] })
  expect((await send(url, { policy })).failure).toMatch(/^denied: 127\.0\.0\.1 is in a network/)
  expect(requests).toBe(0)
})

test('an aborted request rejects with the reason', async () => {
  const { server, url } = await serve(() => {})
  const aborting = new AbortController()
  const result = send(url, { signal: aborting.signal })
  await once(server, 'request')
  aborting.abort(new Error('enough'))
  await expect(result).rejects.toThrow('enough')
})
