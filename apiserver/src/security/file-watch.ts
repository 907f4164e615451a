import { readFile } from 'node:fs/promises'

export const fileWatchDefaults = Object.freeze({
  /** Milliseconds between two looks at files that may change while the server runs. */
  intervalMs: 2_000,
})

/**
 * Looks at small files from time to time and calls back when what stands in them has changed. Reading them is surer than
 * being told: Kubernetes puts a new version of a Secret in place by moving a symbolic link two folders up.
 */
export class FileWatch {
  readonly #paths: readonly string[]
  readonly #changed: (texts: readonly string[]) => void
  readonly #failed: (error: unknown) => void
  readonly #timer: NodeJS.Timeout
  #known: readonly string[]
  #isReading = false
  #lastFailure: string | undefined

  /** `known` is what is in force, in the order of `paths`. `failed` is called once for each new reason. */
  constructor(options: {
    paths: readonly string[]
    known: readonly string[]
    changed: (texts: readonly string[]) => void
    failed: (error: unknown) => void
    intervalMs?: number
  }) {
    this.#paths = options.paths
    this.#known = options.known
    this.#changed = options.changed
    this.#failed = options.failed
    this.#timer = setInterval(() => void this.#look(), options.intervalMs ?? fileWatchDefaults.intervalMs)
    this.#timer.unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    try {
      const texts = await Promise.all(this.#paths.map(path => readFile(path, 'utf8')))
      this.#lastFailure = undefined
      if (texts.every((text, at) => text === this.#known[at])) return
      this.#known = texts
      this.#changed(texts)
    } catch (error) {
      const failure = String(error)
      if (failure !== this.#lastFailure) this.#failed(error)
      this.#lastFailure = failure
    } finally {
      this.#isReading = false
    }
  }
}
