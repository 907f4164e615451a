import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Ports for servers that restart on the same port. They lie below the ephemeral range, because the system may give such
 * a port to another process during the restart. Each Vitest worker has a range of its own and cycles through it.
 */
const range = { from: 10_000, to: 32_000 }
const parts = 16

const size = Math.floor((range.to - range.from) / parts)
const from = range.from + (Number(process.env.VITEST_POOL_ID ?? 0) % parts) * size
// Starts at random, because other runs may share this machine.
let next = Math.floor(Math.random() * size)

/** Returns loopback ports without a listener. @throws Error if there are not enough */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  for (let tried = 0; ports.length < count; tried++) {
    if (tried === size) throw new Error('no free port')
    const port = from + (next++ % size)
    if (await isFree(port)) ports.push(port)
  }
  return ports
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  if (port === undefined) throw new Error('no free port')
  return port
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  await once(server.close(), 'close')
  return true
}
