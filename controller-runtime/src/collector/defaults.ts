/** Numbers that the collector works with. */
export const collectorDefaults = Object.freeze({
  /** As the program's default. */
  reservedDomain: 'setpoint.dev',
  /** Objects worked on at once, as in Kubernetes (`--concurrent-gc-syncs`): each is a request or two under way. */
  concurrency: 20,
  /** Longest pause before something that failed is tried again: what could not be asked may be back by then. */
  backoffMaxMs: 60_000,
  /**
   * A server that is away or starting is worth a warning once the pause has grown to this, after some ten seconds:
   * there may be thousands of dependents, and each would warn of it at each attempt.
   */
  awayDelayMs: 5_000,
  /** How long one piece of work may take before its requests are given up: twice the patience of most HTTP clients. */
  timeoutMs: 60_000,
  /**
   * How long deletions that wait for dependents wait for a kind that does not answer: until what is merely starting has
   * started, and not for ever for a plugin that has failed.
   */
  silenceMs: 60_000,
  /** Between two looks whether the records of owners that left orphans behind are needed no longer. */
  recordsMs: 60_000,
  /** Attempts at one object that others keep changing, before it goes back into the queue. */
  attempts: 5,
  /** Pause before the kinds are followed anew after a fault of their source. */
  restartMs: 1_000,
})

/** What a collector has done since its start. */
export interface CollectorCounts {
  /** Dependents that were deleted because no owner is left. */
  deleted: number
  /** Dependents that lost references and stay. */
  released: number
  /** Objects whose foreground deletion, or deletion with orphans, was ended. */
  ended: number
  /** Pieces of work that failed and were put off. */
  failed: number
}
