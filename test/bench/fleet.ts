import type { Socket } from 'node:net'
import { openRawWebSocket } from './raw-web-socket.ts'
import { obey } from './script-process.ts'

/**
 * Many WebSocket clients in a process of their own. They count complete events and their bytes.
 *
 *     connect COUNT URL PATH [TOKEN]   opens sockets, a few at a time; replaces `{n}` in the path with each socket's number
 *     receive EVENTS                   waits for EVENTS on all sockets together and prints their bytes
 *     close                            closes all sockets
 */

const handshakes = 64

let sockets: Socket[] = []
let events = 0
let bytes = 0
let goal = 0
let reached: (() => void) | undefined

function count(_data: Buffer, start: number, end: number): void {
  events++
  bytes += end - start
  if (events >= goal) reached?.()
}

function closed(reason: string): never {
  throw new Error(`the server has closed a WebSocket: ${reason}`)
}

await obey({
  async connect([wanted = '', url = '', path = '', token = '']) {
    let next = 0
    const lane = async () => {
      for (let n = next++; n < Number(wanted); n = next++)
        sockets.push(
          await openRawWebSocket(new URL(url), path.replaceAll('{n}', String(n)), count, closed, token),
        )
    }
    await Promise.all(Array.from({ length: handshakes }, lane))
    return sockets.length
  },
  async receive([more = '']) {
    goal += Number(more)
    const before = bytes
    if (events < goal) {
      await new Promise<void>(resolve => {
        reached = resolve
      })
      reached = undefined
    }
    return bytes - before
  },
  close() {
    for (const socket of sockets) socket.destroy()
    sockets = []
    return 'closed'
  },
})
