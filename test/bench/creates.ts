import { Etcd3 } from 'etcd3'
import { startEtcd } from '../support/etcd.ts'
import { collection, itemJson, lanes, rounds } from './items.ts'
import { startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import type { Row } from './table.ts'

const count = 5000
const text = 'x'.repeat(200)
/** The size of a stored item. */
const value = Buffer.alloc(500, 'x')

/** The writes, each with the bare etcd3 loop that it is compared with. */
const writes = ['creates', 'updates by PUT', 'updates by merge patch'] as const
type Write = (typeof writes)[number]

/**
 * Compares writes through REST with a bare compare-and-swap loop of etcd3 on the same etcd, with values of the same
 * size.
 */
export async function creates(): Promise<Row[]> {
  const etcd = await startEtcd()
  const rates = new Map(writes.map(write => [write, { ours: [] as number[], peer: [] as number[] }]))
  try {
    await using setpoint = await startSetpoint(['--etcd-endpoints', etcd.endpoint])
    const client = new Etcd3({ hosts: etcd.endpoint })
    for (let round = -1; round < rounds; round++) {
      const revisions: number[] = []
      for (const [write, { ours, peer }] of rates) {
        const requests = Array.from({ length: count }, (_, n) => request(write, setpoint.url, round, n))
        const rest = await load(
          setpoint.url,
          lanes,
          count,
          n => requests[n] ?? '',
          write === 'creates' ? 201 : 200,
        )
        const bare = await bareWrites(client, round, revisions)
        if (round < 0) continue
        ours.push(rest)
        peer.push(bare)
      }
    }
    client.close()
  } finally {
    await etcd.stop()
  }
  return [...rates].map(([write, rate]) => ({
    name: `${write} through REST on etcd, ${lanes} in flight, compared with an etcd3 compare-and-swap loop`,
    unit: '1/s',
    ...rate,
    ...(write === 'creates' && { aim: { atLeast: 0.45 } }),
  }))
}

/** Changes every item of the round once more. */
function request(write: Write, url: URL, round: number, n: number): string {
  const name = `r${round + 1}-${n}`
  if (write === 'creates') return rawRequest('POST', url, collection, itemJson(name, n, text))
  const path = `${collection}/${name}`
  if (write === 'updates by PUT') return rawRequest('PUT', url, path, itemJson(name, n + count, text))
  const patch = JSON.stringify({ spec: { n: n + 2 * count } })
  return rawRequest('PATCH', url, path, patch, 'application/merge-patch+json')
}

/** Puts each key at its last known revision, or creates it at zero, and keeps the new revision. */
async function bareWrites(client: Etcd3, round: number, revisions: number[]): Promise<number> {
  let next = 0
  const begin = performance.now()
  const lane = async () => {
    for (let n = next++; n < count; n = next++) {
      const key = `bare/${round}/${n}`
      const swap = client.if(key, 'Mod', '==', revisions[n] ?? 0).then(client.put(key).value(value))
      const { succeeded, header } = await swap.commit()
      if (!succeeded) throw new Error('the bare write was refused')
      revisions[n] = Number(header.revision)
    }
  }
  await Promise.all(Array.from({ length: lanes }, lane))
  return count / ((performance.now() - begin) / 1000)
}
