import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { silentLogger } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import Koa from 'koa'
import { expect, it } from 'vitest'
import { type BodyBounds, fairnessDefaults, RequestQueues } from '../../scheduling/index.ts'
import type { CallerRequest, Identity } from '../../security/index.ts'
import { Paths } from '../paths.ts'
import { readBodyInTurn } from '../request-seat.ts'
import type { Middleware } from '../request-state.ts'
import { checks } from './checks.ts'
import { errors } from './errors.ts'
import { sending } from './sending.ts'
import { target } from './target.ts'

/** A server whose requests are routes of a plugin. Their handlers respond when `finish` is called. */
async function serve(routeBodies: BodyBounds) {
  const queues = new RequestQueues({ routeBodies })
  const handled: string[] = []
  let finish = () => {}
  const finished = new Promise<void>(resolve => {
    finish = resolve
  })
  const identify = ({ headers }: CallerRequest): Identity => {
    const name = headers['x-user']
    if (typeof name !== 'string') throw new ApiError('Unauthorized', 'a token is required')
    return { user: { name, groups: [] }, credential: undefined }
  }
  const access = { identify, authenticate: identify, impersonate: (caller: Identity) => caller }
  const authorizer = { grantOf: () => ({ reason: 'everyone may do everything' }) }
  const paths = new Paths({
    api: { visibleModelOf: () => undefined },
    routes: { mayServeWatch: () => false },
    basePath: '',
    isStarting: () => false,
  })
  const handler: Middleware = async ctx => {
    handled.push(ctx.path)
    const body = await readBodyInTurn(ctx)
    await finished
    ctx.state.response = { status: 200, headers: {}, body: Buffer.from(`${body.length} bytes`) }
  }
  const koa = new Koa()
  const parts = {
    access,
    authorizer,
    paths,
    queues,
    api: { definitions: undefined, catchUp: async () => {} },
  }
  for (const each of [sending(), errors(silentLogger, queues), target(access, paths), checks(parts), handler])
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

it('stalled bodies do not delay others, and one is refused with 429 when memory is short', async () => {
  await using server = await serve({ bytes: 2_000, bytesPerIdentity: 1_000 })
  server.finish()
  const stalled = server.open(post('stalled', 'ann', 900, 'x'.repeat(600)))
  const declared = server.open(post('declared', 'ann', 900_000, '{'))
  await expect.poll(() => server.queues.routeBodies.bytes).toBe(601)

  const fits = server.open(post('fits', 'ann', 300, 'x'.repeat(300)))
  await expect.poll(fits.received).toMatch(/^HTTP\/1\.1 200 [\s\S]*300 bytes$/)
  const other = server.open(post('other', 'ben', 900, 'x'.repeat(900)))
  await expect.poll(other.received).toMatch(/^HTTP\/1\.1 200 [\s\S]*900 bytes$/)
  expect([stalled.received(), declared.received()]).toEqual(['', ''])

  const next = server.open(post('next', 'ann', 900, 'x'.repeat(900)))
  await expect.poll(next.received).toMatch(/^HTTP\/1\.1 200 [\s\S]*900 bytes$/)
  await expect.poll(stalled.received).toMatch(/^HTTP\/1\.1 429 [\s\S]*\r\nretry-after: 1\r\n/i)
  expect(stalled.received()).toMatch(/"reason":"TooManyRequests"/)
  expect(stalled.received()).toContain('too many bytes of request bodies: those of \\"ann\\" hold 1501')
  declared.leave()
  await expect.poll(() => server.queues.routeBodies.bytes).toBe(0)
})

it('a body is released when its request ends', async () => {
  await using server = await serve({ bytes: 2_000, bytesPerIdentity: 2_000 })
  const complete = server.open(post('complete', 'ann', 900, 'x'.repeat(900)))
  const late = server.open(post('late', 'ann', 1_000, 'x'.repeat(900)))
  await expect.poll(() => server.queues.routeBodies.bytes).toBe(1_800)
  server.finish()
  await expect.poll(complete.received).toMatch(/900 bytes$/)
  await expect.poll(() => server.queues.routeBodies.bytes).toBe(900)
  late.leave()
  await expect.poll(() => server.queues.routeBodies.bytes).toBe(0)
})

it('large bodies are parsed in turns of their own', async () => {
  await using server = await serve(fairnessDefaults.routeBodies)
  server.finish()
  const large = server.open(post('large', 'ann', 20_000, 'x'.repeat(20_000)))
  await expect.poll(large.received).toMatch(/20000 bytes$/)
  const classes = [...server.queues.tallies()].map(each => each.class)
  expect(classes.sort()).toEqual(['bodies', 'routes'])
})

it('callers without an identity wait in a class of their own before they are refused', async () => {
  await using server = await serve(fairnessDefaults.routeBodies)
  const refused = server.open('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
  await expect.poll(refused.received).toMatch(/^HTTP\/1\.1 401 /)
  expect([...server.queues.tallies()]).toEqual([
    expect.objectContaining({ class: 'unauthenticated', kind: 'unauthenticated' }),
  ])
})
