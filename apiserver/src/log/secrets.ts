import { isRecord } from '@setpoint/controller-runtime/api'

export const secretsDefaults = Object.freeze({
  /** Characters of the shortest secret that is looked for: shorter ones are parts of ordinary words. */
  minLength: 4,
})

const replacement = '[secret]'

/** Values that no line of the log contains, whoever logs it. */
export class Secrets {
  /** As they are, and as in a text of JSON. The longest first, because a secret may be a part of another. */
  #values: readonly string[] = []
  /** All of these as in a line of JSON. */
  #escaped: readonly string[] = []

  add(value: string): void {
    if (value.length < secretsDefaults.minLength || this.#values.includes(value)) return
    const values = new Set([...this.#values, value, escaped(value)])
    this.#values = [...values].sort((a, b) => b.length - a.length)
    this.#escaped = this.#values.map(escaped)
  }

  /** Replaces every secret in a text. */
  redact(text: string): string {
    let redacted = text
    for (const value of this.#values) redacted = redacted.replaceAll(value, replacement)
    return redacted
  }

  /** Replaces every secret in the strings and numbers of a line of JSON. */
  redactLine(line: string): string {
    for (const value of this.#escaped) {
      if (line.includes(value)) return `${JSON.stringify(this.#redactValue(JSON.parse(line)))}\n`
    }
    return line
  }

  #redactValue(value: unknown): unknown {
    if (typeof value === 'string') return this.redact(value)
    if (typeof value === 'number') return this.#values.includes(String(value)) ? replacement : value
    if (Array.isArray(value)) return value.map(each => this.#redactValue(each))
    if (!isRecord(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [this.redact(name), this.#redactValue(each)]),
    )
  }
}

/** Returns a text as it is within a string of JSON. */
function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/** The secrets of this process. */
export const secrets = new Secrets()
