import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { Context } from 'koa'
import { expect, it } from 'vitest'
import { Application } from './application.ts'

/** Returns the response to a request that this middleware serves, and the errors that the application reports. */
async function respond(middleware: (ctx: Context) => unknown) {
  const errors: unknown[] = []
  const application = new Application()
  application.use(async ctx => {
    await middleware(ctx)
  })
  application.on('error', error => errors.push(error))
  const server = createServer(application.callback())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  try {
    const { port } = server.address() as AddressInfo
    const response = await fetch(`http://127.0.0.1:${port}/`)
    const { status, statusText, headers } = response
    return { status, statusText, type: headers.get('content-type'), text: await response.text(), errors }
  } finally {
    server.close()
  }
}

it('adds no listeners to a response that the middleware send', async () => {
  let listeners = Number.NaN
  let ofNode = Number.NaN
  const sent = await respond(({ res }) => {
    listeners = res.listenerCount('finish') + (res.socket?.listenerCount('close') ?? 0)
    res.end()
  })
  const plain = createServer((_, res) => {
    ofNode = res.listenerCount('finish') + (res.socket?.listenerCount('close') ?? 0)
    res.end()
  })
  plain.listen(0, '127.0.0.1')
  await once(plain, 'listening')
  await fetch(`http://127.0.0.1:${(plain.address() as AddressInfo).port}/`)
  plain.close()
  expect(listeners).toBe(ofNode)
  expect(sent).toMatchObject({ status: 404, errors: [] })
})

it('sends a body with its status, message and type', async () => {
  const text = await respond(ctx => {
    ctx.status = 418
    ctx.message = 'Short and Stout'
    ctx.body = 'tea'
  })
  expect(text).toMatchObject({ status: 418, statusText: 'Short and Stout', text: 'tea' })
  expect(text.type).toMatch(/^text\/plain/)
  const json = await respond(ctx => {
    ctx.body = { tea: true }
  })
  expect(json).toMatchObject({ status: 200, statusText: 'OK', text: '{"tea":true}' })
  const stream = await respond(ctx => {
    ctx.body = Readable.from(['a', 'b'])
  })
  expect(stream).toMatchObject({ status: 200, text: 'ab' })
  const nothing = await respond(ctx => {
    ctx.status = 204
  })
  expect(nothing).toMatchObject({ status: 204, text: '' })
})

it('responds with 404 if no middleware does', async () => {
  expect(await respond(() => {})).toMatchObject({ status: 404, text: 'Not Found', errors: [] })
})

it('responds with 500 to an error, and reports it', async () => {
  const error = new Error('no tea')
  const failed = await respond(ctx => {
    ctx.body = 'tea'
    throw error
  })
  expect(failed).toMatchObject({ status: 500, text: 'Internal Server Error', errors: [error] })
})
