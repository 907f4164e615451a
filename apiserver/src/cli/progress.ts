import { ProgressLine } from './progress-line.ts'

/** A progress line with the share that is done and an estimate of the time that is left. */
export class Progress {
  readonly #begun = performance.now()
  readonly #line = new ProgressLine()
  readonly #label: string

  constructor(label: string) {
    this.#label = label
  }

  /**
   * @param done what is done
   * @param total what there is to do, or an estimate; 0 if it is not known
   * @param what names what is done, such as `120 MB`
   */
  show(done: number, total: number, what: string): void {
    this.#line.show(() => {
      const elapsedMs = performance.now() - this.#begun
      const isKnown = total > 0 && done > 0 && done <= total
      const left = isKnown ? `, ${seconds((elapsedMs * (total - done)) / done)} left` : ''
      const share = isKnown ? `${Math.floor((100 * done) / total)} %, ` : ''
      return `${this.#label}: ${share}${what}, ${seconds(elapsedMs)}${left}`
    })
  }

  /** Clears the line. Returns how long it took, as text. */
  end(): string {
    this.#line.clear()
    return seconds(performance.now() - this.#begun)
  }
}

export function megabytes(bytes: number): string {
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1_000)} kB` : `${Math.round(bytes / 1_000_000)} MB`
}

function seconds(ms: number): string {
  const all = Math.round(ms / 1_000)
  return all < 120 ? `${all} s` : `${Math.round(all / 60)} min`
}
