import { isRecord } from '@setpoint/controller-runtime/api'

export const secretsDefaults = Object.freeze({
  /** Characters of the shortest secret that is looked for: shorter ones are parts of ordinary words. */
  minLength: 4,
})

const replacement = '[secret]'

/** Values that no line of the log contains, whoever logs it. */
export class Secrets {
  readonly #values = new Set<string>()
  /** As in a line of JSON. */
  readonly #escaped = new Set<string>()

  add(value: string): void {
    if (value.length < secretsDefaults.minLength) return
    this.#values.add(value)
    this.#escaped.add(JSON.stringify(value).slice(1, -1))
  }

  /** Replaces every secret in a text. */
  redact(text: string): string {
    let redacted = text
    for (const value of this.#values) redacted = redacted.replaceAll(value, replacement)
    return redacted
  }

  /** Replaces every secret in the strings of a line of JSON. */
  redactLine(line: string): string {
    for (const value of this.#escaped) {
      if (line.includes(value)) return `${JSON.stringify(this.#redactValue(JSON.parse(line)))}\n`
    }
    return line
  }

  #redactValue(value: unknown): unknown {
    if (typeof value === 'string') return this.redact(value)
    if (Array.isArray(value)) return value.map(each => this.#redactValue(each))
    if (!isRecord(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [this.redact(name), this.#redactValue(each)]),
    )
  }
}

/** The secrets of this process. */
export const secrets = new Secrets()
