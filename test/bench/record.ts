import { readFile, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg } from 'node:os'
import { median, type Row } from './table.ts'

/**
 * `npm run bench -- --record [name ...]` keeps the results in docs/maintainers/benchmarks.json, from which
 * scripts/render-benchmarks.mjs renders the table for users. Each benchmark has its own date and load, because a run
 * may have only some.
 */
const file = new URL('../../docs/maintainers/benchmarks.json', import.meta.url)

/** Stores the rows of one benchmark, in place of those of an earlier run. */
export async function record(benchmark: string, rows: readonly Row[]): Promise<void> {
  const [processor] = cpus()
  const results = JSON.parse(await readFile(file, 'utf8').catch(() => '{}'))
  results[benchmark] = {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    processors: `${availableParallelism()} × ${processor?.model.trim() ?? 'unknown'}`,
    load: Number(loadavg()[0]?.toFixed(1)),
    rows: rows.map(({ name, unit, ours, peer }) => ({
      name,
      unit,
      ours: rounded(median(ours)),
      peer: rounded(median(peer)),
      ratio: rounded(median(ours.map((value, at) => value / (peer[at] ?? Number.NaN)))),
    })),
  }
  await writeFile(file, `${JSON.stringify(results, undefined, 2)}\n`)
}

/** Four digits are more than runs agree on. */
function rounded(value: number): number {
  return Number(value.toPrecision(4))
}
