import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

/** A TCP proxy on a loopback port that delays everything the target sends. */
export async function startSlowProxy(
  target: { readonly port: number },
  delayMs: number,
): Promise<{ readonly endpoint: string; close(): Promise<void> }> {
  const sockets = new Set<Socket>()
  const server = createServer(client => {
    const upstream = connect(target.port, '127.0.0.1')
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
    client.on('data', (chunk: Buffer) => upstream.write(chunk))
    // Timers of the same duration fire in the order of their creation.
    upstream.on('data', (chunk: Buffer) => setTimeout(() => client.write(chunk), delayMs))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    endpoint: `http://127.0.0.1:${address.port}`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
