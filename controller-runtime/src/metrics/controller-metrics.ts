import { Counter, Gauge, type Registry } from 'prom-client'
import { type ControllerRecorder, type QueueRecorder, reconcileResults } from './controller-recorder.ts'
import { type Tally, TallyHistogram } from './tally.ts'

/** Buckets of the histograms, as controller-runtime has them. */
export const metricsDefaults = Object.freeze({
  /** Distinct priorities of one queue that are told apart; the rest is one. As in controller-runtime. */
  priorities: 25,
})

/** What is asked of a work queue when somebody scrapes. `WorkQueue` answers it. */
export interface QueueStatus {
  /** Keys that are ready, by priority. */
  depths(): ReadonlyMap<number, number>
  /** For how long each key that is worked on has been so, in ms. */
  workingMs(): Iterable<number>
}

/** What is asked of a controller when somebody scrapes. */
export interface ControllerStatus extends QueueStatus {
  readonly maxConcurrent: number
  /** Objects in runs that hold a worker. */
  active(): number
}

interface Entry<R, S> {
  readonly recorder: R
  readonly status: S
}

/**
 * The metrics of all controllers of a process, in a registry that is given.
 *
 * Names, labels and buckets are those of controller-runtime (`controller_runtime_*`) and client-go (`workqueue_*`);
 * every result has a series from the beginning. A controller is told of from `add` to `remove`.
 */
export class ControllerMetrics {
  /** Where they are told, for who has more to tell. */
  readonly registry: Registry
  readonly #entries = new Map<string, Entry<ControllerRecorder, ControllerStatus>>()
  /** Those of the controllers, and others. */
  readonly #queues = new Map<string, Entry<QueueRecorder, QueueStatus>>()

  /** @throws Error when the registry has metrics of these names already. */
  constructor(registry: Registry) {
    this.registry = registry
    this.#describeReconciles(registry)
    this.#describeQueues(registry)
  }

  /** Begins to tell of a controller. One of the same name is replaced. */
  add(controller: string, recorder: ControllerRecorder, status: ControllerStatus): void {
    this.#entries.set(controller, { recorder, status })
    this.addQueue(controller, recorder, status)
  }

  /** Ends telling of a controller, unless another one has taken the name. */
  remove(controller: string, recorder: ControllerRecorder): void {
    if (this.#entries.get(controller)?.recorder === recorder) this.#entries.delete(controller)
    this.removeQueue(controller, recorder)
  }

  /** Begins to tell of a queue that is no controller's. One of the same name is replaced. */
  addQueue(name: string, recorder: QueueRecorder, status: QueueStatus): void {
    this.#queues.set(name, { recorder, status })
  }

  /** Ends telling of a queue, unless another one has taken the name. */
  removeQueue(name: string, recorder: QueueRecorder): void {
    if (this.#queues.get(name)?.recorder === recorder) this.#queues.delete(name)
  }

  #describeReconciles(registry: Registry): void {
    const registers = [registry]
    const entries = this.#entries
    new Counter({
      name: 'controller_runtime_reconcile_total',
      help: 'Reconciles of a controller, by how they ended.',
      labelNames: ['controller', 'result'],
      registers,
      collect() {
        this.reset()
        for (const [controller, { recorder }] of entries) {
          for (const result of reconcileResults) this.inc({ controller, result }, recorder.reconciles[result])
        }
      },
    })
    const counters: readonly [
      name: string,
      help: string,
      countOf: (recorder: ControllerRecorder) => number,
    ][] = [
      ['reconcile_errors_total', 'Reconciles that failed.', recorder => recorder.reconciles.error],
      [
        'terminal_reconcile_errors_total',
        'Reconciles that failed for good.',
        recorder => recorder.terminalErrors,
      ],
      [
        'reconcile_panics_total',
        'Reconciles that failed by a fault of the program.',
        recorder => recorder.panics,
      ],
      ['reconcile_timeouts_total', 'Reconciles that exceeded their time.', recorder => recorder.timeouts],
      [
        'stale_reads_waited_total',
        "Reads that waited for a cache to show the controller's own writes.",
        recorder => recorder.staleReadsWaited,
      ],
      [
        'stale_reads_timed_out_total',
        "Reads that were given up because a cache did not show the controller's own writes in time.",
        recorder => recorder.staleReadsTimedOut,
      ],
    ]
    for (const [name, help, countOf] of counters) {
      new Counter({
        name: `controller_runtime_${name}`,
        help,
        labelNames: ['controller'],
        registers,
        collect() {
          this.reset()
          for (const [controller, { recorder }] of entries) this.inc({ controller }, countOf(recorder))
        },
      })
    }
    new TallyHistogram(
      {
        name: 'controller_runtime_reconcile_time_seconds',
        help: 'Seconds that a reconcile took.',
        labelNames: ['controller'],
        registers,
      },
      () =>
        [...this.#entries].map(([controller, { recorder }]) => [{ controller }, recorder.reconcileSeconds]),
    )
    new Gauge({
      name: 'controller_runtime_max_concurrent_reconciles',
      help: 'Objects that a controller reconciles at once at most.',
      labelNames: ['controller'],
      registers,
      collect() {
        this.reset()
        for (const [controller, { status }] of entries) this.set({ controller }, status.maxConcurrent)
      },
    })
    new Gauge({
      name: 'controller_runtime_active_workers',
      help: 'Objects that a controller is reconciling.',
      labelNames: ['controller'],
      registers,
      collect() {
        this.reset()
        for (const [controller, { status }] of entries) this.set({ controller }, status.active())
      },
    })
  }

  #describeQueues(registry: Registry): void {
    const registers = [registry]
    const queues = this.#queues
    const labelNames = ['name', 'controller'] as const
    new Gauge({
      name: 'workqueue_depth',
      help: 'Keys that are ready in a work queue, by priority.',
      labelNames: ['name', 'controller', 'priority'],
      registers,
      collect() {
        this.reset()
        for (const [name, { status }] of queues) {
          const depths = [...status.depths()].sort(([left], [right]) => right - left)
          this.set({ name, controller: name, priority: '0' }, 0)
          for (const [at, [number, depth]] of depths.entries()) {
            const priority = at < metricsDefaults.priorities ? String(number) : 'exceeded_cardinality_limit'
            this.inc({ name, controller: name, priority }, depth)
          }
        }
      },
    })
    new Counter({
      name: 'workqueue_adds_total',
      help: 'Keys that came into a work queue.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const [name, { recorder }] of queues) this.inc({ name, controller: name }, recorder.adds)
      },
    })
    new Counter({
      name: 'workqueue_retries_total',
      help: 'Keys that were added to a work queue with a delay.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const [name, { recorder }] of queues) this.inc({ name, controller: name }, recorder.retries)
      },
    })
    new TallyHistogram(
      {
        name: 'workqueue_queue_duration_seconds',
        help: 'Seconds that a key was ready before it was handed out.',
        labelNames,
        registers,
      },
      () => this.#tallies(({ queueSeconds }) => queueSeconds),
    )
    new TallyHistogram(
      {
        name: 'workqueue_work_duration_seconds',
        help: 'Seconds that a key was worked on.',
        labelNames,
        registers,
      },
      () => this.#tallies(({ workSeconds }) => workSeconds),
    )
    new Gauge({
      name: 'workqueue_unfinished_work_seconds',
      help: 'Seconds of work on the keys that are worked on, all together.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const [name, { status }] of queues) {
          let sumMs = 0
          for (const ms of status.workingMs()) sumMs += ms
          this.set({ name, controller: name }, sumMs / 1000)
        }
      },
    })
    new Gauge({
      name: 'workqueue_longest_running_processor_seconds',
      help: 'Seconds of work on the key that is worked on for longest.',
      labelNames,
      registers,
      collect() {
        this.reset()
        for (const [name, { status }] of queues) {
          this.set({ name, controller: name }, Math.max(0, ...status.workingMs()) / 1000)
        }
      },
    })
  }

  *#tallies(tallyOf: (recorder: QueueRecorder) => Tally) {
    for (const [name, { recorder }] of this.#queues) {
      yield [{ name, controller: name }, tallyOf(recorder)] as const
    }
  }
}
