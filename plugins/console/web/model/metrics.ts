interface ChartedMetric {
  readonly title: string
  readonly unit: string
  /** Names whose samples are added up. */
  readonly names: readonly string[]
  /** A counter is shown as its change a second. */
  readonly isRate: boolean
  readonly scale?: number
}

/** The metrics that say most, and how they are shown. */
export const chartedMetrics: readonly ChartedMetric[] = [
  { title: 'Requests', unit: '/s', names: ['apiserver_request_total'], isRate: true },
  { title: 'Events to watches', unit: '/s', names: ['apiserver_watch_events_total'], isRate: true },
  { title: 'Reconciles', unit: '/s', names: ['controller_runtime_reconcile_total'], isRate: true },
  { title: 'Waiting for a controller', unit: '', names: ['workqueue_depth'], isRate: false },
  {
    title: 'Event loop delay',
    unit: ' ms',
    names: ['nodejs_eventloop_lag_p99_seconds'],
    isRate: false,
    scale: 1_000,
  },
  {
    title: 'Memory',
    unit: ' MB',
    names: ['process_resident_memory_bytes'],
    isRate: false,
    scale: 1 / 1_000_000,
  },
]

/** Samples that are kept: ten minutes. */
const kept = 120

/** What scrapes of /metrics have shown. */
export class Samples {
  readonly times: number[] = []
  readonly #sums: number[][] = chartedMetrics.map(() => [])

  add(time: number, text: string): void {
    const sums = chartedMetrics.map(() => 0)
    for (const line of text.split('\n')) {
      if (line.startsWith('#')) continue
      const [, name = '', value = ''] = /^([\w:]+)(?:\{.*\})? (\S+)/.exec(line) ?? []
      const at = chartedMetrics.findIndex(({ names }) => names.includes(name))
      if (at >= 0) sums[at] = (sums[at] ?? 0) + Number(value)
    }
    this.times.push(time)
    for (const [at, sum] of sums.entries()) this.#sums[at]?.push(sum)
    if (this.times.length <= kept) return
    this.times.shift()
    for (const each of this.#sums) each.shift()
  }

  /** Returns the values to show of a metric. The first of a rate is not known. */
  valuesOf(metric: number): (number | null)[] {
    const { isRate, scale = 1 } = chartedMetrics[metric] ?? { isRate: false }
    const sums = this.#sums[metric] ?? []
    if (!isRate) return sums.map(sum => sum * scale)
    return sums.map((sum, at) => {
      const before = sums[at - 1]
      const seconds = (this.times[at] ?? 0) - (this.times[at - 1] ?? 0)
      return before === undefined || seconds <= 0 ? null : (Math.max(0, sum - before) / seconds) * scale
    })
  }
}
