import { Etcd3 } from 'etcd3'
import { startEtcd } from '../support/etcd.ts'
import { startPeer, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import { printTable, type Row } from './table.ts'

/**
 * `npm run bench [name ...]`: ratios against a bare peer in the same run. Both sides of a round run right after each
 * other, on the same machine with the same number in flight; the median of the rounds' ratios is what counts.
 */
const rounds = 5
const lanes = 64
const collection = '/apis/bench.example.com/v1/items'

function itemJson(name: string, n: number): string {
  return JSON.stringify({
    apiVersion: 'bench.example.com/v1',
    kind: 'Item',
    metadata: { name },
    spec: { text: 'x'.repeat(200), n },
  })
}

async function createsOnEtcd(): Promise<Row> {
  const count = 5000
  const etcd = await startEtcd()
  const ours: number[] = []
  const peer: number[] = []
  try {
    await using setpoint = await startSetpoint(['--etcd-endpoints', etcd.endpoint])
    const client = new Etcd3({ hosts: etcd.endpoint })
    const value = Buffer.from(itemJson('as-large-as-the-stored-object', 1).padEnd(430))
    for (let round = -1; round < rounds; round++) {
      const requests = Array.from({ length: count }, (_, n) =>
        rawRequest('POST', setpoint.url, collection, itemJson(`r${round + 1}-${n}`, n)),
      )
      const rest = await load(setpoint.url, lanes, count, n => requests[n] ?? '', 201)
      const bare = await bareCreates(client, count, round, value)
      // The first round warms both up.
      if (round < 0) continue
      ours.push(rest)
      peer.push(bare)
    }
    client.close()
  } finally {
    await etcd.stop()
  }
  return {
    name: `create through REST on etcd, ${lanes} in flight, beside an etcd3 compare-and-swap loop`,
    unit: '1/s',
    ours,
    peer,
    aim: 0.7,
  }
}

async function bareCreates(client: Etcd3, count: number, round: number, value: Buffer): Promise<number> {
  let next = 0
  const begin = performance.now()
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (let n = next++; n < count; n = next++) {
        const key = `bare/${round}/${n}`
        await client.if(key, 'Mod', '==', 0).then(client.put(key).value(value)).commit()
      }
    }),
  )
  return count / ((performance.now() - begin) / 1000)
}

async function getsByName(): Promise<Row> {
  const count = 40_000
  const ours: number[] = []
  const peer: number[] = []
  await using setpoint = await startSetpoint([])
  const created = await fetch(new URL(collection, setpoint.url), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: itemJson('one', 1),
  })
  process.env.BENCH_BODY = await created.text()
  await using bare = await startPeer('bare-http.js')
  const path = `${collection}/one`
  const request = rawRequest('GET', setpoint.url, path)
  const bareRequest = rawRequest('GET', bare.url, path)
  for (let round = -1; round < rounds; round++) {
    const get = await load(setpoint.url, lanes, count, () => request, 200)
    const answer = await load(bare.url, lanes, count, () => bareRequest, 200)
    if (round < 0) continue
    ours.push(get)
    peer.push(answer)
  }
  return {
    name: `GET by name, embedded store, ${lanes} in flight, beside node:http sending the same bytes`,
    unit: '1/s',
    ours,
    peer,
    aim: 0.5,
  }
}

const benchmarks: Readonly<Record<string, () => Promise<Row>>> = { creates: createsOnEtcd, gets: getsByName }

const wanted = process.argv.slice(2)
const unknown = wanted.filter(name => !Object.hasOwn(benchmarks, name))
if (unknown.length > 0 || wanted.includes('--help')) {
  console.error(`usage: npm run bench -- [${Object.keys(benchmarks).join('|')} ...]`)
  process.exit(2)
}
const rows: Row[] = []
for (const [name, benchmark] of Object.entries(benchmarks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  console.error(`running ${name}`)
  rows.push(await benchmark())
}
printTable(rows)
