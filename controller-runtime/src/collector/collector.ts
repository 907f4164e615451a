import { type Clock, systemClock } from '../clock.ts'
import type { Runnable, RunnableContext } from '../manager/runnable.ts'
import { type ControllerMetrics, QueueRecorder } from '../metrics/index.ts'
import { describeCollector } from './collector-metrics.ts'
import { CollectorRun } from './collector-run.ts'
import { type CollectorCounts, collectorDefaults } from './defaults.ts'
import type { KindSource } from './kind-source.ts'

/** What a collector works on and with. */
export interface CollectorOptions {
  readonly kinds: KindSource
  readonly clock?: Clock
  /** As the server was told by `--reserved-domain`. */
  readonly reservedDomain?: string
  /** Where the collector tells what it does: `metrics` of its manager. */
  readonly metrics?: ControllerMetrics
  /** Default `collectorDefaults.concurrency`. */
  readonly concurrency?: number
}

/**
 * Collects the dependents of objects that have gone, and ends deletions that wait for dependents.
 *
 *     watches of all kinds ──> Graph ──work──> queue ──> check   an owner: a live read decides whether it is there
 *                                                        settle  a dependent: delete it, or take references away
 *                                                        end     a waiting object: take its finalizer away
 *
 * Guarantees
 * - A dependent is deleted only if a live read has shown, for each of its references, that the owner does not exist,
 *   or waits for its dependents to go. A kind that is not served, is not ready, or does not answer shows nothing: its
 *   objects count as there. The graph, which may be behind, only says where to look.
 * - The deletion carries the uid and the version at which the dependent was read, so that one that was adopted
 *   meanwhile stays.
 * - References to owners that exist are never taken away, except at the end of a deletion with orphans.
 * - A deletion with orphans ends when no object of any kind that answers names the owner any more, as of a version of
 *   the store at or after the deletion; one in the foreground, when none blocks it. A served kind that does not answer is
 *   waited for, a minute; then an `OrphanRecord` sees to it that its objects lose the reference, and are not collected.
 * - Whatever fails is tried again, each object by itself; nothing is forgotten by a restart, because everything
 *   follows from what is stored.
 *
 * Several may run at once: what they do is guarded by versions, and what they conclude stays true.
 *
 * Semantics of Kubernetes' garbage collector (`pkg/controller/garbagecollector`). Unlike it, this one keeps no objects
 * that neither have owners nor wait, and ends circles of objects that all wait for each other.
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

  /** @throws Error when the metrics are told of another collector already. */
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

  /** Collects until the signal is aborted. The client must not act as a plugin: any object may be a dependent. */
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
