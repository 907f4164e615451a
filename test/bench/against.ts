import { setTimeout as sleep } from 'node:timers/promises'
import { findEarlierProgram } from '../../scripts/earlier-program.mjs'
import { residentBytes } from '../support/inspector.ts'
import { collection, createItems, itemJson, lanes, rounds } from './items.ts'
import { type Program, processorMicros, startSetpoint } from './program.ts'
import { load, rawRequest } from './raw-http.ts'
import { ScriptProcess } from './script-process.ts'
import type { Row } from './table.ts'

const text = 'x'.repeat(650)
const sockets = 500

/** One figure of a server, in the order in which they are taken: later loads find what earlier ones have left. */
interface Figure {
  readonly name: string
  readonly unit: string
  readonly take: (program: Program) => Promise<number>
}

const figures: readonly Figure[] = [
  {
    name: 'processor time until ready, with an empty embedded store',
    unit: 'ms',
    take: async ({ url, pid }) => {
      while ((await fetch(new URL('/readyz', url))).status !== 200) await sleep(20)
      return (await processorMicros(pid)) / 1000
    },
  },
  perRequest('create', 10_000, 201, (url, n) =>
    rawRequest('POST', url, collection, itemJson(`c${n}`, n, text)),
  ),
  perRequest('PUT', 10_000, 200, (url, n) =>
    rawRequest('PUT', url, `${collection}/c${n}`, itemJson(`c${n}`, n + 1, text)),
  ),
  perRequest('merge patch', 10_000, 200, (url, n) =>
    rawRequest(
      'PATCH',
      url,
      `${collection}/c${n}`,
      JSON.stringify({ spec: { n: n + 20_000 } }),
      'application/merge-patch+json',
    ),
  ),
  perRequest('GET by name', 30_000, 200, (url, n) => rawRequest('GET', url, `${collection}/c${n % 10_000}`)),
  perRequest('page of 20 sorted by an index', 10_000, 200, (url, n) =>
    rawRequest('GET', url, `${collection}?sort=spec.n&page=${1 + (n % 500)}&size=20`),
  ),
  {
    name: `processor time of a delivery to one of ${sockets} WebSockets, with the writes`,
    unit: 'µs',
    take: deliveries,
  },
  {
    name: 'anonymous memory after all of it',
    unit: 'MB',
    take: async ({ pid }) => (await residentBytes(pid)) / 1e6,
  },
]

/**
 * Compares this program with that of an earlier commit: both are started in turn, the other one first in every second
 * round. Almost all figures are processor time of the server, which other work on the machine disturbs less than rates.
 */
export async function against(commit: string): Promise<Row[]> {
  const earlier = await findEarlierProgram(commit)
  const ours = figures.map((): number[] => [])
  const peer = figures.map((): number[] => [])
  for (let round = 0; round < rounds; round++) {
    const turns = [() => measure(ours, undefined), () => measure(peer, earlier)]
    for (const turn of round % 2 === 0 ? turns : turns.reverse()) await turn()
    console.error(`round ${round + 1} of ${rounds}`)
  }
  return figures.map(({ name, unit }, at) => ({ name, unit, ours: ours[at] ?? [], peer: peer[at] ?? [] }))
}

async function measure(samples: readonly number[][], bin: string | undefined): Promise<void> {
  await using program = await startSetpoint([], { bin })
  for (const [at, { take }] of figures.entries()) samples[at]?.push(await take(program))
}

function perRequest(
  name: string,
  count: number,
  expected: number,
  request: (url: URL, n: number) => string,
): Figure {
  return {
    name: `processor time of a ${name}, ${lanes} in flight`,
    unit: 'µs',
    take: async ({ url, pid }) => {
      const before = await processorMicros(pid)
      await load(url, lanes, count, n => request(url, n), expected)
      return ((await processorMicros(pid)) - before) / count
    },
  }
}

async function deliveries({ url, pid }: Program): Promise<number> {
  await using clients = new ScriptProcess('fleet.js')
  await createItems(url, lanes, 10)
  const list = await (await fetch(new URL(`${collection}?size=1`, url))).text()
  const version = /"version":"(\d+)"/.exec(list)?.[1]
  await clients.ask(
    'connect',
    sockets,
    url.href,
    `${collection}?version=${version}&allowWatchBookmarks=false`,
  )
  const count = 1024
  const before = await processorMicros(pid)
  const received = clients.ask('receive', count * sockets)
  await load(
    url,
    lanes,
    count,
    n => {
      const name = `i${String(n % lanes).padStart(7, '0')}`
      return rawRequest('PUT', url, `${collection}/${name}`, itemJson(name, n + count, text))
    },
    200,
  )
  await received
  return ((await processorMicros(pid)) - before) / (count * sockets)
}
