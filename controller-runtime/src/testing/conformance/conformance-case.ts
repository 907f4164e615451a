/** One guarantee, to be registered as a test. */
export interface ConformanceCase {
  /** A sentence that states the guarantee. */
  readonly name: string
  /** Takes some seconds. @throws ConformanceError with the disturbance and the difference. */
  run(): Promise<void>
}
