import type { Socket } from 'node:net'
import { openRawWebSocket } from './raw-web-socket.ts'
import { obey } from './script-process.ts'

/**
 * Many WebSocket clients in a process of their own, which count whole events and their bytes.
 *
 *     connect COUNT URL PATH   opens sockets, some at a time; `{n}` in the path is each one's number
 *     receive EVENTS           answers with the bytes of so many events, all sockets together, once they have come
 *     close                    drops all
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
  async connect([wanted = '', url = '', path = '']) {
    let next = 0
    const lane = async () => {
      for (let n = next++; n < Number(wanted); n = next++)
        sockets.push(await openRawWebSocket(new URL(url), path.replaceAll('{n}', String(n)), count, closed))
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
