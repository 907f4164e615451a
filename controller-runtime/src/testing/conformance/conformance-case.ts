/** One guarantee, to be registered as a test. */
export interface ConformanceCase {
  /** The guarantee, as a sentence. */
  readonly name: string
  /** Takes some seconds. @throws ConformanceError saying what was done to the reconciler, and what differed. */
  run(): Promise<void>
}
