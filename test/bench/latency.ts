import { setTimeout as sleep } from 'node:timers/promises'
import { Etcd3 } from 'etcd3'
import { openEtcdStorage } from '../../apiserver/dist/storage/etcd/index.js'
import type { Storage } from '../../apiserver/dist/storage/index.js'
import { startEtcd } from '../support/etcd.ts'
import { collection } from './items.ts'
import { percentile } from './percentile.ts'
import { startSetpoint } from './program.ts'
import { openRawWebSocket } from './raw-web-socket.ts'
import type { Row } from './table.ts'
import { storedItem } from './watch-rooms.ts'

const watchers = 100
const seconds = 2
const sample = 3
const etcdPrefix = '/setpoint'
const itemKeys = 'objects/bench.example.com/items/'

/** The watchers of one side. They pass the version of each received change to `received`. */
type OpenWatchers = (received: (revision: number) => void) => Promise<() => Promise<void>>

/** Milliseconds to each receipt, ascending. */
type Delays = Float64Array

/**
 * Measures the time from a change to its receipt by 100 watchers. The writer writes Setpoint's stored form straight to
 * etcd and shares a process with all clients, so there is one clock and both sides pay the same for it.
 *
 * The time from etcd's acknowledgement is compared with 100 watches of etcd3, each on a client and connection of its
 * own as the WebSockets are. At 500 changes per second they receive 50,000 messages, more than gRPC in JavaScript
 * handles in one process, so the peer falls behind. At 100 it does not.
 *
 * One etcd3 watch receives a change at the same time as the writer receives the acknowledgement, so it gives no
 * baseline for that time. It is compared from the sending of the write instead, with both sides under the same writes.
 */
export async function latency(): Promise<Row[]> {
  // Without fsync, because the disk's latency belongs to neither side.
  const etcd = await startEtcd({ unsafeNoFsync: true })
  const bare = (count: number) => straightFromEtcd(etcd.endpoint, count)
  try {
    await using setpoint = await startSetpoint(['--etcd-endpoints', etcd.endpoint])
    const storage = await openEtcdStorage({
      endpoints: [etcd.endpoint],
      prefix: etcdPrefix,
      deadlineMs: 30_000,
    })
    const served = overWebSocket(setpoint.url)
    const rows: Row[] = []
    const from = `to the receipt of 1 KiB by ${watchers} watchers`
    for (const perSecond of [500, 100]) {
      const rounds = await compare(async () => {
        const [ours] = await measure(storage, perSecond, 'acknowledged', [[served, watchers]])
        const [peer] = await measure(storage, perSecond, 'acknowledged', [[bare(watchers), watchers]])
        return [ours, peer]
      })
      const name = `from the acknowledgement of etcd ${from}, ${perSecond} changes a second, compared with ${watchers} watches of etcd3`
      rows.push(...rowsOf(name, rounds))
    }
    const rounds = await compare(async () => {
      const [ours, peer] = await measure(storage, 500, 'sent', [
        [served, watchers],
        [bare(1), 1],
      ])
      return [ours, peer]
    })
    rows.push(
      ...rowsOf(
        `from the sending of the write ${from}, 500 changes a second, compared with one watch of etcd3`,
        rounds,
      ),
    )
    await storage.close()
    return rows
  } finally {
    await etcd.stop()
  }
}

async function compare(
  round: () => Promise<[ours: Delays | undefined, peer: Delays | undefined]>,
): Promise<[ours: Delays, peer: Delays][]> {
  const rounds: [Delays, Delays][] = []
  for (let n = -1; n < sample; n++) {
    const [ours = new Float64Array(), peer = new Float64Array()] = await round()
    if (n >= 0) rounds.push([ours, peer])
  }
  return rounds
}

function rowsOf(name: string, rounds: readonly [Delays, Delays][]): Row[] {
  return [0.5, 0.99].map(share => ({
    name: `${name}: p${share * 100}`,
    unit: 'ms',
    ours: rounds.map(([ours]) => percentile(ours, share)),
    peer: rounds.map(([, peer]) => percentile(peer, share)),
    aim: { atMost: 2 },
  }))
}

/** Runs the watchers of several sides under the same changes at a given rate. @returns the delays of each side */
async function measure(
  storage: Storage,
  perSecond: number,
  since: 'sent' | 'acknowledged',
  sides: readonly [OpenWatchers, watchers: number][],
): Promise<Delays[]> {
  const count = perSecond * seconds
  const begins = new Map<number, number>()
  const receipts = await Promise.all(sides.map(([open, each]) => Receipts.open(open, each * count)))
  const begin = performance.now()
  const writes: Promise<void>[] = []
  for (let n = 0; n < count; n++) {
    const wait = begin + (n * 1000) / perSecond - performance.now()
    if (wait > 0) await sleep(wait)
    const sent = performance.now()
    const written = (revision: number) => {
      begins.set(revision, since === 'sent' ? sent : performance.now())
    }
    writes.push(write(storage, n).then(written))
  }
  await Promise.all(writes)
  return Promise.all(receipts.map(side => side.delays(begins)))
}

/** Records the arrival of a known number of events. */
class Receipts {
  readonly #revisions: Float64Array
  readonly #times: Float64Array
  #count = 0
  #close = async () => {}

  private constructor(expected: number) {
    this.#revisions = new Float64Array(expected)
    this.#times = new Float64Array(expected)
  }

  static async open(open: OpenWatchers, expected: number): Promise<Receipts> {
    const receipts = new Receipts(expected)
    receipts.#close = await open(revision => {
      receipts.#revisions[receipts.#count] = revision
      receipts.#times[receipts.#count++] = performance.now()
    })
    return receipts
  }

  /** Waits for the missing events, then closes. */
  async delays(begins: ReadonlyMap<number, number>): Promise<Delays> {
    const deadline = performance.now() + 60_000
    while (this.#count < this.#times.length) {
      if (performance.now() > deadline) throw new Error(`${this.#count} of ${this.#times.length} events came`)
      await sleep(10)
    }
    await this.#close()
    const begin = (at: number) => begins.get(this.#revisions[at] ?? 0) ?? Number.NaN
    return this.#times.map((time, at) => time - begin(at)).sort()
  }
}

async function write(storage: Storage, n: number): Promise<number> {
  const name = `i${String(n % 1000).padStart(7, '0')}`
  const value = storedItem(name, { text: 'x'.repeat(680), n, tags: [`t${n % 1000}`] })
  const { revision } = await storage.transact({
    compares: [],
    onSuccess: [{ type: 'put', key: itemKeys + name, value }],
  })
  return revision
}

function overWebSocket(url: URL): OpenWatchers {
  return async received => {
    const list = await fetch(new URL(`${collection}?size=1`, url))
    const after = versionIn(Buffer.from(await list.arrayBuffer()), 0)
    const path = `${collection}?version=${after}&allowWatchBookmarks=false`
    const onText = (data: Buffer, start: number) => received(versionIn(data, start))
    const sockets = await Promise.all(
      Array.from({ length: watchers }, () => openRawWebSocket(url, path, onText, () => {})),
    )
    return async () => {
      for (const socket of sockets) socket.destroy()
    }
  }
}

/** Opens clients with one watch each, on a connection of their own as WebSockets have. */
function straightFromEtcd(endpoint: string, count: number): OpenWatchers {
  return async received => {
    const clients = Array.from({ length: count }, () => new Etcd3({ hosts: endpoint }))
    const watches = await Promise.all(
      clients.map(async client => {
        const watch = await client.watch().prefix(`${etcdPrefix}/${itemKeys}`).create()
        return watch.on('put', ({ mod_revision }) => received(Number(mod_revision)))
      }),
    )
    return async () => {
      await Promise.all(watches.map(watch => watch.cancel()))
      for (const client of clients) client.close()
    }
  }
}

const field = Buffer.from('"version":"')

/** Returns the first version in JSON written by the server: in an event the object's, in a list the list's. */
function versionIn(text: Buffer, start: number): number {
  const at = text.indexOf(field, start) + field.length
  return Number(text.toString('latin1', at, text.indexOf('"', at)))
}
