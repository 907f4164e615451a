import { isFields } from '../support/json.ts'

const everyMs = 10_000

/** What one run did and cost. */
export interface Figures {
  readonly operations: number
  readonly simulatedMs: number
  readonly cpuMs: number
  readonly failed: boolean
}

export function isFigures(value: unknown): value is Figures {
  return isFields(value) && typeof value.operations === 'number' && typeof value.failed === 'boolean'
}

/** Says now and then how far a run of many seeds is, and what it cost. */
export class Progress {
  runs = 0
  failed = 0
  #operations = 0
  #simulatedMs = 0
  #cpuMs = 0
  #saidAt = performance.now()
  readonly #say: (text: string) => void

  constructor(say: (text: string) => void) {
    this.#say = say
  }

  add({ operations, simulatedMs, cpuMs, failed }: Figures): void {
    this.runs++
    if (failed) this.failed++
    this.#operations += operations
    this.#simulatedMs += simulatedMs
    this.#cpuMs += cpuMs
    if (performance.now() - this.#saidAt < everyMs) return
    this.end()
    this.#saidAt = performance.now()
  }

  end(): void {
    const seconds = this.#cpuMs / 1000
    const hours = this.#simulatedMs / 3_600_000
    const failed = this.failed === 0 ? '' : ` (${this.failed} failed)`
    this.#say(
      `${this.runs} seeds${failed}, ${this.#operations} operations, ${hours.toFixed(1)} simulated hours in ${seconds.toFixed(0)} s ` +
        `of the processor: ${(this.#operations / seconds).toFixed(0)} operations and ${(hours / seconds).toFixed(2)} hours a second`,
    )
  }
}

/** Measures what the process costs, from one lap to the next. */
export class CpuMeter {
  #before = 0

  /** Returns milliseconds of the processor since the last lap, or since the start of the process. */
  lap(): number {
    const { user, system } = process.cpuUsage()
    const now = (user + system) / 1000
    const lap = now - this.#before
    this.#before = now
    return lap
  }
}
