import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { expect, it } from 'vitest'
import { abortedByClose } from './aborted-by-close.ts'

interface Exchange {
  readonly message: IncomingMessage
  readonly response: ServerResponse
  readonly signal: AbortSignal
}

/** Sends requests over one connection, and waits until the server has received all of them. */
async function exchange(
  requests: readonly string[],
  test: (exchanges: readonly Exchange[], leave: () => void) => Promise<void>,
): Promise<void> {
  const exchanges: Exchange[] = []
  const server = createServer((message, response) => {
    exchanges.push({ message, response, signal: abortedByClose(message, response) })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  try {
    socket.resume().write(requests.join(''))
    await expect.poll(() => exchanges.length).toBe(requests.length)
    await test(exchanges, () => socket.destroy())
  } finally {
    socket.destroy()
    server.close()
  }
}

const get = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n'
const deletion = 'DELETE / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}'

it('aborts for every request of a connection that closes, pipelined ones included', async () => {
  await exchange([get, get, get], async (exchanges, leave) => {
    expect(exchanges.map(({ signal }) => signal.aborted)).toEqual([false, false, false])
    leave()
    await expect.poll(() => exchanges.map(({ signal }) => signal.aborted)).toEqual([true, true, true])
    expect(exchanges[0]?.signal.reason).toMatchObject({ code: 504 })
  })
})

it('aborts neither after the response nor while the body is read', async () => {
  await exchange([deletion, get], async (exchanges, leave) => {
    for (const { message, response, signal } of exchanges) {
      for await (const _ of message);
      expect(signal.aborted).toBe(false)
      response.end('x'.repeat(100_000))
      await once(response, 'close')
    }
    leave()
    await expect.poll(() => exchanges[0]?.message.socket.destroyed).toBe(true)
    expect(exchanges.map(({ signal }) => signal.aborted)).toEqual([false, false])
  })
})

it('is aborted from the start if the connection has closed', async () => {
  await exchange([get], async ([exchange], leave) => {
    if (exchange === undefined) throw new Error('no request has arrived')
    leave()
    const { message, response } = exchange
    await expect.poll(() => message.socket.destroyed).toBe(true)
    expect(abortedByClose(message, response).aborted).toBe(true)
  })
})
