import type { WorkQueueObserver } from '../workqueue/queue-observer.ts'
import { Observations } from './histogram.ts'

export const reconcileResults = ['success', 'error', 'requeue', 'requeue_after'] as const
/** The result of a run, as the label `result` of `controller_runtime_reconcile_total`. */
export type ReconcileResultLabel = (typeof reconcileResults)[number]

/** Buckets of controller-runtime, in seconds. */
const reconcileBounds = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5,
  1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60,
]

/** Buckets of client-go, in seconds: 12 powers of ten from 10 ns. */
const queueBounds = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000]

/** Counters of one work queue, as plain numbers. */
export class QueueRecorder implements WorkQueueObserver {
  adds = 0
  retries = 0
  readonly queueSeconds = new Observations(queueBounds)
  readonly workSeconds = new Observations(queueBounds)

  added(): void {
    this.adds++
  }

  retried(): void {
    this.retries++
  }

  handedOut(waitedMs: number): void {
    this.queueSeconds.observe(waitedMs / 1000)
  }

  done(workedMs: number): void {
    this.workSeconds.observe(workedMs / 1000)
  }
}

/** Counters of one controller and its queue, as plain numbers. */
export class ControllerRecorder extends QueueRecorder {
  readonly reconciles: Record<ReconcileResultLabel, number> = {
    success: 0,
    error: 0,
    requeue: 0,
    requeue_after: 0,
  }
  terminalErrors = 0
  panics = 0
  timeouts = 0
  staleReadsWaited = 0
  staleReadsTimedOut = 0
  readonly reconcileSeconds = new Observations(reconcileBounds)

  reconciled(result: ReconcileResultLabel, durationMs: number): void {
    this.reconciles[result]++
    this.reconcileSeconds.observe(durationMs / 1000)
  }
}
