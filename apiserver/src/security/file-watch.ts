import { readFile } from 'node:fs/promises'
import { type CancelTimer, type Clock, systemClock } from '@setpoint/controller-runtime/internal'

export const fileWatchDefaults = Object.freeze({
  /** Milliseconds between two reads of the files. */
  intervalMs: 2_000,
  /** Milliseconds between two reports of a lasting failure. */
  repeatMs: 60_000,
})

export interface FileWatchOptions {
  readonly paths: readonly string[]
  /** The contents in use, in the order of `paths`. */
  readonly known: readonly string[]
  /** Uses the new contents, or throws if they are invalid. */
  readonly changed: (texts: readonly string[]) => void
  /** Called for each new failure to read or use the files, and every `repeatMs` while it lasts. */
  readonly failed: (error: unknown, failingMs: number) => void
  /** Called when the files can be used again. */
  readonly recovered?: () => void
  readonly clock?: Clock
}

/**
 * Polls small files and reports changes. File system notifications are less reliable: Kubernetes updates a mounted
 * Secret by replacing a symbolic link two folders up.
 */
export class FileWatch {
  readonly #options: FileWatchOptions
  readonly #clock: Clock
  #known: readonly string[]
  /** Why the contents in `#known` are invalid. */
  #unusable: { readonly error: unknown } | undefined
  #failure: { readonly since: number; text: string; reportedAt: number } | undefined
  #cancel: CancelTimer = () => {}
  #closed = false
  #reloads = 0
  #failures = 0

  constructor(options: FileWatchOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#known = options.known
    this.#schedule()
  }

  /** Milliseconds since the files became unreadable or invalid; 0 if they are valid. */
  get failingMs(): number {
    return this.#failure === undefined ? 0 : this.#clock.monotonic() - this.#failure.since
  }

  /** Changes of the files that were used. */
  get reloads(): number {
    return this.#reloads
  }

  /** Failures that were reported. */
  get failures(): number {
    return this.#failures
  }

  close(): void {
    this.#closed = true
    this.#cancel()
  }

  #schedule(): void {
    if (this.#closed) return
    const look = () => void this.#look().finally(() => this.#schedule())
    this.#cancel = this.#clock.setTimeout(look, fileWatchDefaults.intervalMs, { unref: true })
  }

  async #look(): Promise<void> {
    let texts: string[]
    try {
      texts = await Promise.all(this.#options.paths.map(path => readFile(path, 'utf8')))
    } catch (error) {
      this.#fails(error)
      return
    }
    if (texts.some((text, at) => text !== this.#known[at])) this.#use(texts)
    if (this.#unusable !== undefined) this.#fails(this.#unusable.error)
    else if (this.#failure !== undefined) {
      this.#failure = undefined
      this.#options.recovered?.()
    }
  }

  #use(texts: readonly string[]): void {
    this.#known = texts
    this.#unusable = undefined
    try {
      this.#options.changed(texts)
      this.#reloads++
    } catch (error) {
      this.#unusable = { error }
    }
  }

  #fails(error: unknown): void {
    const now = this.#clock.monotonic()
    const text = String(error)
    this.#failure ??= { since: now, text: '', reportedAt: now }
    const failure = this.#failure
    if (text === failure.text && now - failure.reportedAt < fileWatchDefaults.repeatMs) return
    failure.text = text
    failure.reportedAt = now
    this.#failures++
    this.#options.failed(error, now - failure.since)
  }
}
