import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Ports for servers that come back on the one they had. What the system hands out (for port 0, and for the near end of
 * each connection) may be somebody else's by then, so these lie below that range; every worker of Vitest has a part of
 * its own, and gives none out twice before it has been through it.
 */
const range = { from: 10_000, to: 32_000 }
const parts = 16

const size = Math.floor((range.to - range.from) / parts)
const from = range.from + (Number(process.env.VITEST_POOL_ID ?? 0) % parts) * size
// Not always the same first one: there may be other runs on this machine.
let next = Math.floor(Math.random() * size)

/** Ports of the loopback on which nobody listens. @throws Error when there are not as many */
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
