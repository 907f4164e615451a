/** A value of a metric with its labels. */
interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** The values of a scrape, in Prometheus' text format, by the names of their metrics. */
export class ScrapedValues {
  readonly #samples = new Map<string, Sample[]>()

  /** Ignores comments, and lines that it cannot read. */
  constructor(text: string) {
    for (const [, name = '', labels = '', value = ''] of text.matchAll(/^(\w+)(?:\{(.*)\})? (\S+)$/gm)) {
      const sample = { labels: labelsOf(labels), value: Number(value) }
      const known = this.#samples.get(name)
      if (known === undefined) this.#samples.set(name, [sample])
      else known.push(sample)
    }
  }

  all(name: string): readonly Sample[] {
    return this.#samples.get(name) ?? []
  }

  /** Returns the first value of a metric, or undefined if the server does not report it. */
  value(name: string): number | undefined {
    return this.all(name)[0]?.value
  }

  /** Returns a label of the first value of a metric. */
  label(name: string, label: string): string | undefined {
    return this.all(name)[0]?.labels[label]
  }
}

function labelsOf(text: string): Record<string, string> {
  const labels = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
  return Object.fromEntries(
    labels.map(([, name = '', value = '']) => [
      name,
      value.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c)),
    ]),
  )
}
