import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseSelector } from '../../apiserver/dist/query/index.js'
import { type WatchSink, webSocketFrames } from '../../apiserver/dist/watch/index.js'
import { collection, createItems, itemJson, lanes, rounds } from './items.ts'
import { type Program, processorMicros, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import { ScriptProcess } from './script-process.ts'
import type { Row } from './table.ts'
import { openWatchRooms, storedItem, type WatchRooms } from './watch-rooms.ts'

const objects = 100_000
const many = 1000
const few = 10
/** Number of rounds over the program. */
const sample = 2
/** Matching watches dominate the cost of an event, so both sides have the same number of them. */
const aim = { atMost: 1.25 }

/** The cost of a change with 1,000 watches of different selectors, against 10. One of either matches. */
export async function selectors(): Promise<Row[]> {
  return [...(await inProcess()), await throughProgram()]
}

async function inProcess(): Promise<Row[]> {
  await using rooms = await openWatchRooms()
  for (let n = 0; n < objects; n++) {
    putItem(rooms, n)
    // Gives the store's own work and the garbage collector a turn.
    if (n % 1000 === 0) await nextTurn()
  }
  const cases: [string, (n: number) => string][] = [
    ['by a label each', n => `labelSelector=bench.example.com/owner%3Do${n}`],
    ['by a field each', n => `fieldSelector=spec.tags%3Dt${n}`],
    [
      'by two terms each',
      n => `labelSelector=bench.example.com/owner%3Do${n}&fieldSelector=spec.half%3D${n % 2}`,
    ],
  ]
  const rows: Row[] = []
  for (const [name, queryOf] of cases) {
    const ours: number[] = []
    const peer: number[] = []
    for (let round = -1; round < rounds; round++) {
      const ofMany = await microsOfChange(rooms, many, queryOf)
      const ofFew = await microsOfChange(rooms, few, queryOf)
      if (round < 0) continue
      ours.push(ofMany)
      peer.push(ofFew)
    }
    rows.push({
      name: `a change of one of 100,000 objects, ${many} watches that select ${name}, one matches, compared with ${few} watches`,
      unit: 'µs',
      ours,
      peer,
      aim,
    })
  }
  return rows
}

/** A change that matches the watch with the same remainder. */
function putItem({ put }: WatchRooms, n: number): void {
  const name = `i${String(n).padStart(7, '0')}`
  const labels = { 'bench.example.com/owner': `o${n % many}` }
  put(name, storedItem(name, { text: '', n, tags: [`t${n % many}`] }, labels))
}

/** From the change in the log to the frames in the sinks: processor time of this process, which does nothing else. */
async function microsOfChange(
  rooms: WatchRooms,
  watchers: number,
  queryOf: (n: number) => string,
): Promise<number> {
  const { cache, hub } = rooms
  let written = 0
  const sink: WatchSink = {
    codec: webSocketFrames,
    backlog: 0,
    write: () => {
      written++
    },
    end: () => {},
  }
  const watches = []
  for (let n = 0; n < watchers; n++) {
    const request = {
      key: undefined,
      selector: parseSelector(new URLSearchParams(queryOf(n)), cache.served.indexes),
      after: undefined,
      initialEvents: true,
      bookmarks: false,
      lifetimeMs: 3_600_000,
    }
    const present = await hub.admit(cache, request)
    watches.push(hub.open(cache, request, sink, present))
  }
  const changes = 3000
  // The initial events do not count.
  written = 0
  const begin = process.cpuUsage()
  for (let i = 0; i < changes; i++) {
    // Only changes that the few watch too.
    putItem(rooms, (i % few) + many * (i % (objects / many)))
    await nextTurn()
  }
  const { user, system } = process.cpuUsage(begin)
  for (const watch of watches) watch.close()
  if (written !== changes) throw new Error(`${written} events of ${changes} changes`)
  return (user + system) / changes
}

/** The whole program: the server's processor time for a change over REST. The clients run in another process. */
async function throughProgram(): Promise<Row> {
  await using setpoint = await startSetpoint([])
  await createItems(setpoint.url, objects / 10, 100)
  const ours: number[] = []
  const peer: number[] = []
  for (let round = -1; round < sample; round++) {
    const ofMany = await microsOfWrite(setpoint, many, round)
    const ofFew = await microsOfWrite(setpoint, few, round)
    if (round < 0) continue
    ours.push(ofMany)
    peer.push(ofFew)
  }
  const name = `the same over REST and WebSockets, ${objects / 10} objects, by a field each: processor time of the server for a write`
  return { name, unit: 'µs', ours, peer, aim }
}

async function microsOfWrite(setpoint: Program, watchers: number, round: number): Promise<number> {
  const { url } = setpoint
  await using clients = new ScriptProcess('fleet.js')
  const list = await fetch(new URL(`${collection}?size=1`, url))
  const version = /"version":"(\d+)"/.exec(await list.text())?.[1]
  const query = `?version=${version}&allowWatchBookmarks=false&fieldSelector=spec.tags%3Dt{n}`
  await clients.ask('connect', watchers, url.href, collection + query)
  const changes = 2000
  const requests = Array.from({ length: changes }, (_, i) => {
    // The tag that the watches select by does not change.
    const n = (i % few) + many * (Math.floor(i / few) % few)
    const name = `i${String(n).padStart(7, '0')}`
    const body = itemJson(name, n, `${watchers} ${round} ${i}`)
    return rawRequest('PUT', url, `${collection}/${name}`, body)
  })
  const received = clients.ask('receive', changes)
  const begin = await processorMicros(setpoint.pid)
  await load(url, lanes, changes, i => requests[i] ?? '', 200)
  await received
  return ((await processorMicros(setpoint.pid)) - begin) / changes
}
