import { Etcd3 } from 'etcd3'
import { startEtcd } from '../support/etcd.ts'
import { collection, itemJson, lanes, rounds } from './items.ts'
import { startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import type { Row } from './table.ts'

const count = 5000

/** Creates through REST, beside a bare compare-and-swap loop of etcd3 against the same etcd, bytes of the same size. */
export async function creates(): Promise<Row[]> {
  const etcd = await startEtcd()
  const ours: number[] = []
  const peer: number[] = []
  try {
    await using setpoint = await startSetpoint(['--etcd-endpoints', etcd.endpoint])
    const client = new Etcd3({ hosts: etcd.endpoint })
    const value = Buffer.alloc(500, 'x')
    for (let round = -1; round < rounds; round++) {
      const requests = Array.from({ length: count }, (_, n) =>
        rawRequest('POST', setpoint.url, collection, itemJson(`r${round + 1}-${n}`, n, 'x'.repeat(200))),
      )
      const rest = await load(setpoint.url, lanes, count, n => requests[n] ?? '', 201)
      const bare = await bareCreates(client, round, value)
      if (round < 0) continue
      ours.push(rest)
      peer.push(bare)
    }
    client.close()
  } finally {
    await etcd.stop()
  }
  const name = `creates through REST on etcd, ${lanes} in flight, beside an etcd3 compare-and-swap loop`
  return [{ name, unit: '1/s', ours, peer, aim: { atLeast: 0.7 } }]
}

async function bareCreates(client: Etcd3, round: number, value: Buffer): Promise<number> {
  let next = 0
  const begin = performance.now()
  const lane = async () => {
    for (let n = next++; n < count; n = next++) {
      const key = `bare/${round}/${n}`
      await client.if(key, 'Mod', '==', 0).then(client.put(key).value(value)).commit()
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return count / ((performance.now() - begin) / 1000)
}
