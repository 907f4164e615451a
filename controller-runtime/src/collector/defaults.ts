export const collectorDefaults = Object.freeze({
  /** The server's default. */
  reservedDomain: 'setpoint.dev',
  /** Objects processed concurrently, as in Kubernetes (`--concurrent-gc-syncs`): one or two requests each. */
  concurrency: 20,
  /** Longest back-off of failed work. */
  backoffMaxMs: 60_000,
  /**
   * Failures because the server is away log a warning once the back-off reaches this, after about ten seconds. There
   * may be thousands of dependents.
   */
  awayDelayMs: 5_000,
  /** Timeout of one piece of work: twice the timeout of most HTTP clients. */
  timeoutMs: 60_000,
  /** How long deletions wait for a kind that does not respond: long enough for a plugin to start. */
  silenceMs: 60_000,
  /** Time between two checks for orphan records that are no longer needed. */
  recordsMs: 60_000,
  /** Attempts at an object with conflicting writers, before it is requeued. */
  attempts: 5,
  /** Pause before the kind source is followed again after an error. */
  restartMs: 1_000,
})

/** Totals of a collector since its start. */
export interface CollectorCounts {
  /** Dependents deleted because no owner is left. */
  deleted: number
  /** Dependents that were kept but lost references. */
  released: number
  /** Completed deletions in the foreground or with orphans. */
  ended: number
  /** Failed pieces of work, which are retried. */
  failed: number
}
