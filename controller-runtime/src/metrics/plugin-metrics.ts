import { Counter, Gauge, Histogram, type Metric, Registry } from 'prom-client'
import { claimMetric, releaseMetric } from './metric-owners.ts'

/** Bounds of the metrics of a plugin. */
export const pluginMetricsDefaults = Object.freeze({
  /** Metrics of one plugin. */
  metrics: 100,
  /** Label sets of one metric. Each is a series that this process and Prometheus keep in memory. */
  labelSets: 1_000,
  /** Characters of a label value. */
  labelValue: 256,
  /** Buckets of a histogram. */
  buckets: 100,
})

/** The declaration of a counter or gauge. */
export interface MetricDeclaration<Label extends string = string> {
  /** Letters, digits and `_`. The metric is `plugin_<plugin>_<name>`; dashes of the plugin become underscores. */
  readonly name: string
  /** A sentence for the people who read the metric. */
  readonly help: string
  /** Default: none. */
  readonly labelNames?: readonly Label[]
}

/** The declaration of a histogram. */
export interface HistogramDeclaration<Label extends string = string> extends MetricDeclaration<Label> {
  /** Ascending upper bounds. Default: those of prom-client, from 5 ms to 10 s. */
  readonly buckets?: readonly number[]
}

/** Values of the labels of a metric. Missing labels are empty. */
export type LabelValues<Label extends string = string> = Partial<Readonly<Record<Label, string | number>>>

/** A value that only rises. */
export interface PluginCounter<Label extends string = string> {
  /** Adds `value`, which is not negative. Default 1. */
  inc(value?: number): void
  inc(labels: LabelValues<Label>, value?: number): void
  /** Removes the series of a label set. */
  remove(labels: LabelValues<Label>): void
}

/** A value that rises and falls. */
export interface PluginGauge<Label extends string = string> {
  set(value: number): void
  set(labels: LabelValues<Label>, value: number): void
  /** Adds `value`. Default 1. */
  inc(value?: number): void
  inc(labels: LabelValues<Label>, value?: number): void
  /** Subtracts `value`. Default 1. */
  dec(value?: number): void
  dec(labels: LabelValues<Label>, value?: number): void
  /** Removes the series of a label set. */
  remove(labels: LabelValues<Label>): void
}

/** The distribution of values over buckets. */
export interface PluginHistogram<Label extends string = string> {
  observe(value: number): void
  observe(labels: LabelValues<Label>, value: number): void
  /** Removes the series of a label set. */
  remove(labels: LabelValues<Label>): void
}

/** Creates the metrics of a plugin, during its setup only. Each method throws TypeError for an invalid declaration. */
export interface PluginMetrics {
  counter<Label extends string = never>(declaration: MetricDeclaration<Label>): PluginCounter<Label>
  gauge<Label extends string = never>(declaration: MetricDeclaration<Label>): PluginGauge<Label>
  histogram<Label extends string = never>(declaration: HistogramDeclaration<Label>): PluginHistogram<Label>
}

const namePattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/
const droppedName = 'metrics_dropped_total'

/**
 * The metrics of one plugin in the registry of the process.
 *
 * Guarantees
 * - Every metric has the prefix of the plugin, and no metric of another owner is replaced.
 * - Values of label sets beyond the bound are dropped and counted in `plugin_<plugin>_metrics_dropped_total`.
 * - After `close` the registry no longer has them. The plugin can be set up again before or after.
 */
export class PluginMetricSet implements PluginMetrics {
  readonly #plugin: string
  readonly #registry: Registry
  readonly #checkOpen: () => void
  readonly #metrics = new Map<string, Metric<string>>()
  #dropped: Counter<'metric'> | undefined

  /** @param checkOpen throws once metrics can no longer be created */
  constructor(plugin: string, registry: Registry = new Registry(), checkOpen: () => void = () => {}) {
    this.#plugin = plugin
    this.#registry = registry
    this.#checkOpen = checkOpen
  }

  counter<Label extends string = never>(declaration: MetricDeclaration<Label>): PluginCounter<Label> {
    const metric = this.#add(declaration, [], options => new Counter<string>(options))
    const series = this.#seriesOf(declaration, metric)
    return {
      inc: (...given: Given<Label>) => series.use(given, 1, (labels, value) => metric.inc(labels, value)),
      remove: labels => series.remove(labels),
    }
  }

  gauge<Label extends string = never>(declaration: MetricDeclaration<Label>): PluginGauge<Label> {
    const metric = this.#add(declaration, [], options => new Gauge<string>(options))
    const series = this.#seriesOf(declaration, metric)
    return {
      set: (...given: Given<Label>) =>
        series.use(given, undefined, (labels, value) => metric.set(labels, value)),
      inc: (...given: Given<Label>) => series.use(given, 1, (labels, value) => metric.inc(labels, value)),
      dec: (...given: Given<Label>) => series.use(given, 1, (labels, value) => metric.dec(labels, value)),
      remove: labels => series.remove(labels),
    }
  }

  histogram<Label extends string = never>(declaration: HistogramDeclaration<Label>): PluginHistogram<Label> {
    const { buckets } = declaration ?? {}
    const metric = this.#add(declaration, ['buckets'], options => {
      if (buckets === undefined) return new Histogram<string>(options)
      const problem = checkBuckets(buckets)
      if (problem !== undefined) throw this.#invalid(`${options.name}: ${problem}`)
      return new Histogram<string>({ ...options, buckets: [...buckets] })
    })
    const series = this.#seriesOf(declaration, metric)
    return {
      observe: (...given: Given<Label>) =>
        series.use(given, undefined, (labels, value) => metric.observe(labels, value)),
      remove: labels => series.remove(labels),
    }
  }

  /** Removes all metrics from the registry. */
  close(): void {
    for (const [name, metric] of this.#metrics) releaseMetric(this.#registry, name, metric)
    this.#metrics.clear()
  }

  #add<M extends Metric<string>>(
    declaration: MetricDeclaration,
    furtherFields: readonly string[],
    create: (options: { name: string; help: string; labelNames: string[]; registers: Registry[] }) => M,
  ): M {
    this.#checkOpen()
    if (typeof declaration !== 'object' || declaration === null)
      throw this.#invalid('a metric needs { name, help, labelNames? }')
    const { name: ownName, help, labelNames = [], ...others } = declaration
    if (typeof ownName !== 'string' || !namePattern.test(ownName)) {
      throw this.#invalid(
        `the metric name ${JSON.stringify(ownName)} must consist of letters, digits and '_', and not start with a digit`,
      )
    }
    const unknown = Object.keys(others).find(field => !furtherFields.includes(field))
    if (unknown !== undefined) {
      const valid = ['name', 'help', 'labelNames', ...furtherFields].join(', ')
      throw this.#invalid(`${ownName}: the field ${JSON.stringify(unknown)} is unknown; valid are ${valid}`)
    }
    if (typeof help !== 'string' || help === '') throw this.#invalid(`${ownName}: help must be a sentence`)
    if (!Array.isArray(labelNames)) throw this.#invalid(`${ownName}: labelNames must be a list`)
    const label = labelNames.find(each => typeof each !== 'string' || !isLabelName(each))
    if (label !== undefined)
      throw this.#invalid(`${ownName}: ${JSON.stringify(label)} is not a valid label name`)
    if (this.#metrics.size > pluginMetricsDefaults.metrics)
      throw this.#invalid(`at most ${pluginMetricsDefaults.metrics} metrics are allowed`)
    this.#dropped ??= this.#register(
      droppedName,
      name =>
        new Counter({
          name,
          help: 'Values that were dropped because a metric had too many label sets, or a label value was too long.',
          labelNames: ['metric'],
          registers: [],
        }),
    )
    return this.#register(ownName, name => create({ name, help, labelNames: [...labelNames], registers: [] }))
  }

  #register<M extends Metric<string>>(ownName: string, create: (name: string) => M): M {
    const name = `plugin_${this.#plugin.replaceAll('-', '_')}_${ownName}`
    const metric = create(name)
    if (this.#metrics.has(name) || !claimMetric(this.#registry, name, this.#plugin, metric))
      throw this.#invalid(`the metric ${name} already exists`)
    this.#metrics.set(name, metric)
    return metric
  }

  #seriesOf({ name, labelNames = [] }: MetricDeclaration, metric: Removable): Series {
    return new Series(labelNames, metric, () => this.#dropped?.inc({ metric: name }))
  }

  #invalid(problem: string): TypeError {
    return new TypeError(`plugin ${this.#plugin}: ${problem}`)
  }
}

type Given<Label extends string> = [labels?: LabelValues<Label> | number, value?: number]

interface Removable {
  remove(labels: Record<string, string>): void
}

/** The label sets of one metric, up to the bound. */
class Series {
  readonly #labelNames: readonly string[]
  readonly #metric: Removable
  readonly #drop: () => void
  readonly #known = new Set<string>()

  constructor(labelNames: readonly string[], metric: Removable, drop: () => void) {
    this.#labelNames = labelNames
    this.#metric = metric
    this.#drop = drop
  }

  /**
   * Calls `update` with the labels and the value, unless the label set is one too many.
   * @throws TypeError for an unknown label, or for a value that is not a finite number
   */
  use(
    [first, second]: Given<string>,
    defaultValue: number | undefined,
    update: (labels: Record<string, string>, value: number) => void,
  ): void {
    const [given, value = defaultValue] = typeof first === 'object' ? [first, second] : [{}, first]
    const labels = this.#complete(given)
    if (typeof value !== 'number' || !Number.isFinite(value))
      throw new TypeError(`the value of a metric must be a finite number, is ${value}`)
    const values = Object.values(labels)
    const key = JSON.stringify(values)
    const { labelSets, labelValue } = pluginMetricsDefaults
    const isNew = !this.#known.has(key)
    if (values.some(({ length }) => length > labelValue) || (isNew && this.#known.size >= labelSets)) {
      this.#drop()
      return
    }
    update(labels, value)
    if (isNew) this.#known.add(key)
  }

  /** @throws TypeError for an unknown label */
  remove(given: LabelValues): void {
    const labels = this.#complete(given)
    this.#known.delete(JSON.stringify(Object.values(labels)))
    this.#metric.remove(labels)
  }

  /** Returns a value for every label, in the order of the declaration. */
  #complete(given: LabelValues): Record<string, string> {
    const unknown = Object.keys(given).find(name => !this.#labelNames.includes(name))
    if (unknown !== undefined) {
      throw new TypeError(
        `the label ${JSON.stringify(unknown)} is not declared; labelNames are ${JSON.stringify(this.#labelNames)}`,
      )
    }
    return Object.fromEntries(this.#labelNames.map(name => [name, String(given[name] ?? '')]))
  }
}

/** `le` belongs to histograms, names with two underscores to Prometheus. */
function isLabelName(name: string): boolean {
  return namePattern.test(name) && !name.startsWith('__') && name !== 'le'
}

function checkBuckets(buckets: unknown): string | undefined {
  const { buckets: most } = pluginMetricsDefaults
  if (!Array.isArray(buckets) || buckets.length === 0 || buckets.length > most)
    return `buckets must be a list of 1 to ${most} numbers`
  const isAscending = buckets.every(
    (bound, at) => Number.isFinite(bound) && (at === 0 || bound > Number(buckets[at - 1])),
  )
  return isAscending ? undefined : 'buckets must be finite numbers in ascending order'
}
