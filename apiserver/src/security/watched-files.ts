import type { Logger } from '../log/index.ts'
import { FileWatch, type FileWatchOptions } from './file-watch.ts'

/** The reloads of a setting's files, for metrics. */
export interface FileReloads {
  /** The flag that names the file, or the first of several that are used together. */
  readonly file: string
  readonly reloads: number
  readonly failures: number
  /** Seconds since the files could last be read and used; 0 if they can. */
  readonly failingSeconds: number
}

/** The files of this process that are reloaded when they change. */
export class WatchedFiles {
  readonly #watches = new Map<string, FileWatch>()
  readonly #log: Logger

  constructor(log: Logger) {
    this.#log = log
  }

  /**
   * Reloads the files of a setting until `close`, and logs when they can be used again after a failure, so that the
   * failure is not the last that the log says of them.
   * @param file the flag that names them
   */
  follow(file: string, options: FileWatchOptions): void {
    const recovered = () => {
      options.recovered?.()
      this.#log.info({ paths: options.paths }, `loaded the files of --${file} after a failure`)
    }
    this.#watches.set(file, new FileWatch({ ...options, recovered }))
  }

  /** Returns the reloads of each setting. */
  reloads(): FileReloads[] {
    return Array.from(this.#watches, ([file, { reloads, failures, failingMs }]) => ({
      file,
      reloads,
      failures,
      failingSeconds: failingMs / 1000,
    }))
  }

  close(): void {
    for (const watch of this.#watches.values()) watch.close()
  }
}
