import type { Run } from './run-plan.ts'

const everyMs = 10_000

/** Says now and then how far a run of many seeds is, and what it cost. */
export class Progress {
  runs = 0
  #operations = 0
  #simulatedMs = 0
  #saidAt = performance.now()
  readonly #say: (text: string) => void

  constructor(say: (text: string) => void) {
    this.#say = say
  }

  add({ operations, simulatedMs }: Run): void {
    this.runs++
    this.#operations += operations
    this.#simulatedMs += simulatedMs
    if (performance.now() - this.#saidAt < everyMs) return
    this.end()
    this.#saidAt = performance.now()
  }

  end(): void {
    const { user, system } = process.cpuUsage()
    const seconds = (user + system) / 1e6
    const hours = this.#simulatedMs / 3_600_000
    this.#say(
      `${this.runs} seeds, ${this.#operations} operations, ${hours.toFixed(1)} simulated hours in ${seconds.toFixed(0)} s ` +
        `of the processor: ${(this.#operations / seconds).toFixed(0)} operations and ${(hours / seconds).toFixed(2)} hours a second`,
    )
  }
}
