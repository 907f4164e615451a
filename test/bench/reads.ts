import { collection, createItems, lanes, rounds } from './items.ts'
import { type Program, startPeer, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import type { Row } from './table.ts'

/** Compares a response over HTTP with node:http sending the same bytes. @returns requests per second of both */
async function compare(
  setpoint: Program,
  path: string,
  inFlight: number,
  count: number,
): Promise<{ ours: number[]; peer: number[] }> {
  const body = await (await fetch(new URL(path, setpoint.url))).text()
  await using bare = await startPeer('bare-http.js', body)
  const request = rawRequest('GET', setpoint.url, path)
  const bareRequest = rawRequest('GET', bare.url, path)
  const ours: number[] = []
  const peer: number[] = []
  for (let round = -1; round < rounds; round++) {
    const answers = await load(setpoint.url, inFlight, count, () => request, 200)
    const bareAnswers = await load(bare.url, inFlight, count, () => bareRequest, 200)
    if (round < 0) continue
    ours.push(answers)
    peer.push(bareAnswers)
  }
  return { ours, peer }
}

/** GET by name, pages and whole lists over HTTP, embedded store. */
export async function reads(): Promise<Row[]> {
  await using setpoint = await startSetpoint([])
  await createItems(setpoint.url, 10_000, 700)
  const cases: [string, string, number, number, number][] = [
    ['GET by name', `${collection}/i0000000`, lanes, 30_000, 0.5],
    ['page of 20 sorted by an index', `${collection}?sort=spec.n&page=1&size=20`, lanes, 10_000, 0.5],
    [
      'page of 20, one equality',
      `${collection}?fieldSelector=spec.half%3D1&sort=spec.n&page=1&size=20`,
      lanes,
      10_000,
      0.5,
    ],
    ['last page of 20', `${collection}?sort=spec.n&page=500&size=20`, lanes, 10_000, 0.5],
    ['all of 10,000 objects of 1 KiB', collection, 2, 20, 0.5],
  ]
  const rows: Row[] = []
  for (const [name, path, inFlight, count, aim] of cases) {
    const measured = await compare(setpoint, path, inFlight, count)
    rows.push({
      name: `${name} over HTTP, ${inFlight} in flight, beside node:http sending the same bytes`,
      unit: '1/s',
      ...measured,
      aim: { atLeast: aim },
    })
  }
  return rows
}
