import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { against } from './against.ts'
import { applies } from './applies.ts'
import { creates } from './creates.ts'
import { definedKinds } from './defined-kinds.ts'
import { fanout } from './fanout.ts'
import { latency } from './latency.ts'
import { queries } from './queries.ts'
import { rbac } from './rbac.ts'
import { discovery, reads, views } from './reads.ts'
import { record } from './record.ts'
import { scale } from './scale.ts'
import { sdk } from './sdk.ts'
import { selectors } from './selectors.ts'
import { idleSockets } from './sockets.ts'
import { startup } from './startup.ts'
import { printTable, type Row } from './table.ts'

/**
 * `npm run bench [-- name ...]`: ratios against a peer in the same run. Both sides of a round run right after each
 * other on the same machine. The result is the median of the rounds' ratios.
 *
 * With `--record` it stores the results, see `record.ts`.
 *
 * `npm run bench -- scale`: the figures of a large server, without a peer.
 *
 * `npm run bench -- --against COMMIT`: the processor time of this program against that of an earlier commit, whose
 * program is built the first time.
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
  definitions: definedKinds,
  sdk,
}

const { wanted, commit, isRecorded } = readArguments()
if (wanted.includes('scale')) await scale()
if (commit !== undefined) report(await against(commit), commit)
else
  for (const [name, benchmark] of Object.entries(benchmarks)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue
    console.error(`running ${name}`)
    const rows = await benchmark()
    report(rows, 'peer')
    if (isRecorded) await record(name, rows)
  }

function report(rows: readonly Row[], peerName: string): void {
  printTable(rows, peerName)
  const loads = loadavg().map(load => load.toFixed(1))
  console.log(`\nLoad average over 1, 5 and 15 minutes at its end: ${loads.join(', ')}\n`)
}

interface Arguments {
  readonly wanted: readonly string[]
  readonly commit: string | undefined
  readonly isRecorded: boolean
}

function readArguments(): Arguments {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: { against: { type: 'string' }, record: { type: 'boolean' } },
    })
    const { against: commit, record: isRecorded = false } = values
    const isKnown = positionals.every(name => Object.hasOwn(benchmarks, name) || name === 'scale')
    if (isKnown && (commit === undefined || positionals.length === 0))
      return { wanted: positionals, commit, isRecorded }
  } catch {
    // The usage says which arguments there are.
  }
  console.error(
    `usage: npm run bench -- [--record] [${Object.keys(benchmarks).join(' | ')} | scale]...\n   or: npm run bench -- --against COMMIT`,
  )
  process.exit(2)
}
