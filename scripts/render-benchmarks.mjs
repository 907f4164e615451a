/** Renders the table of docs/benchmarks.md from the recorded results, see test/bench/record.ts and render-page.mjs. */
import { readFileSync } from 'node:fs'
import { renderPage } from './render-page.mjs'

/** @type {Record<string, { date: string, node: string, processors: string, load: number, rows: { name: string, unit: string, ours: number, peer: number, ratio: number }[] }>} */
const results = JSON.parse(
  readFileSync(new URL('../docs/maintainers/benchmarks.json', import.meta.url), 'utf8'),
)

/** What users ask for: the text, the benchmark, a part of the row's name, and what the peer is. Without one, only our figure. */
const rows = [
  [
    'GET of one object over HTTP, 64 in flight',
    'reads',
    'GET by name',
    '`node:http` that sends the same bytes',
  ],
  [
    'a page of 20 objects sorted by an index, over HTTP',
    'reads',
    'page of 20 sorted',
    '`node:http` that sends the same bytes',
  ],
  ['creations on etcd, 64 in flight', 'creates', 'creates', 'a loop of etcd3 in the same etcd'],
  [
    'a page of 20 out of 1,000,000 objects, one selector, sorted by another index',
    'queries',
    'one equality, middle page',
    'out of 10,000 objects',
  ],
  ['a decision about permissions, 1,000 role bindings', 'rbac', 'a decision with', undefined],
  [
    'events delivered to 1,000 WebSockets, in bursts of 64',
    'fanout',
    'from the cache in bursts of 64',
    '`ws` alone',
  ],
  [
    'from the acknowledgement of a write to its receipt by 100 watchers, median',
    'latency',
    '100 changes a second, compared with 100 watches of etcd3: p50',
    '100 clients of etcd3',
  ],
  ['memory of an idle WebSocket', 'sockets', 'resident memory', '`ws` alone'],
  ['memory of 100,000 objects of 1 KiB with three indexes', 'startup', 'resident memory', 'their bytes'],
  [
    'from a change to its reconcile, 1,000 changes a second, p99',
    'sdk',
    'change to its reconcile',
    undefined,
  ],
]

/** @param {number} value @param {string} unit */
function figure(value, unit) {
  if (unit === '1/s') return `${Math.round(value).toLocaleString('en-US')}/s`
  if (unit === 'bytes' && value > 1e6) return `${Math.round(value / 1e6)} MB`
  if (unit === 'bytes') return `${Math.round(value).toLocaleString('en-US')} bytes`
  return `${Number(value.toPrecision(3))} ${unit}`
}

renderPage(new URL('../docs/benchmarks.md', import.meta.url), 'scripts/render-benchmarks.mjs', [
  ['What is measured', 'Setpoint', 'Compared with', 'Ratio', 'Measured'],
  ...rows.map(([what = '', benchmark = '', part = '', peer]) => {
    const { date = '', rows: found = [] } = results[benchmark] ?? {}
    const row = found.find(({ name }) => name.includes(part))
    if (row === undefined) throw new Error(`${benchmark} has no row ${part}`)
    const compared = peer === undefined ? '' : `${peer}: ${figure(row.peer, row.unit)}`
    return [what, figure(row.ours, row.unit), compared, peer === undefined ? '' : row.ratio.toFixed(2), date]
  }),
])
