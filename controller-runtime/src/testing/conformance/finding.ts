/** What a scenario found. */
export class Finding extends Error {
  override readonly name = 'Finding'
  /** What the reconciler did wrong; follows a disturbance, as in "after a crash, it created a second part". */
  readonly deed: string

  /** @param details the difference, in the words of the API */
  constructor(deed: string, details: string = deed, options?: ErrorOptions) {
    super(details, options)
    this.deed = deed
  }
}

/** Returns what an error says about the reconciler. */
export function deedOf(error: unknown): string {
  if (error instanceof Finding) return error.deed
  return `it failed with ${error instanceof Error ? `${error.name}: ${error.message.split('\n')[0]}` : String(error)}`
}
