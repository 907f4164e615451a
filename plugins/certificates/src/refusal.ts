/**
 * Nothing can be issued until something changes. Conditions repeat the reason, a stable word, and the message. It is
 * not retried: a watch reports the change, unless it comes with the time.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly reason: string
  /** When it ends by itself, in ms; undefined if an object has to change. */
  readonly until: number | undefined

  constructor(reason: string, message: string, until?: number) {
    super(message)
    this.reason = reason
    this.until = until
  }
}
