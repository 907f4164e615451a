import type { Logger } from '../../logger.ts'

/** Number of lines kept. */
const keptLines = 5

interface Line {
  /** Identifies repetitions. */
  readonly what: string
  text: string
  times: number
}

/** Hears what the report of a failure needs besides the lines. */
interface LogListener {
  /** Receives each logged error. */
  onError(error: string): void
  /** Receives each warning. */
  onWarning(message: string): void
}

/** Keeps the latest warnings and errors, for the report of a failure. Repetitions are one line. */
export class RecentLog implements Logger {
  readonly #lines: Line[]
  readonly #fields: object
  readonly #hears: LogListener

  constructor(hears: LogListener, lines: Line[] = [], fields: object = {}) {
    this.#hears = hears
    this.#lines = lines
    this.#fields = fields
  }

  get lines(): readonly string[] {
    return this.#lines.map(({ text, times }) => (times > 1 ? `${text} (the last of ${times})` : text))
  }

  debug(): void {}

  info(): void {}

  warn(fields: object, message: string): void {
    this.#keep('warning', fields, message)
    this.#hears.onWarning(message)
  }

  error(fields: object, message: string): void {
    this.#keep('error', fields, message)
  }

  child(fields: object): Logger {
    return new RecentLog(this.#hears, this.#lines, { ...this.#fields, ...fields })
  }

  #keep(level: string, fields: object, message: string): void {
    const { err, ...rest }: { err?: unknown; error?: unknown } = { ...this.#fields, ...fields }
    if (err instanceof Error) this.#hears.onError(err.message)
    else if (typeof rest.error === 'string') this.#hears.onError(rest.error)
    const why = err instanceof Error ? `: ${err.name}: ${err.message}` : ''
    const what = `${level}: ${message}${why}`
    const text = `${what} ${JSON.stringify(rest)}`
    const known = this.#lines.find(line => line.what === what)
    if (known === undefined) {
      this.#lines.push({ what, text, times: 1 })
      if (this.#lines.length > keptLines) this.#lines.shift()
    } else {
      known.text = text
      known.times++
    }
  }
}
