/** Hears what becomes of the keys of a queue, for metrics. What it does costs every key, so it had better be little. */
export interface WorkQueueObserver {
  /** A key came into the queue that was not in it. */
  added(): void
  /** A key was added with a delay, of a retry or otherwise. */
  retried(): void
  /** A key is handed out, `waitedMs` after it became ready. */
  handedOut(waitedMs: number): void
  /** A key was given back, `workedMs` after it was handed out. */
  done(workedMs: number): void
}
