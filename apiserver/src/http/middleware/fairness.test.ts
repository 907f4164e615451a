import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { silentLogger } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import Koa from 'koa'
import { expect, it } from 'vitest'
import { type ClassLimits, RequestQueues, requestClasses } from '../../security/index.ts'
import { readBodyInTurn } from '../request-seat.ts'
import type { Middleware } from '../request-state.ts'
import { errors } from './errors.ts'
import { fairness } from './fairness.ts'
import { sending } from './sending.ts'

/** A server whose requests are routes of a plugin. Their handlers respond when `finish` is called. */
async function serve(limits: Partial<ClassLimits>) {
  const { routes, unauthenticated, ...others } = requestClasses
  const classes = {
    ...others,
    routes: { ...routes, ...limits },
    unauthenticated: { ...unauthenticated, waiting: 0 },
  }
  const queues = new RequestQueues({ classes })
  const handled: string[] = []
  let finish = () => {}
  const finished = new Promise<void>(resolve => {
    finish = resolve
  })
  const identity: Middleware = (ctx, next) => {
    const name = ctx.get('x-user')
    if (name === '') throw new ApiError('Unauthorized', 'a token is required')
    ctx.state.identity = { user: { name, groups: [] }, credential: undefined }
    ctx.state.path = ctx.path
    return next()
  }
  const handler: Middleware = async ctx => {
    handled.push(ctx.path)
    const body = await readBodyInTurn(ctx)
    await finished
    ctx.state.response = { status: 200, headers: {}, body: Buffer.from(`${body.length} bytes`) }
  }
  const koa = new Koa()
  for (const each of [sending(), errors(silentLogger, queues), identity, fairness(queues), handler])
    koa.use(each)
  // Some clients leave on purpose.
  koa.on('error', () => {})
  const server = createServer(koa.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    queues,
    /** Paths in the order in which their handlers were called. */
    handled,
    finish,
    /** Sends bytes on a connection of its own. */
    open(bytes: string) {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => {})
      const received: string[] = []
      socket.setEncoding('utf8').on('data', (text: string) => received.push(text))
      socket.write(bytes)
      return { leave: () => socket.destroy(), received: () => received.join('') }
    },
    async [Symbol.asyncDispose]() {
      finish()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const post = (name: string, user: string, length: number, body: string) =>
  `POST /apis/g.example.com/v1/${name} HTTP/1.1\r\nhost: a\r\nx-user: ${user}\r\ncontent-length: ${length}\r\n\r\n${body}`

it('a request waits before its body is read, and is refused with 429 when too many wait', async () => {
  await using server = await serve({ bytesPerIdentity: 1_000, waitingPerIdentity: 1 })
  const slow = server.open(post('slow', 'ann', 900, '{'))
  await expect.poll(() => server.handled).toEqual(['/apis/g.example.com/v1/slow'])
  const next = server.open(post('next', 'ann', 200, 'x'.repeat(200)))
  await expect.poll(() => server.queues.waiting).toBe(1)

  const refused = server.open(post('refused', 'ann', 200, 'x'.repeat(200)))
  await expect.poll(refused.received).toMatch(/^HTTP\/1\.1 429 [\s\S]*\r\nretry-after: 1\r\n/i)
  expect(refused.received()).toMatch(/"reason":"TooManyRequests"/)
  expect(refused.received()).toContain('too many routes requests: 1 of \\"ann\\" wait')

  server.finish()
  const other = server.open(post('other', 'ben', 900, 'x'.repeat(900)))
  await expect.poll(other.received).toMatch(/^HTTP\/1\.1 200 [\s\S]*900 bytes$/)
  expect(server.handled).toHaveLength(2)
  slow.leave()
  await expect.poll(next.received).toMatch(/^HTTP\/1\.1 200 [\s\S]*200 bytes$/)
})

it('a client that leaves while it waits leaves the queue', async () => {
  await using server = await serve({ bytesPerIdentity: 1_000 })
  server.open(post('slow', 'ann', 900, '{'))
  await expect.poll(() => server.handled).toHaveLength(1)
  const leaving = server.open(post('leaving', 'ann', 200, 'x'.repeat(200)))
  await expect.poll(() => server.queues.waiting).toBe(1)
  leaving.leave()
  await expect.poll(() => server.queues.waiting).toBe(0)
  expect([...server.queues.tallies()].map(({ tally }) => tally)).toContainEqual({
    dispatched: 1,
    full: 0,
    late: 0,
    cancelled: 1,
  })
})

it('a chunked body counts as the largest', async () => {
  await using server = await serve({ bytes: 4_000_000 })
  const chunked = `POST /apis/g.example.com/v1/chunked HTTP/1.1\r\nhost: a\r\nx-user: ann\r\ntransfer-encoding: chunked\r\n\r\n`
  server.open(chunked)
  await expect.poll(() => server.handled).toHaveLength(1)
  const [held] = [...server.queues.loads()].filter(({ bytes }) => bytes > 0)
  expect(held).toEqual({ class: 'routes', waiting: 0, bytes: 3 * 1024 * 1024 })
})

it('large bodies are parsed in turns of their own', async () => {
  await using server = await serve({})
  server.finish()
  const large = server.open(post('large', 'ann', 20_000, 'x'.repeat(20_000)))
  await expect.poll(large.received).toMatch(/20000 bytes$/)
  const classes = [...server.queues.tallies()].map(each => each.class)
  expect(classes.sort()).toEqual(['bodies', 'routes'])
})

it('callers without an identity wait in a class of their own before they are refused', async () => {
  await using server = await serve({})
  const refused = server.open('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
  await expect.poll(refused.received).toMatch(/^HTTP\/1\.1 401 /)
  expect([...server.queues.tallies()]).toEqual([
    expect.objectContaining({ class: 'unauthenticated', kind: 'unauthenticated' }),
  ])
})
