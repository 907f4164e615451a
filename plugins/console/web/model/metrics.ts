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

/** A value of a metric. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Reads the text of /metrics. */
export function samplesOf(text: string): Sample[] {
  return text.split('\n').flatMap(line => {
    const [, name = '', labels = '', value = ''] = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
    if (name === '') return []
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(
      ([, key = '', each = '']) => [key, each] as const,
    )
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }]
  })
}

/** Readings that are kept: ten minutes. */
const kept = 120

/** What the readings of one server have shown. */
export class Readings {
  readonly times: number[] = []
  latest: readonly Sample[] = []
  readonly #sums: number[][] = chartedMetrics.map(() => [])

  add(time: number, samples: readonly Sample[]): void {
    this.latest = samples
    const sums = chartedMetrics.map(({ names }) =>
      samples.reduce((sum, { name, value }) => (names.includes(name) ? sum + value : sum), 0),
    )
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
