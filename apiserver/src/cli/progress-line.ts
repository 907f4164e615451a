import { type Clock, systemClock } from '@setpoint/controller-runtime/internal'

export const progressDefaults = Object.freeze({
  /** Milliseconds between two updates of a terminal. */
  terminalMs: 200,
  /** The same elsewhere, where each update is a line of its own: for logs of long work. */
  linesMs: 10_000,
})

type Output = Pick<NodeJS.WriteStream, 'write' | 'isTTY'>

/**
 * Says on standard error how far a command has come: on a terminal in one line that changes, elsewhere now and then.
 */
export class ProgressLine {
  readonly #output: Output
  readonly #clock: Clock
  #shownAt: number
  #isShown = false

  constructor(output: Output = process.stderr, clock: Clock = systemClock) {
    this.#output = output
    this.#clock = clock
    this.#shownAt = clock.monotonic()
  }

  /** Shows a text, unless another one was shown just before. @param make makes the text, only if it is shown */
  show(make: () => string): void {
    const { terminalMs, linesMs } = progressDefaults
    const now = this.#clock.monotonic()
    if (now - this.#shownAt < (this.#output.isTTY ? terminalMs : linesMs)) return
    this.#shownAt = now
    this.#isShown = this.#output.isTTY
    const text = make()
    this.#output.write(this.#output.isTTY ? `\r\x1b[K${text}` : `${text}\n`)
  }

  /** Removes the line from a terminal, before anything else is printed. */
  clear(): void {
    if (this.#isShown) this.#output.write('\r\x1b[K')
    this.#isShown = false
  }
}

/** Returns a number for people, with commas: `1,204 objects`. @param plural for other nouns than `<one>s` */
export function countOf(count: number, one: string, plural = `${one}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? one : plural}`
}
