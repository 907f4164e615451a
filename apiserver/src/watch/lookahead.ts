import type { Entry } from '../cache/index.ts'

/**
 * Entries of an iterator, some of which may be looked at before they are taken. A number stands for work that was done.
 */
export class Lookahead {
  readonly #values: Iterator<Entry | number>
  readonly #ahead: (Entry | number)[] = []

  constructor(values: Iterator<Entry | number>) {
    this.#values = values
  }

  /** Returns the next value, or undefined at the end. */
  peek(): Entry | number | undefined {
    return this.#ahead[0] ?? this.#look()
  }

  /** Takes the value that `peek` has returned. */
  take(): void {
    this.#ahead.shift()
  }

  /** Returns the next entries, which have so many bytes or a little more. */
  upcoming(bytes: number): Entry[] {
    const entries = () => this.#ahead.filter(value => typeof value !== 'number')
    let left = entries().reduce((rest, entry) => rest - entry.bytes.length, bytes)
    while (left > 0) {
      const value = this.#look()
      if (value === undefined) break
      left -= typeof value === 'number' ? 0 : value.bytes.length
    }
    return entries()
  }

  #look(): Entry | number | undefined {
    const { done, value } = this.#values.next()
    if (done) return undefined
    this.#ahead.push(value)
    return value
  }
}
