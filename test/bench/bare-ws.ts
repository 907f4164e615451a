import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { serveBursts } from './burst-server.ts'

/** The peer of fan-out: ws frames each burst once and writes the same bytes to every socket. */
const webSockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
const sockets = new Set<Duplex>()

await serveBursts(
  (request, socket, head) =>
    webSockets.handleUpgrade(request, socket, head, client => {
      sockets.add(socket)
      client.on('error', () => {})
      client.on('close', () => sockets.delete(socket))
    }),
  (events, length) => {
    const frame = Buffer.alloc(4 + length, 'x')
    // A complete text frame of 126 to 65,535 bytes (RFC 6455, 5.2), as ws writes it.
    frame.set([0x81, 126, length >> 8, length & 0xff])
    const bytes = Buffer.concat(Array.from({ length: events }, () => frame))
    for (const socket of sockets) socket.write(bytes)
  },
)
