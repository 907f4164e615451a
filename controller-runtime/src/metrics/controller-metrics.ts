import type { Registry } from 'prom-client'
import { type ControllerRecorder, type QueueRecorder, reconcileResults } from './controller-recorder.ts'
import { type Observations, ObservedHistogram } from './histogram.ts'
import { RunnableMetrics } from './runnable-metrics.ts'
import { ScrapedMetrics } from './scraped-metrics.ts'

export const metricsDefaults = Object.freeze({
  /** Distinct priorities of a queue with a series of their own; the others share one. As in controller-runtime. */
  priorities: 25,
})

/** Read from a work queue at each scrape; a `WorkQueue` provides it. */
export interface QueueStatus {
  /** Number of ready keys by priority. */
  depths(): ReadonlyMap<number, number>
  /** How long each key in process has been so, in ms. */
  workingMs(): Iterable<number>
}

/** Read from a controller at each scrape. */
export interface ControllerStatus extends QueueStatus {
  readonly maxConcurrent: number
  /** Number of busy workers. */
  active(): number
}

interface Entry<R, S> {
  readonly recorder: R
  readonly status: S
}

/**
 * The metrics of all controllers of a process, in a given registry.
 *
 * Names, labels and buckets are those of controller-runtime (`controller_runtime_*`) and client-go (`workqueue_*`).
 * Every result has a series from the start. A controller has series from `add` to `remove`.
 */
export class ControllerMetrics {
  /** The registry, for further metrics. */
  readonly registry: Registry
  readonly runnables: RunnableMetrics
  readonly #entries = new Map<string, Entry<ControllerRecorder, ControllerStatus>>()
  /** The queues of the controllers, and others. */
  readonly #queues = new Map<string, Entry<QueueRecorder, QueueStatus>>()

  /** @throws Error if the registry already has metrics of these names. */
  constructor(registry: Registry) {
    this.registry = registry
    this.runnables = new RunnableMetrics(registry)
    this.#describeReconciles(registry)
    this.#describeQueues(registry)
  }

  /** Adds a controller, or replaces the one of the same name. */
  add(controller: string, recorder: ControllerRecorder, status: ControllerStatus): void {
    this.#entries.set(controller, { recorder, status })
    this.addQueue(controller, recorder, status)
  }

  /** Removes a controller, unless another one has replaced it. */
  remove(controller: string, recorder: ControllerRecorder): void {
    if (this.#entries.get(controller)?.recorder === recorder) this.#entries.delete(controller)
    this.removeQueue(controller, recorder)
  }

  /** Adds a queue that belongs to no controller, or replaces the one of the same name. */
  addQueue(name: string, recorder: QueueRecorder, status: QueueStatus): void {
    this.#queues.set(name, { recorder, status })
  }

  /** Removes a queue, unless another one has replaced it. */
  removeQueue(name: string, recorder: QueueRecorder): void {
    if (this.#queues.get(name)?.recorder === recorder) this.#queues.delete(name)
  }

  #describeReconciles(registry: Registry): void {
    const registers = [registry]
    const scraped = new ScrapedMetrics(registry)
    const entries = this.#entries
    scraped.counter(
      'controller_runtime_reconcile_total',
      'Total number of reconciliations per controller and result.',
      ['controller', 'result'],
      function* () {
        for (const [controller, { recorder }] of entries)
          for (const result of reconcileResults) yield [recorder.reconciles[result], controller, result]
      },
    )
    const counters: readonly [
      name: string,
      help: string,
      countOf: (recorder: ControllerRecorder) => number,
    ][] = [
      [
        'reconcile_errors_total',
        'Total number of reconciliation errors per controller.',
        recorder => recorder.reconciles.error,
      ],
      [
        'terminal_reconcile_errors_total',
        'Total number of terminal reconciliation errors per controller.',
        recorder => recorder.terminalErrors,
      ],
      [
        'reconcile_panics_total',
        'Total number of reconciliations that failed with a programming error.',
        recorder => recorder.panics,
      ],
      [
        'reconcile_timeouts_total',
        'Total number of reconciliations that timed out per controller.',
        recorder => recorder.timeouts,
      ],
      [
        'stale_reads_waited_total',
        "Total number of reads that waited for a cache to show the controller's own writes.",
        recorder => recorder.staleReadsWaited,
      ],
      [
        'stale_reads_timed_out_total',
        "Total number of reads that failed because a cache did not show the controller's own writes in time.",
        recorder => recorder.staleReadsTimedOut,
      ],
    ]
    for (const [name, help, countOf] of counters) {
      scraped.counter(`controller_runtime_${name}`, help, ['controller'], () =>
        Array.from(entries, ([controller, { recorder }]) => [countOf(recorder), controller]),
      )
    }
    new ObservedHistogram(
      {
        name: 'controller_runtime_reconcile_time_seconds',
        help: 'Length of time per reconciliation per controller, in seconds.',
        labelNames: ['controller'],
        registers,
      },
      () =>
        [...this.#entries].map(([controller, { recorder }]) => [{ controller }, recorder.reconcileSeconds]),
    )
    scraped.gauge(
      'controller_runtime_max_concurrent_reconciles',
      'Maximum number of concurrent reconciles per controller.',
      ['controller'],
      () => Array.from(entries, ([controller, { status }]) => [status.maxConcurrent, controller]),
    )
    scraped.gauge(
      'controller_runtime_active_workers',
      'Number of currently used workers per controller.',
      ['controller'],
      () => Array.from(entries, ([controller, { status }]) => [status.active(), controller]),
    )
  }

  #describeQueues(registry: Registry): void {
    const registers = [registry]
    const scraped = new ScrapedMetrics(registry)
    const queues = this.#queues
    const labelNames = ['name', 'controller'] as const
    scraped.gauge(
      'workqueue_depth',
      'Current depth of a work queue by priority.',
      [...labelNames, 'priority'],
      function* () {
        for (const [name, { status }] of queues) {
          const depths = [...status.depths()].sort(([left], [right]) => right - left)
          yield [0, name, name, '0']
          for (const [at, [number, depth]] of depths.entries()) {
            const priority = at < metricsDefaults.priorities ? String(number) : 'exceeded_cardinality_limit'
            yield [depth, name, name, priority]
          }
        }
      },
    )
    scraped.counter('workqueue_adds_total', 'Total number of adds handled by a work queue.', labelNames, () =>
      Array.from(queues, ([name, { recorder }]) => [recorder.adds, name, name]),
    )
    scraped.counter(
      'workqueue_retries_total',
      'Total number of delayed adds handled by a work queue.',
      labelNames,
      () => Array.from(queues, ([name, { recorder }]) => [recorder.retries, name, name]),
    )
    new ObservedHistogram(
      {
        name: 'workqueue_queue_duration_seconds',
        help: 'How long in seconds a key is ready in a work queue before being taken.',
        labelNames,
        registers,
      },
      () => this.#observations(({ queueSeconds }) => queueSeconds),
    )
    new ObservedHistogram(
      {
        name: 'workqueue_work_duration_seconds',
        help: 'How long in seconds processing a key from a work queue takes.',
        labelNames,
        registers,
      },
      () => this.#observations(({ workSeconds }) => workSeconds),
    )
    scraped.gauge(
      'workqueue_unfinished_work_seconds',
      'How many seconds of work are in progress and not yet observed by work_duration.',
      labelNames,
      function* () {
        for (const [name, { status }] of queues) {
          let sumMs = 0
          for (const ms of status.workingMs()) sumMs += ms
          yield [sumMs / 1000, name, name]
        }
      },
    )
    scraped.gauge(
      'workqueue_longest_running_processor_seconds',
      'How many seconds the longest running processor of a work queue has been running.',
      labelNames,
      () =>
        Array.from(queues, ([name, { status }]) => [Math.max(0, ...status.workingMs()) / 1000, name, name]),
    )
  }

  *#observations(observationsOf: (recorder: QueueRecorder) => Observations) {
    for (const [name, { recorder }] of this.#queues) {
      yield [{ name, controller: name }, observationsOf(recorder)] as const
    }
  }
}
