/** One guarantee, to be registered as a test. */
export interface ConformanceCase {
  /** A sentence that states the guarantee. */
  readonly name: string
  /** Takes at most `deadlineMs`. @throws ConformanceError if the reconciler violates the guarantee. */
  run(): Promise<void>
}
