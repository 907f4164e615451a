/** One comparison: what was measured, against what, over all rounds. */
export interface Row {
  readonly name: string
  readonly unit: string
  readonly ours: readonly number[]
  readonly peer: readonly number[]
  /** The ratio ours/peer that is aimed at; at least it where `higherIsBetter`, else at most. */
  readonly aim: number
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Ratios are taken round by round, where both ran next to each other, and their median is shown. */
export function printTable(rows: readonly Row[]): void {
  console.log('| what | unit | Setpoint | bare peer | ratio (min–max) | aim |')
  console.log('|---|---|---|---|---|---|')
  for (const { name, unit, ours, peer, aim } of rows) {
    const ratios = ours.map((value, at) => value / (peer[at] ?? Number.NaN))
    const spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`
    console.log(
      `| ${name} | ${unit} | ${Math.round(median(ours))} | ${Math.round(median(peer))} | **${median(ratios).toFixed(2)}** (${spread}) | ${aim} |`,
    )
  }
}
