/** What happened, line by line, and a digest of all lines. */
export class Trace {
  readonly #isWhole: boolean
  readonly #lines: string[] = []
  #count = 0
  #counted = 0
  #high = 0x811c9dc5
  #low = 0x9e3779b1

  /** @param isWhole keeps all lines instead of the last ones */
  constructor(isWhole: boolean) {
    this.#isWhole = isWhole
  }

  get lines(): readonly string[] {
    if (this.#isWhole || this.#count <= traceDefaults.lines) return this.#lines
    const at = this.#count % traceDefaults.lines
    return [...this.#lines.slice(at), ...this.#lines.slice(0, at)]
  }

  get digest(): string {
    return [this.#high, this.#low, this.#counted].map(each => (each >>> 0).toString(16)).join('-')
  }

  add(line: string): void {
    for (let at = 0; at < line.length; at++) {
      const code = line.charCodeAt(at)
      this.#high = Math.imul(this.#high ^ code, 0x01000193)
      this.#low = Math.imul(this.#low ^ (code + at), 0x85ebca6b)
    }
    this.#counted++
    this.note(line)
  }

  /** Adds a line that does not count for the digest. */
  note(line: string): void {
    if (this.#isWhole) this.#lines.push(line)
    else this.#lines[this.#count % traceDefaults.lines] = line
    this.#count++
  }
}

export const traceDefaults = Object.freeze({
  /** Lines that are kept unless all are. */
  lines: 1_000,
})
