import { join } from 'node:path'
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
  accept = '*/*',
): Promise<{ ours: number[]; peer: number[] }> {
  const body = await (await fetch(new URL(path, setpoint.url), { headers: { accept } })).text()
  await using bare = await startPeer('bare-http.js', body)
  const request = rawRequest('GET', setpoint.url, path, '', '', accept)
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

const manyKinds = join(import.meta.dirname, '../../test/bench/many-kinds-plugin')
const meta = 'v=v1;g=meta.k8s.io'

/** Compares the views of a list with the plain list of the same server. */
export async function views(): Promise<Row[]> {
  await using setpoint = await startSetpoint([])
  await createItems(setpoint.url, 500, 700)
  const cases: [string, string, string][] = [
    ['Table of 500 rows', `application/json;as=Table;${meta}`, collection],
    [
      'Table of 500 rows with objects',
      `application/json;as=Table;${meta}`,
      `${collection}?includeObject=Object`,
    ],
    ['metadata of 500 objects', `application/json;as=PartialObjectMetadataList;${meta}`, collection],
  ]
  const rows: Row[] = []
  for (const [name, accept, path] of cases) {
    const request = rawRequest('GET', setpoint.url, path, '', '', accept)
    const plain = rawRequest('GET', setpoint.url, collection)
    const ours: number[] = []
    const peer: number[] = []
    for (let round = -1; round < rounds; round++) {
      const shown = await load(setpoint.url, 4, 100, () => request, 200)
      const whole = await load(setpoint.url, 4, 100, () => plain, 200)
      if (round < 0) continue
      ours.push(shown)
      peer.push(whole)
    }
    rows.push({
      name: `${name}, compared with the plain list`,
      unit: '1/s',
      ours,
      peer,
      aim: { atLeast: 0.5 },
    })
  }
  return rows
}

/** Aggregated discovery of a server with 300 kinds. */
export async function discovery(): Promise<Row[]> {
  await using setpoint = await startSetpoint(['--plugin', manyKinds])
  const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
  const compared = await compare(setpoint, '/apis', 8, 1_000, accept)
  const name = 'aggregated discovery of 300 kinds over HTTP, compared with node:http sending the same bytes'
  return [{ name, unit: '1/s', ...compared }]
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
      name: `${name} over HTTP, ${inFlight} in flight, compared with node:http sending the same bytes`,
      unit: '1/s',
      ...measured,
      aim: { atLeast: aim },
    })
  }
  return rows
}
