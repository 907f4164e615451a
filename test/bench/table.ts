/** One comparison over all rounds. */
export interface Row {
  readonly name: string
  readonly unit: string
  readonly ours: readonly number[]
  /** The peer's figure for each round; a constant if the aim is an absolute figure. */
  readonly peer: readonly number[]
  /** The aim for the median of ours/peer, if there is one. */
  readonly aim?: { readonly atLeast: number } | { readonly atMost: number }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** Prints the median of the ratios. Each round gives one ratio, because both sides ran next to each other. */
export function printTable(rows: readonly Row[], peerName: string): void {
  console.log(`| what | unit | Setpoint | ${peerName} | ratio (min–max) | aim | met |`)
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

/** Returns the aim, and whether it is met. */
function judged(ratio: number, aim: Row['aim']): string {
  if (aim === undefined) return '— | —'
  const [text, met] =
    'atLeast' in aim ? [`≥ ${aim.atLeast}`, ratio >= aim.atLeast] : [`≤ ${aim.atMost}`, ratio <= aim.atMost]
  return `${text} | ${met ? 'yes' : 'no'}`
}

function figure(value: number): string {
  return value >= 100 ? Math.round(value).toString() : value.toPrecision(3)
}
