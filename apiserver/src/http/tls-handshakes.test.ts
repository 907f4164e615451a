import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { TlsHandshakes } from './tls-handshakes.ts'

const clients = 20

it('begin one in each turn of the event loop, with the bytes that have arrived', async () => {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
  const begunIn: number[] = []
  const received: string[] = []
  const accepted: Socket[] = []
  const server = createServer(socket => {
    begunIn.push(turn)
    received.push(String(socket.read()))
  })
  const handshakes = new TlsHandshakes(server)
  server.on('connection', socket => {
    accepted.push(socket)
    handshakes.begin(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const sockets = Array.from({ length: clients }, () => connect(port, '127.0.0.1'))
  try {
    await expect.poll(() => accepted.length).toBe(clients)
    expect(begunIn).toEqual([])
    count()
    for (const socket of sockets) socket.write('hello')
    await expect.poll(() => begunIn.length).toBe(clients)
    expect(new Set(begunIn).size).toBe(clients)
    expect(new Set(received)).toEqual(new Set(['hello']))
  } finally {
    isOver = true
    for (const socket of [...sockets, ...accepted]) socket.destroy()
    server.close()
  }
})

// Other systems have no second loopback address by default.
it.skipIf(process.platform !== 'linux')('begin for each client address in turn', async () => {
  const begun: (string | undefined)[] = []
  const accepted: Socket[] = []
  const server = createServer(socket => begun.push(socket.remoteAddress))
  const handshakes = new TlsHandshakes(server)
  server.on('connection', socket => {
    accepted.push(socket)
    handshakes.begin(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const from = (localAddress: string) => connect({ port, host: '127.0.0.1', localAddress })
  const sockets = Array.from({ length: clients }, () => from('127.0.0.1'))
  try {
    await expect.poll(() => accepted.length).toBe(clients)
    sockets.push(from('127.0.0.2'))
    await expect.poll(() => accepted.length).toBe(clients + 1)
    for (const socket of sockets) socket.write('hello')
    await expect.poll(() => begun.length).toBe(clients + 1)
    expect(begun.indexOf('127.0.0.2')).toBeLessThan(3)
  } finally {
    for (const socket of [...sockets, ...accepted]) socket.destroy()
    server.close()
  }
})

it('do not begin for a client that leaves before its first bytes', async () => {
  const begun: Socket[] = []
  const server = createServer(socket => begun.push(socket))
  const handshakes = new TlsHandshakes(server)
  const closed: Socket[] = []
  server.on('connection', socket => {
    handshakes.begin(socket)
    socket.once('close', () => closed.push(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  try {
    const ending = connect(port, '127.0.0.1')
    ending.end()
    await expect.poll(() => closed.length).toBe(1)
    const leaving = connect(port, '127.0.0.1')
    await once(leaving, 'connect')
    leaving.resetAndDestroy()
    await expect.poll(() => closed.length).toBe(2)
    expect(begun).toEqual([])
  } finally {
    server.close()
  }
})
