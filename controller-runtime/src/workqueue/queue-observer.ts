/** Observes a queue, for metrics. Called for every key, so it must be cheap. */
export interface WorkQueueObserver {
  /** A key that was not in the queue was added. */
  added(): void
  /** A key was added with a delay, by a retry or otherwise. */
  retried(): void
  /** A key was returned by `get`, `waitedMs` after it became ready. */
  handedOut(waitedMs: number): void
  /** A key was marked as done, `workedMs` after `get`. */
  done(workedMs: number): void
}
