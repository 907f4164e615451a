import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { obey } from './script-process.ts'

/** The next burst waits while a socket has more bytes than this buffered, so that no side cuts a client off. */
const backlogBytes = 1024 * 1024

/**
 * An HTTP server that sends bursts of events to its sockets as fast as they drain. Setpoint's path from the cache to
 * the sockets and the bare one differ only in `burst`.
 *
 *     listen                       prints the address
 *     send BURSTS EVENTS LENGTH    sends BURSTS of EVENTS with payloads of LENGTH bytes, one burst per event-loop turn
 */
export async function serveBursts(
  upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
  burst: (events: number, length: number) => void,
): Promise<never> {
  const sockets = new Set<Duplex>()
  const server = createServer()
  server.on('upgrade', (request, socket, head) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    upgrade(request, socket, head)
  })
  const isBackedUp = () => {
    for (const socket of sockets) if (socket.writableLength > backlogBytes) return true
    return false
  }
  return obey({
    async listen() {
      await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    },
    async send([bursts = '', events = '', length = '']) {
      for (let n = 0; n < Number(bursts); n++) {
        burst(Number(events), Number(length))
        do await nextTurn()
        while (isBackedUp())
      }
      return 'sent'
    },
  })
}
