import { isApiError } from '../api/errors.ts'
import { failureFields } from '../client/server-away.ts'
import type { Clock } from '../clock.ts'
import type { ControllerRecorder } from '../metrics/index.ts'
import type { WorkQueue } from '../workqueue/work-queue.ts'
import { controllerDefaults } from './builder.ts'
import { TerminalError } from './reconcile.ts'
import type { ReconcileReport, ResultFanOut } from './results.ts'
import type { Run } from './run.ts'

/** What a controller has done since its start. */
export interface ControllerCounts {
  /** Runs that succeeded. */
  readonly succeeded: number
  /** Runs that threw, rejected or took too long. */
  readonly failed: number
  /** Of those that failed: took too long. */
  readonly timedOut: number
  /** Runs put off because a cache did not show the controller's own last write in time. */
  readonly stale: number
}

/** How a run ended that a reconcile had a part in. */
type ReconciledOutcome =
  | { readonly kind: 'done'; readonly requeueAfterMs: number | undefined }
  | { readonly kind: 'stale'; readonly error: unknown }
  | { readonly kind: 'fenced'; readonly error: unknown }
  | { readonly kind: 'failed'; readonly error: unknown }

/** How a run ended. */
export type Outcome =
  | ReconciledOutcome
  /** The object is gone. */
  | { readonly kind: 'gone' }
  /** Cut off because the controller stands by: whatever starts it again looks at everything anew. */
  | { readonly kind: 'interrupted' }

export interface SettlementOptions {
  readonly queue: WorkQueue
  readonly clock: Clock
  readonly recorder: ControllerRecorder
  readonly results: ResultFanOut
}

/**
 * What follows from the end of a run: when its object is due again, and who is told.
 *
 *     done         forget the failures; again after `requeueAfterMs`
 *     failed       again after the back-off; not again after a TerminalError, or the last attempt
 *     stale        again after a second; no failure
 *     fenced       again after a second; no failure
 *     gone         forget the failures
 *     interrupted  forget the failures
 */
export class Settlement {
  readonly #queue: WorkQueue
  readonly #clock: Clock
  readonly #recorder: ControllerRecorder
  readonly #results: ResultFanOut
  readonly #counts = { succeeded: 0, failed: 0, timedOut: 0, stale: 0 }

  constructor({ queue, clock, recorder, results }: SettlementOptions) {
    this.#queue = queue
    this.#clock = clock
    this.#recorder = recorder
    this.#results = results
  }

  get counts(): ControllerCounts {
    return { ...this.#counts }
  }

  /** A run has exceeded its time, and goes on. */
  overdue(): void {
    this.#counts.timedOut++
    this.#recorder.timeouts++
  }

  /** Decides when the object is due again, and only then gives it back. Answers the result in a word. */
  settle(run: Run, outcome: Outcome): string {
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
    if (this.#results.isHeard) {
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

  /** Adds the object where it is due of itself; answers in how many ms. */
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
        run.log.warn(
          { error: String(outcome.error) },
          'a cache does not show the last write yet; trying again',
        )
        return this.#requeue(run, controllerDefaults.staleCacheRequeueMs)
      case 'fenced':
        this.#recorder.reconciled('requeue', durationMs)
        run.log.warn(
          { error: String(outcome.error) },
          'this process may not act as the leader; the run is put off',
        )
        return this.#requeue(run, controllerDefaults.fencedRequeueMs)
      case 'failed':
        this.#counts.failed++
        this.#recorder.reconciled('error', durationMs)
        if (isFaultOfProgram(outcome.error)) this.#recorder.panics++
        return this.#retry(run, outcome.error)
    }
  }

  #requeue({ item: { key, priority } }: Run, delayMs: number): number {
    this.#queue.addAfter(key, delayMs, { priority, reason: 'requeue' })
    return delayMs
  }

  /** Adds the object with its back-off, unless trying again is of no use. */
  #retry(run: Run, error: unknown): number | undefined {
    const { key, priority } = run.item
    if (this.#queue.isShutDown) return undefined
    if (error instanceof TerminalError) {
      this.#recorder.terminalErrors++
      run.log.error({ err: error }, 'failed for good; not tried again before the object changes')
      return undefined
    }
    if (run.isLastAttempt) {
      this.#queue.forget(key)
      run.log.error(failureFields(error), 'failed too often; not tried again before the object changes')
      return undefined
    }
    const retryAfterSeconds = isApiError(error) ? error.details?.retryAfterSeconds : undefined
    const delayMs = this.#queue.addRateLimited(key, {
      priority,
      reason: 'retry',
      ...(retryAfterSeconds !== undefined && { atLeastMs: retryAfterSeconds * 1000 }),
    })
    // Someone else was faster: the newer state comes with its event, and that is the ordinary course of things.
    if (isApiError(error, 'Conflict')) run.log.debug({ err: error, delayMs }, 'conflict; trying again')
    else run.log.warn({ ...failureFields(error), delayMs }, 'failed; trying again')
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

/** What would be a panic in Go. `fetch` reports a network that is away as a TypeError, but one with a cause. */
function isFaultOfProgram(error: unknown): boolean {
  if (!(error instanceof Error)) return true
  return (
    (error instanceof TypeError && error.cause === undefined) ||
    error instanceof ReferenceError ||
    error instanceof RangeError ||
    error instanceof SyntaxError
  )
}
