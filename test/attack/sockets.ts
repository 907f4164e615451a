import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Target } from './target.ts'

/** Opens connections and waits until each is open or refused. A target with TLS gets handshakes. */
export async function openSockets(target: Target, count: number): Promise<Socket[]> {
  return Promise.all(Array.from({ length: count }, () => openSocket(target)))
}

/** Opens TCP connections, also to a target with TLS. */
export async function openPlainSockets(target: Target, count: number): Promise<Socket[]> {
  return Promise.all(
    Array.from({ length: count }, () => opened(connect(target.port, '127.0.0.1'), 'connect')),
  )
}

function openSocket(target: Target): Promise<Socket> {
  const { port, setup } = target
  if (setup.scheme === 'http') return opened(connect(port, '127.0.0.1'), 'connect')
  return opened(connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }), 'secureConnect')
}

async function opened(socket: Socket, event: string): Promise<Socket> {
  socket.on('error', () => {})
  socket.resume()
  await Promise.race([once(socket, event), once(socket, 'close')]).catch(() => {})
  return socket
}

/** Resolves when the server has closed all sockets, or after the time. @returns the number still open */
export async function closedByServer(sockets: readonly Socket[], patienceMs: number): Promise<number> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<void>(resolve => {
    timer = setTimeout(resolve, patienceMs)
  })
  const all = Promise.all(sockets.map(socket => (socket.closed ? undefined : once(socket, 'close'))))
  await Promise.race([all, patience]).catch(() => {})
  clearTimeout(timer)
  return sockets.filter(socket => !socket.closed).length
}

/** Resolves when each socket has received something or has closed, or after the time. */
export async function responded(sockets: readonly Socket[], patienceMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<void>(resolve => {
    timer = setTimeout(resolve, patienceMs)
  })
  const first = (socket: Socket) =>
    socket.closed || socket.bytesRead > 0
      ? undefined
      : Promise.race([once(socket, 'data'), once(socket, 'close')]).catch(() => {})
  await Promise.race([Promise.all(sockets.map(first)), patience])
  clearTimeout(timer)
}
