import { creates } from './creates.ts'
import { queries } from './queries.ts'
import { reads } from './reads.ts'
import { startup } from './startup.ts'
import { printTable, type Row } from './table.ts'

/**
 * `npm run bench [-- name ...]`: ratios against a peer in the same run. Both sides of a round run right after each
 * other on the same machine; the median of the rounds' ratios is what counts.
 */
const benchmarks: Readonly<Record<string, () => Promise<Row[]>>> = { creates, reads, queries, startup }

const wanted = process.argv.slice(2)
const unknown = wanted.filter(name => !Object.hasOwn(benchmarks, name))
if (unknown.length > 0) {
  console.error(`usage: npm run bench -- [${Object.keys(benchmarks).join(' | ')}]...`)
  process.exit(2)
}
const rows: Row[] = []
for (const [name, benchmark] of Object.entries(benchmarks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  console.error(`running ${name}`)
  rows.push(...(await benchmark()))
}
printTable(rows)
