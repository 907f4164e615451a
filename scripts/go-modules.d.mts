/** A module of Go. */
export interface GoModule {
  /** The path and the version, such as `example.com/module@v1.2.3`. */
  readonly module: string
  /** The checksum, as in `go.sum`. */
  readonly sum: string
}

/**
 * Returns the folder of a module's files, which are read-only. @throws Error that says what to install, if it cannot be fetched
 */
export function findGoModule(source: GoModule): Promise<string>
