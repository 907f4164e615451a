/** One comparison: what was measured, against what, over all rounds. */
export interface Row {
  readonly name: string
  readonly unit: string
  readonly ours: readonly number[]
  /** What it is compared with, round by round; a constant where the aim is an absolute figure. */
  readonly peer: readonly number[]
  /** What the median of ours/peer should be, where that is settled. */
  readonly aim?: { readonly atLeast: number } | { readonly atMost: number }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Ratios are taken round by round, where both ran next to each other, and their median is shown. */
export function printTable(rows: readonly Row[]): void {
  console.log('| what | unit | Setpoint | peer | ratio (min–max) | aim | met |')
  console.log('|---|---|---|---|---|---|---|')
  for (const { name, unit, ours, peer, aim } of rows) {
    const ratios = ours.map((value, at) => value / (peer[at] ?? Number.NaN))
    const ratio = median(ratios)
    const spread = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`
    console.log(
      `| ${name} | ${unit} | ${figure(median(ours))} | ${figure(median(peer))} | **${ratio.toFixed(2)}** (${spread}) | ${judged(ratio, aim)} |`,
    )
  }
}

/** The aim, and whether it is met. */
function judged(ratio: number, aim: Row['aim']): string {
  if (aim === undefined) return '— | —'
  const [text, met] =
    'atLeast' in aim ? [`≥ ${aim.atLeast}`, ratio >= aim.atLeast] : [`≤ ${aim.atMost}`, ratio <= aim.atMost]
  return `${text} | ${met ? 'yes' : 'no'}`
}

function figure(value: number): string {
  return value >= 100 ? Math.round(value).toString() : value.toPrecision(3)
}
