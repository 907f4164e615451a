import { Histogram, type HistogramConfiguration } from 'prom-client'

/** Observations by bucket, as plain numbers. */
export class Observations {
  readonly #bounds: readonly number[]
  readonly #counts: number[]
  #sum = 0

  /** @param bounds upper bounds, ascending */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    let low = 0
    let high = this.#bounds.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (value <= (this.#bounds[middle] ?? Number.POSITIVE_INFINITY)) high = middle
      else low = middle + 1
    }
    this.#counts[low] = (this.#counts[low] ?? 0) + 1
    this.#sum += value
  }

  /** Yields the series of a histogram: cumulative buckets, sum and count. */
  *series(): Generator<readonly [suffix: string, le: number | string | undefined, value: number]> {
    let count = 0
    for (const [at, here] of this.#counts.entries()) {
      count += here
      yield ['_bucket', this.#bounds[at] ?? '+Inf', count]
    }
    yield ['_sum', undefined, this.#sum]
    yield ['_count', undefined, count]
  }
}

interface HistogramValue {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  /** prom-client merges these into the labels. */
  readonly sharedLabels: Readonly<Record<string, string>>
  readonly value: number
}

/**
 * A histogram that reads its observations at each scrape. prom-client hashes the labels of each observation, which
 * costs more than all other bookkeeping of a reconcile.
 */
export class ObservedHistogram<L extends string> extends Histogram<L> {
  readonly #observations: () => Iterable<
    readonly [labels: Readonly<Record<L, string>>, observations: Observations]
  >
  readonly #text: { readonly name: string; readonly help: string }

  constructor(
    configuration: HistogramConfiguration<L>,
    observations: () => Iterable<readonly [labels: Readonly<Record<L, string>>, observations: Observations]>,
  ) {
    super(configuration)
    this.#observations = observations
    this.#text = { name: configuration.name, help: configuration.help }
  }

  /** Called by prom-client for both the text and the JSON format. */
  async getForPromString() {
    const { name, help } = this.#text
    const values: HistogramValue[] = []
    for (const [labels, observations] of this.#observations()) {
      for (const [suffix, le, value] of observations.series()) {
        values.push({
          metricName: `${name}${suffix}`,
          labels: le === undefined ? labels : { ...labels, le },
          sharedLabels: {},
          value,
        })
      }
    }
    return { name, help, type: 'histogram', values, aggregator: 'sum' }
  }
}
