import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Turns } from '../scheduling/index.ts'
import { HandshakeResponse } from './handshake-response.ts'
import { socketDefaults, type WatchConnection } from './watch-connection.ts'
import { WatchSockets } from './watch-sockets.ts'

const text = 0x01
const final = 0x80

/** A WebSocket between this test and the server, as both ends of the TCP connection. */
interface Opened {
  readonly client: Socket
  readonly accepted: Socket
  readonly connection: WatchConnection
  /** Sends bytes, and waits until the server has read them and `ws` has emitted what they complete. */
  deliver(bytes: Buffer): Promise<void>
}

const ends: (() => void)[] = []
afterEach(() => {
  for (const end of ends.splice(0)) end()
  vi.restoreAllMocks()
})

async function open(): Promise<Opened> {
  const sockets = new WatchSockets()
  await sockets.load()
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  ends.push(() => {
    client.destroy()
    sockets.close()
    server.close()
  })
  client.setNoDelay().on('error', () => {})
  client.write(
    [
      ...['GET /apis HTTP/1.1', 'Host: localhost', 'Connection: Upgrade', 'Upgrade: websocket'],
      ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='],
      ...['Sec-WebSocket-Protocol: v1.watch.setpoint.dev', '', ''],
    ].join('\r\n'),
  )
  const [message, accepted, head] = await once(server, 'upgrade')
  const connection = sockets.accept('multiplexed', new HandshakeResponse(message, head))
  if (connection === undefined) throw new Error('the handshake was rejected')
  await once(client, 'data')
  const deliver = async (bytes: Buffer) => {
    const expected = accepted.bytesRead + bytes.length
    client.write(bytes)
    while (accepted.bytesRead < expected) await once(accepted, 'data')
    await turns(3)
  }
  return { client, accepted, connection, deliver }
}

async function turns(count: number): Promise<void> {
  for (let n = 0; n < count; n++) await new Promise(setImmediate)
}

/** The begin of a frame that announces a payload of so many bytes, masked with zeros. */
function headerOf(first: number, length: number): Buffer {
  if (length < 126) return Buffer.from([first, 0x80 | length, 0, 0, 0, 0])
  return Buffer.from([first, 0xfe, length >> 8, length & 0xff, 0, 0, 0, 0])
}

function frameOf(first: number, payload: string): Buffer {
  return Buffer.concat([headerOf(first, payload.length), Buffer.from(payload)])
}

/** Records the messages of a connection. */
function messagesOf({ connection }: Opened): (string | undefined)[] {
  const messages: (string | undefined)[] = []
  connection.onMessage(new Turns(), 'ann', message => void messages.push(message))
  return messages
}

describe('a frame', () => {
  it('that arrives in too many parts closes the socket', async () => {
    const socket = await open()
    const messages = messagesOf(socket)
    const closed = once(socket.client, 'data')
    socket.client.write(headerOf(text | final, socketDefaults.maxChunks + 2))
    for (let n = 0; n < socketDefaults.maxChunks + 2; n++) {
      const read = once(socket.accepted, 'data')
      socket.client.write('x')
      await read
    }
    await turns(3)
    expect(messages).toEqual([])
    // 1008: policy violation.
    expect((await closed)[0].subarray(0, 4)).toEqual(Buffer.from([0x88, 0x02, 0x03, 0xf0]))
  })

  it('that arrives in as many parts as allowed is read', async () => {
    const socket = await open()
    const messages = messagesOf(socket)
    const length = socketDefaults.maxChunks - 1
    await socket.deliver(headerOf(text | final, length))
    for (let n = 0; n < length; n++) {
      const read = once(socket.accepted, 'data')
      socket.client.write('x')
      await read
    }
    await turns(3)
    expect(messages).toEqual(['x'.repeat(length)])
  })
})

describe('messages that were read before the end of their socket', () => {
  const count = 300
  const messages = Buffer.concat(Array(count).fill(frameOf(text | final, '{}')))

  it('are dropped, although ws emits them, and take no time of others', async () => {
    const socket = await open()
    const wait = vi.spyOn(Turns.prototype, 'wait')
    const received = messagesOf(socket)
    const closed = new Promise<void>(resolve => socket.connection.onClose(resolve))
    socket.client.end(messages)
    await once(socket.accepted, 'end')
    const before = wait.mock.calls.length
    await closed
    expect(wait).toHaveBeenCalledTimes(before)
    expect(received.length).toBeLessThanOrEqual(before)
    expect(before).toBeLessThan(count)
  })

  it('are dropped when their turn comes', async () => {
    const socket = await open()
    const waiting: (() => void)[] = []
    vi.spyOn(Turns.prototype, 'wait').mockImplementation((_caller, handle) => {
      waiting.push(handle)
    })
    const received = messagesOf(socket)
    await socket.deliver(frameOf(text | final, '{}'))
    expect(waiting).toHaveLength(1)
    socket.connection.terminate()
    for (const handle of waiting) handle()
    expect(received).toEqual([])
  })
})
