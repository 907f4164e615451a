import { loadavg } from 'node:os'
import { applies } from './applies.ts'
import { creates } from './creates.ts'
import { fanout } from './fanout.ts'
import { latency } from './latency.ts'
import { queries } from './queries.ts'
import { rbac } from './rbac.ts'
import { discovery, reads, views } from './reads.ts'
import { sdk } from './sdk.ts'
import { selectors } from './selectors.ts'
import { idleSockets } from './sockets.ts'
import { startup } from './startup.ts'
import { printTable, type Row } from './table.ts'

/**
 * `npm run bench [-- name ...]`: ratios against a peer in the same run. Both sides of a round run right after each other
 * on the same machine. The result is the median of the rounds' ratios.
 */
const benchmarks: Readonly<Record<string, () => Promise<Row[]>>> = {
  creates,
  applies,
  reads,
  views,
  discovery,
  queries,
  startup,
  sockets: idleSockets,
  fanout,
  latency,
  selectors,
  rbac,
  sdk,
}

const wanted = process.argv.slice(2)
const unknown = wanted.filter(name => !Object.hasOwn(benchmarks, name))
if (unknown.length > 0) {
  console.error(`usage: npm run bench -- [${Object.keys(benchmarks).join(' | ')}]...`)
  process.exit(2)
}
for (const [name, benchmark] of Object.entries(benchmarks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  console.error(`running ${name}`)
  printTable(await benchmark())
  const loads = loadavg().map(load => load.toFixed(1))
  console.log(`\nLoad average over 1, 5 and 15 minutes at its end: ${loads.join(', ')}\n`)
}
