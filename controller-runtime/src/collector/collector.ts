import { type Clock, systemClock } from '../clock.ts'
import { type ControllerMetrics, QueueRecorder } from '../metrics/index.ts'
import type { Runnable, RunnableContext } from '../runnable.ts'
import { describeCollector } from './collector-metrics.ts'
import { CollectorRun } from './collector-run.ts'
import { type CollectorCounts, collectorDefaults } from './defaults.ts'
import type { KindSource } from './kind-source.ts'

export interface CollectorOptions {
  readonly kinds: KindSource
  readonly clock?: Clock
  /** The server's `--reserved-domain`. */
  readonly reservedDomain?: string
  /** Receives the collector's metrics: `metrics` of its manager. */
  readonly metrics?: ControllerMetrics
  /** Default `collectorDefaults.concurrency`. */
  readonly concurrency?: number
}

/**
 * Deletes the dependents of deleted objects, and completes deletions that wait for dependents.
 *
 *     watches of all kinds ──> Graph ──work──> queue ──> check  an owner: a live read decides whether it exists
 *                                                        sync   a dependent: delete it, or remove references
 *                                                        end    a waiting object: remove its finalizer
 *
 * Guarantees
 * - A dependent is deleted only if live reads show for each of its references that the owner does not exist, or waits
 *   for its dependents. Owners of a kind that is not served, not ready or not responding count as existing, unless the
 *   kind has reported their deletion before it went, as that of a deleted definition does. The graph, which may be
 *   stale, only says where to look.
 * - A deletion carries the uid and version of the dependent, so one that is adopted meanwhile stays.
 * - References to existing owners are removed only when a deletion with orphans completes.
 * - A deletion with orphans completes when no object of any responding kind references the owner, as of a version at or
 *   after the deletion; a foreground deletion, when no dependent blocks it. A served kind that does not respond is
 *   awaited for a minute. After that, an `OrphanRecord` ensures that its objects are released rather than deleted.
 * - Failures are retried per object. A restart loses nothing, since all state is derived from stored objects. The exception
 *   are reported deletions of owners whose kind is gone: their remaining dependents stay.
 *
 * Several collectors may run at once: versions guard their writes, and their conclusions are permanent.
 *
 * Semantics of Kubernetes' garbage collector (`pkg/controller/garbagecollector`), with two differences: it keeps only
 * objects that have owners or wait, and it breaks circles of objects that wait for each other.
 */
export class Collector implements Runnable {
  readonly name = 'collector'
  readonly #kinds: KindSource
  readonly #clock: Clock
  readonly #concurrency: number
  readonly #counts: CollectorCounts = { deleted: 0, released: 0, ended: 0, failed: 0 }
  readonly #metrics: ControllerMetrics | undefined
  readonly #recorder = new QueueRecorder()
  readonly #reservedDomain: string

  /** @throws Error if the registry already has the metrics of a collector. */
  constructor({ kinds, clock, concurrency, metrics, reservedDomain }: CollectorOptions) {
    this.#reservedDomain = reservedDomain ?? collectorDefaults.reservedDomain
    this.#kinds = kinds
    this.#metrics = metrics
    if (metrics !== undefined) describeCollector(metrics.registry, () => this.#counts)
    this.#clock = clock ?? systemClock
    this.#concurrency = concurrency ?? collectorDefaults.concurrency
  }

  get counts(): Readonly<CollectorCounts> {
    return { ...this.#counts }
  }

  /** Runs until the signal is aborted. The client must not act as a plugin, since any object may be a dependent. */
  async run({ client, signal, log }: RunnableContext): Promise<void> {
    const run = new CollectorRun({
      client,
      signal,
      log,
      clock: this.#clock,
      kinds: this.#kinds,
      counts: this.#counts,
      observer: this.#recorder,
      reservedDomain: this.#reservedDomain,
    })
    this.#metrics?.addQueue(this.name, this.#recorder, run.queue)
    await run.work(this.#concurrency)
    this.#metrics?.removeQueue(this.name, this.#recorder)
  }
}
