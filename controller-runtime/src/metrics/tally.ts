import { Histogram, type HistogramConfiguration } from 'prom-client'

/** Observations by bucket, as plain numbers. */
export class Tally {
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

  /** The series of a histogram: each bucket with all below it, the sum, and the count. */
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
  /** prom-client joins these to the others. */
  readonly sharedLabels: Readonly<Record<string, string>>
  readonly value: number
}

/**
 * A histogram whose observations are made elsewhere and asked for when somebody scrapes. prom-client hashes the labels
 * at each observation, which for the three of a reconcile is more than the rest of the bookkeeping.
 */
export class TallyHistogram<L extends string> extends Histogram<L> {
  readonly #tallies: () => Iterable<readonly [labels: Readonly<Record<L, string>>, tally: Tally]>
  readonly #text: { readonly name: string; readonly help: string }

  constructor(
    configuration: HistogramConfiguration<L>,
    tallies: () => Iterable<readonly [labels: Readonly<Record<L, string>>, tally: Tally]>,
  ) {
    super(configuration)
    this.#tallies = tallies
    this.#text = { name: configuration.name, help: configuration.help }
  }

  /** What prom-client asks for both the text and the JSON form. */
  async getForPromString() {
    const { name, help } = this.#text
    const values: HistogramValue[] = []
    for (const [labels, tally] of this.#tallies()) {
      for (const [suffix, le, value] of tally.series()) {
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
