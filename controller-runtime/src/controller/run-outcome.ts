import { isApiError } from '../api/errors.ts'
import { failureFields, retryAfterMs } from '../client/server-away.ts'
import type { Clock } from '../clock.ts'
import type { ControllerRecorder } from '../metrics/index.ts'
import type { WorkQueue } from '../workqueue/work-queue.ts'
import { controllerDefaults } from './builder.ts'
import { TerminalError } from './reconcile.ts'
import type { ReconcileReport, ResultFanOut } from './results.ts'
import type { Run } from './run.ts'

export const outcomeDefaults = Object.freeze({
  /** Failures in a row of which one is logged as a warning if they are Conflicts. */
  conflicts: 10,
})

/** Totals of a controller since its start. */
export interface ControllerCounts {
  /** Runs that succeeded. */
  readonly succeeded: number
  /** Runs that threw, rejected or timed out. */
  readonly failed: number
  /** Runs that timed out; included in `failed`. */
  readonly timedOut: number
  /** Runs postponed because a cache did not show the controller's own last write in time. */
  readonly stale: number
}

/** Outcomes of a run that reached the reconciler. */
type ReconciledOutcome =
  | { readonly kind: 'done'; readonly requeueAfterMs: number | undefined }
  | { readonly kind: 'stale'; readonly error: unknown }
  | { readonly kind: 'notLeader'; readonly error: unknown }
  | { readonly kind: 'failed'; readonly error: unknown }

/** The outcome of a run. */
export type Outcome =
  | ReconciledOutcome
  /** The object does not exist. */
  | { readonly kind: 'gone' }
  /** Aborted because the controller went to standby; the next start reconciles everything. */
  | { readonly kind: 'interrupted' }

interface OutcomeHandlerOptions {
  readonly queue: WorkQueue
  readonly clock: Clock
  readonly recorder: ControllerRecorder
  readonly results: ResultFanOut
}

/**
 * Handles the outcome of a run: requeues the object and updates metrics and reports.
 *
 *     done         resets the back-off; requeues after `requeueAfterMs`
 *     failed       requeues with back-off, except after a TerminalError or the last attempt
 *     stale        requeues after a second, not counted as a failure
 *     notLeader    requeues after a second, not counted as a failure
 *     gone         resets the back-off
 *     interrupted  resets the back-off
 */
export class OutcomeHandler {
  readonly #queue: WorkQueue
  readonly #clock: Clock
  readonly #recorder: ControllerRecorder
  readonly #results: ResultFanOut
  readonly #counts = { succeeded: 0, failed: 0, timedOut: 0, stale: 0 }

  constructor({ queue, clock, recorder, results }: OutcomeHandlerOptions) {
    this.#queue = queue
    this.#clock = clock
    this.#recorder = recorder
    this.#results = results
  }

  get counts(): ControllerCounts {
    return { ...this.#counts }
  }

  /** Counts a run that has exceeded its timeout but has not settled. */
  overdue(): void {
    this.#counts.timedOut++
    this.#recorder.timeouts++
  }

  /** Requeues the object if needed, then marks it as done. Returns the outcome as a label. */
  handle(run: Run, outcome: Outcome): string {
    const { key } = run.item
    if (outcome.kind === 'gone' || outcome.kind === 'interrupted') {
      this.#queue.forget(key)
      this.#queue.done(key)
      return outcome.kind
    }
    const durationMs = this.#clock.monotonic() - run.beganAt
    const nextRunInMs = this.#decide(run, outcome, durationMs)
    this.#queue.done(key)
    const result = resultOf(outcome)
    if (this.#results.hasReaders) {
      this.#results.push({
        object: key,
        outcome: result,
        attempt: run.attempt,
        reconcileId: run.reconcileId,
        durationMs,
        nextRunInMs,
        error: outcome.kind === 'done' ? undefined : outcome.error,
      })
    }
    return result
  }

  /** Returns the delay in ms until the object is requeued, or undefined. */
  #decide(run: Run, outcome: ReconciledOutcome, durationMs: number): number | undefined {
    switch (outcome.kind) {
      case 'done': {
        const { requeueAfterMs } = outcome
        this.#counts.succeeded++
        this.#queue.forget(run.item.key)
        this.#recorder.reconciled(requeueAfterMs === undefined ? 'success' : 'requeue_after', durationMs)
        return requeueAfterMs === undefined ? undefined : this.#requeue(run, requeueAfterMs)
      }
      case 'stale':
        this.#counts.stale++
        this.#recorder.reconciled('requeue', durationMs)
        run.log.warn({ error: String(outcome.error) }, 'cache does not show the last write yet, requeueing')
        return this.#requeue(run, controllerDefaults.staleCacheRequeueMs)
      case 'notLeader':
        this.#recorder.reconciled('requeue', durationMs)
        run.log.warn({ error: String(outcome.error) }, 'not the leader, requeueing')
        return this.#requeue(run, controllerDefaults.notLeaderRequeueMs)
      case 'failed':
        this.#counts.failed++
        this.#recorder.reconciled('error', durationMs)
        if (isProgrammingError(outcome.error)) this.#recorder.panics++
        return this.#retry(run, outcome.error)
    }
  }

  #requeue({ item: { key, priority } }: Run, delayMs: number): number {
    this.#queue.addAfter(key, delayMs, { priority, reason: 'requeue' })
    return delayMs
  }

  /** Requeues the object with its back-off, unless a retry is useless. */
  #retry(run: Run, error: unknown): number | undefined {
    const { key, priority } = run.item
    if (this.#queue.isShutDown) return undefined
    if (error instanceof TerminalError) {
      this.#recorder.terminalErrors++
      run.log.error({ err: error }, 'reconcile failed with a terminal error, waiting for the next change')
      return undefined
    }
    if (run.isLastAttempt) {
      this.#queue.forget(key)
      run.log.error(
        failureFields(error),
        'reconcile failed after the last attempt, waiting for the next change',
      )
      return undefined
    }
    const delayMs = this.#queue.addRateLimited(key, {
      priority,
      reason: 'retry',
      atLeastMs: retryAfterMs(error),
    })
    // Another writer was faster, which is normal: its event brings the newer state. Not every time, though.
    if (isApiError(error, 'Conflict') && run.attempt % outcomeDefaults.conflicts !== 0)
      run.log.debug({ err: error, delayMs }, 'reconcile conflicted, retrying')
    else run.log.warn({ ...failureFields(error), delayMs }, 'reconcile failed, retrying')
    return delayMs
  }
}

function resultOf(outcome: ReconciledOutcome): ReconcileReport['outcome'] {
  switch (outcome.kind) {
    case 'done':
      return 'success'
    case 'failed':
      return outcome.error instanceof TerminalError ? 'terminalError' : 'error'
    default:
      return outcome.kind
  }
}

/** Errors that would be a panic in Go. `fetch` reports network errors as a TypeError with a cause. */
function isProgrammingError(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  return (
    (error instanceof TypeError && error.cause === undefined) ||
    error instanceof ReferenceError ||
    error instanceof RangeError ||
    error instanceof SyntaxError
  )
}
