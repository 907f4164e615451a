import { once } from 'node:events'
import { Agent, createServer, IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect, Socket } from 'node:net'
import { ApiError } from '@setpoint/controller-runtime/api'
import { expect, it } from 'vitest'
import { discardRequestBody, readRequestBody, refuseBody } from './request-body.ts'

it('discarding bodies leaves no listeners on their connection', async () => {
  const listeners: number[] = []
  const server = createServer(async (message, response) => {
    const before = message.socket.listenerCount('end')
    await discardRequestBody(message)
    listeners.push(message.socket.listenerCount('end') - before)
    response.end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  try {
    for (let n = 0; n < 3; n++) {
      const { port } = server.address() as AddressInfo
      const sent = request({ port, host: '127.0.0.1', method: 'POST', agent }).end('x'.repeat(100_000))
      const [response] = await once(sent, 'response')
      response.resume()
      await once(response, 'end')
    }
    expect(listeners).toEqual([0, 0, 0])
  } finally {
    agent.destroy()
    server.close()
    await once(server, 'close')
  }
})

it.each([
  ['end', 100],
  ['resetAndDestroy', 100],
  // All of it had arrived.
  ['resetAndDestroy', 1],
] as const)(
  'a body whose client has left before it is read ends at once: %s after 1 of %i bytes',
  async (how, length) => {
    const server = createServer().on('clientError', () => {})
    const read = new Promise<unknown>(resolve => {
      server.on('request', async message => {
        leave()
        message.on('error', () => {})
        await new Promise<void>(left => message.socket.once(how === 'end' ? 'end' : 'close', () => left()))
        resolve(readRequestBody(message).catch((error: unknown) => error))
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    const leave = () => client[how]()
    client.on('error', () => {})
    client.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\nx`)
    try {
      expect(await read).toMatchObject({ reason: 'BadRequest' })
    } finally {
      client.destroy()
      server.closeAllConnections()
      server.close()
    }
  },
)

it('a body that is refused before it is read fails when it is read', async () => {
  const why = new ApiError('BadRequest', 'malformed')
  const message = new IncomingMessage(new Socket())
  expect(refuseBody(message, why)).toBe(false)
  await expect(readRequestBody(message)).rejects.toBe(why)
})
