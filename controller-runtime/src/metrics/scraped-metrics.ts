import { Counter, Gauge, type Registry } from 'prom-client'

/** A value and the values of its labels, in the order of the metric's label names. */
type Sample<L extends readonly string[]> = readonly [value: number, ...labels: { [K in keyof L]: string }]

type Samples<L extends readonly string[]> = Iterable<Sample<L>> | Promise<Iterable<Sample<L>>>

/**
 * Registers metrics whose samples are read at each scrape, so that what they count are plain numbers. Samples with
 * equal labels are added up.
 */
export class ScrapedMetrics {
  readonly #registry: Registry

  constructor(registry: Registry) {
    this.#registry = registry
  }

  /** @throws Error if the registry already has a metric of this name */
  counter<const L extends readonly string[]>(
    name: string,
    help: string,
    labelNames: L,
    read: () => Iterable<Sample<L>>,
  ): void {
    this.#register(Counter, name, help, labelNames, read)
  }

  /** @throws Error if the registry already has a metric of this name */
  gauge<const L extends readonly string[]>(
    name: string,
    help: string,
    labelNames: L,
    read: () => Samples<L>,
  ): void {
    this.#register(Gauge, name, help, labelNames, read)
  }

  #register<L extends readonly string[]>(
    Type: typeof Counter | typeof Gauge,
    name: string,
    help: string,
    labelNames: L,
    read: () => Samples<L>,
  ): void {
    new Type({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      async collect() {
        const samples = await read()
        this.reset()
        // Without labels, prom-client begins with a sample of 0.
        if (labelNames.length === 0) this.remove()
        for (const [value, ...labels] of samples)
          this.inc(Object.fromEntries(labelNames.map((label, at) => [label, labels[at]])), value)
      },
    })
  }
}
