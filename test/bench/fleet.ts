import type { Socket } from 'node:net'
import { monotonicMs, percentile } from './percentile.ts'
import { openRawWebSocket } from './raw-web-socket.ts'
import { obey } from './script-process.ts'

/**
 * Many WebSocket clients in a process of their own. They count complete events and their bytes.
 *
 *     connect COUNT URL PATH [TOKEN]   opens sockets, a few at a time; replaces `{n}` in the path with each socket's number
 *     receive EVENTS                   waits for EVENTS on all sockets together and prints their bytes
 *     delays                           prints the median and the 99th percentile of the ms between the `sentAt` in each event since
 *                                      the last call and its receipt
 *     close                            closes all sockets
 */

const handshakes = 64

let sockets: Socket[] = []
let events = 0
let bytes = 0
let goal = 0
let reached: (() => void) | undefined

/** Milliseconds of the events that say when they were sent. */
let delays: number[] = []
const sentAt = Buffer.from('"sentAt":"')

function count(data: Buffer, start: number, end: number): void {
  events++
  bytes += end - start
  const at = data.indexOf(sentAt, start) + sentAt.length
  if (at > start + sentAt.length - 1 && at < end)
    delays.push(monotonicMs() - Number(data.toString('latin1', at, data.indexOf('"', at))))
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
  delays() {
    const ascending = Float64Array.from(delays).sort()
    delays = []
    return `${percentile(ascending, 0.5)} ${percentile(ascending, 0.99)}`
  },
  close() {
    for (const socket of sockets) socket.destroy()
    sockets = []
    return 'closed'
  },
})
