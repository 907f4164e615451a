import { selectsEverything } from '@setpoint/controller-runtime/api'
import { HandshakeResponse } from '../../apiserver/dist/http/handshake-response.js'
import { SocketSink } from '../../apiserver/dist/http/watch-socket.js'
import { WatchSockets } from '../../apiserver/dist/http/watch-sockets.js'
import { serveBursts } from './burst-server.ts'
import { openWatchRooms, storedItem } from './watch-rooms.ts'

/**
 * Setpoint's side of fan-out without a store. Each burst is applied to the cache, decoded and indexed as if it came
 * from the log, and goes through hub, audience and frames to the sockets.
 */
const names = 1000
const rooms = await openWatchRooms()
const sockets = new WatchSockets()
await sockets.load()
const text = 'x'.repeat(640)
const items = Array.from({ length: names }, (_, n) => {
  const name = `i${String(n).padStart(7, '0')}`
  const labels = { 'bench.example.com/shard': `s${n % 10}` }
  return { name, value: storedItem(name, { text, n, tags: [`t${n}`] }, labels) }
})
let next = 0
const watchRequest = {
  key: undefined,
  selector: selectsEverything,
  after: undefined,
  initialEvents: true,
  bookmarks: false,
  lifetimeMs: 3_600_000,
}

await serveBursts(
  (request, _socket, head) => {
    void rooms.hub.admit(rooms.cache, watchRequest).then(present => {
      const connection = sockets.accept('single', new HandshakeResponse(request, head))
      if (connection === undefined) return
      const watch = rooms.hub.open(rooms.cache, watchRequest, new SocketSink(connection), present)
      connection.onDrained(() => watch.drained())
      connection.onClose(() => watch.close())
    })
  },
  events => {
    for (let n = 0; n < events; n++) {
      const item = items[next++ % names]
      if (item !== undefined) rooms.put(item.name, item.value)
    }
  },
)
