import { collection, createItems, itemJson, lanes, rounds } from './items.ts'
import { startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import { ScriptProcess } from './script-process.ts'
import type { Row } from './table.ts'

const sockets = 1000
const aim = { atLeast: 0.5 }

/**
 * Events of 1 KiB to 1,000 WebSockets: deliveries per second, against ws sending the same bytes with the same batching.
 */
export async function fanout(): Promise<Row[]> {
  await using bare = await BurstServer.start('bare-ws.js')
  return [
    await fromCache(bare, 16, 48),
    await fromCache(bare, 64, 12),
    await throughProgram(bare, lanes),
    await throughProgram(bare, 256),
  ]
}

/** A process that sends bursts, and a process with its clients. */
class BurstServer implements AsyncDisposable {
  readonly #server: ScriptProcess
  readonly #clients: ScriptProcess

  private constructor(server: ScriptProcess, clients: ScriptProcess) {
    this.#server = server
    this.#clients = clients
  }

  static async start(script: string): Promise<BurstServer> {
    const server = new ScriptProcess(script)
    const clients = new ScriptProcess('fleet.js')
    await clients.ask('connect', sockets, await server.ask('listen'), '/')
    return new BurstServer(server, clients)
  }

  /** @returns deliveries per second, and the bytes of each */
  async send(
    bursts: number,
    events: number,
    payload: number,
  ): Promise<{ perSecond: number; length: number }> {
    const deliveries = bursts * events * sockets
    const begin = performance.now()
    const received = this.#clients.ask('receive', deliveries)
    await this.#server.ask('send', bursts, events, payload)
    const length = Math.round(Number(await received) / deliveries)
    return { perSecond: deliveries / ((performance.now() - begin) / 1000), length }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#clients[Symbol.asyncDispose]()
    await this.#server[Symbol.asyncDispose]()
  }
}

async function fromCache(bare: BurstServer, events: number, bursts: number): Promise<Row> {
  await using hub = await BurstServer.start('hub-ws.js')
  const ours: number[] = []
  const peer: number[] = []
  for (let round = -1; round < rounds; round++) {
    const { perSecond, length } = await hub.send(bursts, events, 0)
    const beside = await bare.send(bursts, events, length)
    if (round < 0) continue
    ours.push(perSecond)
    peer.push(beside.perSecond)
  }
  const name = `deliveries of 1 KiB events to ${sockets} WebSockets, from the cache in bursts of ${events}, compared with ws that frames each burst once`
  return { name, unit: '1/s', ours, peer, aim }
}

/** The whole path: requests, the embedded store, its log, the cache, and the sockets. */
async function throughProgram(bare: BurstServer, inFlight: number): Promise<Row> {
  await using setpoint = await startSetpoint([])
  await using clients = new ScriptProcess('fleet.js')
  await createItems(setpoint.url, inFlight, 10)
  const list = await fetch(new URL(`${collection}?size=1`, setpoint.url))
  const version = /"version":"(\d+)"/.exec(await list.text())?.[1]
  const query = `?version=${version}&allowWatchBookmarks=false`
  await clients.ask('connect', sockets, setpoint.url.href, collection + query)
  const text = 'x'.repeat(650)
  const count = 1024
  const ours: number[] = []
  const peer: number[] = []
  for (let round = -1; round < rounds; round++) {
    const requests = Array.from({ length: count }, (_, n) => {
      const name = `i${String(n % inFlight).padStart(7, '0')}`
      const body = itemJson(name, (round + 1) * count + n, text)
      return rawRequest('PUT', setpoint.url, `${collection}/${name}`, body)
    })
    const begin = performance.now()
    const received = clients.ask('receive', count * sockets)
    await load(setpoint.url, inFlight, count, n => requests[n] ?? '', 200)
    const length = Math.round(Number(await received) / (count * sockets))
    const perSecond = (count * sockets) / ((performance.now() - begin) / 1000)
    const beside = await bare.send(48, 16, length)
    if (round < 0) continue
    ours.push(perSecond)
    peer.push(beside.perSecond)
  }
  const name = `the same of changes over REST, embedded store, ${inFlight} writes in flight, compared with ws with bursts of 16`
  return { name, unit: '1/s', ours, peer, aim }
}
