import PQueue from 'p-queue'
import type { DeepReadonly } from '../api/deep-readonly.ts'
import { groupResource } from '../api/group-resource.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { objectKey } from '../api/object-key.ts'
import type { HandlerRegistration } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { type Clock, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { type ControllerMetrics, ControllerRecorder } from '../metrics/index.ts'
import { type RandomSource, systemRandom } from '../random.ts'
import { settledWithin } from '../settled-within.ts'
import { priorities, type WorkItem, WorkQueue } from '../workqueue/work-queue.ts'
import { Yielder } from '../yielder.ts'
import { type ControllerDefinition, controllerDefaults } from './builder.ts'
import { ControllerCaches } from './caches.ts'
import { DeadlineTimer } from './deadline-timer.ts'
import { addFinalizer, finalizerStep, removeFinalizer } from './finalizer.ts'
import type { InformerSource } from './inputs.ts'
import { pendingCallsWarning } from './pending-calls.ts'
import { refuseFinalizeResult, requeueAfterMsOf, StaleCacheError } from './reconcile.ts'
import { type ReconcileResults, ResultFanOut, resultsDefaults } from './results.ts'
import { Rewrites, rewritesDefaults } from './rewrites.ts'
import { Run, type RunHost } from './run.ts'
import { type ControllerCounts, type Outcome, OutcomeHandler } from './run-outcome.ts'
import { recordResult, withReconcileSpan } from './tracing.ts'

export interface ControllerOptions {
  /** Passed to reconcilers. A run sees all earlier writes made through it. */
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Passed to reconcilers; names start with `<object>/`. Default: the system's randomness. */
  readonly randomSource?: RandomSource
  /** Used if the definition has no name. Default: `<plural>.<group>`. */
  readonly name?: string
  /** Receives the controller's metrics from its start to its stop. */
  readonly metrics?: ControllerMetrics
  /**
   * Throws if this process may no longer act as the leader. Called before each run and each of its writes. A run that
   * it stops is requeued and not counted as a failure.
   */
  readonly leadershipGuard?: () => void
  /** Returns a number in [0, 1), for the back-off of sources. Default `Math.random`. */
  readonly random?: () => number
}

/**
 * Runs one `ControllerDefinition` over the objects of its model.
 *
 *     own informer ─────────────────────┐
 *     owns, watches ──mapped to names──>├─> work queue ──key──> run: object from the cache ──> reconcile or finalize
 *     sources ──names───────────────────┘       ^                 │
 *                                               └─ requeueAfter, ─┘
 *                                                  failure: back-off
 *
 * Guarantees
 * - An object is never in two runs at once. A run that exceeds its timeout frees its worker, but its object stays
 *   locked until the run settles.
 * - Every event that passes the filter is followed by a run that sees it or a newer state.
 * - No run starts before all caches that the controller reads have synced.
 * - A run sees its object at least as new as the controller's own last write, and everything read through
 *   `context.lister` at least as new as all of the controller's writes.
 * - A run that throws, rejects or never settles delays only its own object. Errors of mappings, filters and sources are
 *   isolated too.
 * - Finalizers: see `finalizer.ts`.
 *
 * p-queue limits the concurrency. Keys are taken from the work queue only when a worker is free, so that an urgent key
 * can still overtake others.
 */
export class Controller<T extends ApiObject = ApiObject> {
  readonly name: string
  readonly model: Model<T>
  readonly #definition: ControllerDefinition<T>
  readonly #client: Client
  readonly #log: Logger
  readonly #clock: Clock
  readonly #randomSource: RandomSource
  readonly #random: () => number
  readonly #leadershipGuard: (() => void) | undefined
  readonly #metrics: ControllerMetrics | undefined
  readonly #recorder = new ControllerRecorder()
  readonly #queue: WorkQueue
  readonly #slots: PQueue
  readonly #deadlines: DeadlineTimer<Run>
  readonly #results = new ResultFanOut()
  /** All runs that have not settled, including those that have exceeded their timeout. */
  readonly #runs = new Set<Run>()
  readonly #outcomes: OutcomeHandler
  readonly #rewrites = new Rewrites()
  #registrations: HandlerRegistration[] = []
  #caches: ControllerCaches<T> | undefined
  /** From a start to the next standby or the stop, which abort it. */
  #period: AbortController | undefined
  /** If set, no run starts before it resolves. */
  #paused: Promise<void> | undefined
  #resume: () => void = () => {}
  #dispatching: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(definition: ControllerDefinition<T>, options: ControllerOptions) {
    const { model, retry } = definition
    this.name = definition.name ?? options.name ?? groupResource(model)
    this.model = model
    this.#definition = definition
    this.#client = options.client
    this.#log = (options.log ?? silentLogger).child({ controller: this.name })
    this.#clock = options.clock ?? systemClock
    this.#randomSource = options.randomSource ?? systemRandom
    this.#random = options.random ?? Math.random
    this.#leadershipGuard = options.leadershipGuard
    this.#metrics = options.metrics
    this.#queue = new WorkQueue({
      ...retry,
      clock: this.#clock,
      observer: options.metrics && this.#recorder,
    })
    this.#outcomes = new OutcomeHandler({
      queue: this.#queue,
      clock: this.#clock,
      recorder: this.#recorder,
      results: this.#results,
    })
    this.#slots = new PQueue({ concurrency: definition.concurrency })
    this.#deadlines = new DeadlineTimer(this.#clock, definition.timeoutMs, run => this.#timeOut(run))
  }

  /** The kinds that it reads, its own first. */
  get models(): readonly Model[] {
    return [this.model, ...this.#definition.inputs.map(({ model }) => model)]
  }

  get counts(): ControllerCounts {
    return this.#outcomes.counts
  }

  /** Number of keys that are ready, delayed and being processed. */
  get queue(): { readonly depth: number; readonly delayed: number; readonly processing: number } {
    const { depth, delayed, processing } = this.#queue
    return { depth, delayed, processing }
  }

  /**
   * Returns a stream of the results of all runs from now on, until the controller stops. It buffers up to `buffer`
   * reports, then drops and counts the oldest.
   */
  results(buffer: number = resultsDefaults.buffer): ReconcileResults {
    return this.#results.open(buffer)
  }

  /**
   * Acquires the informers of every kind that the controller reads, so that their caches can sync before it starts.
   * Further calls have no effect.
   */
  attach(informers: InformerSource): void {
    this.#caches ??= new ControllerCaches(this.model, this.#definition.inputs, informers, {
      client: this.#client,
      clock: this.#clock,
      recorder: this.#recorder,
    })
  }

  /**
   * Starts to reconcile once the attached informers have synced; after `standBy`, all objects again. Has no effect
   * while the controller is running.
   * @throws Error if `attach` was not called.
   */
  start(): void {
    if (this.#period !== undefined || this.#stopped !== undefined) return
    const caches = this.#caches
    if (caches === undefined) throw new Error(`controller ${this.name} has no informers: call attach first`)
    const period = new AbortController()
    this.#period = period
    this.#metrics?.add(this.name, this.#recorder, {
      maxConcurrent: this.#definition.concurrency,
      active: () => this.#slots.pending,
      depths: () => this.#queue.depths(),
      workingMs: () => this.#queue.workingMs(),
    })
    this.#registrations = [
      this.#listenToOwn(caches),
      ...caches.listen({
        log: this.#log,
        lister: async model => caches.lister(model),
        enqueue: (key, initial, reason) =>
          this.#queue.add(key, { priority: initial ? priorities.initial : priorities.live, reason }),
      }),
    ]
    void this.#begin(caches, period.signal)
  }

  /**
   * Aborts all runs with `reason` and starts none until `start` is called again. A run that ignores its signal keeps
   * its object locked, even after the next start.
   */
  standBy(reason: Error): void {
    if (this.#endPeriod(reason)) {
      this.#paused = new Promise(resolve => {
        this.#resume = resolve
      })
    }
    for (const run of this.#runs) run.interrupt(reason)
  }

  /**
   * Takes no new work, lets runs finish for up to `drainTimeoutMs`, then aborts them. Resolves when all runs have
   * ended, or have ignored the abort for `abortGraceMs`. Further calls return the same promise.
   */
  stop(drainTimeoutMs: number): Promise<void> {
    this.#stopped ??= this.#drain(drainTimeoutMs)
    return this.#stopped
  }

  async #drain(drainTimeoutMs: number): Promise<void> {
    const reason = new DOMException(`controller ${this.name} is stopping`, 'AbortError')
    this.#endPeriod(reason)
    this.#queue.shutDown()
    this.#resume()
    await settledWithin(this.#clock, this.#slots.onIdle(), drainTimeoutMs)
    const overdue = this.#slots.pending
    if (overdue > 0) this.#log.warn({ runs: overdue }, 'runs did not finish in time, aborting')
    for (const run of this.#runs) run.abort(reason)
    await settledWithin(this.#clock, this.#slots.onIdle(), controllerDefaults.abortGraceMs)
    this.#deadlines.stop()
    this.#results.end()
    this.#metrics?.remove(this.name, this.#recorder)
  }

  /** Stops all events and sources. Returns false if they were stopped already. */
  #endPeriod(reason: Error): boolean {
    if (this.#period === undefined) return false
    this.#period.abort(reason)
    this.#period = undefined
    for (const registration of this.#registrations) registration.remove()
    this.#registrations = []
    return true
  }

  #listenToOwn(caches: ControllerCaches<T>): HandlerRegistration {
    return caches.own.addHandler({
      onAdd: (object, { initial }) => {
        const key = objectKey(object.metadata)
        caches.observed(key)
        if (!this.#passesAdd(object)) return
        this.#queue.add(key, {
          priority: initial ? priorities.initial : priorities.live,
          reason: initial ? 'initial' : 'added',
        })
      },
      onUpdate: (before, after) => {
        const key = objectKey(after.metadata)
        caches.observed(key)
        if (this.#passesUpdate(before, after)) this.#queue.add(key, { reason: 'updated' })
      },
      onDelete: ({ metadata }) => {
        const key = objectKey(metadata)
        caches.observed(key)
        // Resets the back-off of the key.
        this.#queue.add(key, { reason: 'deleted' })
      },
    })
  }

  /** A filter cannot hide an object that needs finalizing. */
  #passesAdd(object: DeepReadonly<T>): boolean {
    if (finalizerStep(object, this.#definition.finalizer) === 'finalize') return true
    return this.#passes(object, () => this.#definition.passesAdd(object))
  }

  /** A filter cannot hide that the finalizer was added, or that deletion has started. */
  #passesUpdate(before: DeepReadonly<T>, after: DeepReadonly<T>): boolean {
    const { finalizer } = this.#definition
    if (finalizerStep(before, finalizer) !== finalizerStep(after, finalizer)) return true
    if (before.metadata.deletionTimestamp !== after.metadata.deletionTimestamp) return true
    return this.#passes(after, () => this.#definition.passesUpdate(before, after))
  }

  #passes(object: DeepReadonly<T>, test: () => boolean): boolean {
    try {
      return test()
    } catch (error) {
      this.#log.error(
        { err: error, object: objectKey(object.metadata) },
        'event filter failed, reconciling anyway',
      )
      return true
    }
  }

  /** Waits for the caches: an earlier run would take objects that are not cached yet for missing ones. */
  async #begin(caches: ControllerCaches<T>, signal: AbortSignal): Promise<void> {
    const cancelWarning = this.#clock.setTimeout(
      () => this.#log.warn({ kinds: caches.unfilled }, 'still waiting for caches to sync'),
      controllerDefaults.syncWarningMs,
      { unref: true },
    )
    try {
      await caches.filled()
    } catch {
      // An informer was stopped.
      return
    } finally {
      cancelWarning()
    }
    if (signal.aborted) return
    this.#definition.followSources(
      {
        queue: this.#queue,
        log: this.#log,
        clock: this.#clock,
        objects: caches.own,
        random: this.#random,
      },
      signal,
    )
    this.#paused = undefined
    this.#resume()
    this.#dispatching ??= this.#dispatch(caches)
  }

  async #dispatch(caches: ControllerCaches<T>): Promise<void> {
    const host: RunHost = {
      name: this.name,
      model: this.model,
      client: this.#client,
      log: this.#log,
      clock: this.#clock,
      randomSource: this.#randomSource,
      leadershipGuard: this.#leadershipGuard,
      wrote: (model, object, removed) => caches.wrote(model, object, removed),
      uncertain: (model, key) => caches.uncertain(model, key),
      lister: (model, runSignal) => caches.caughtUpLister(model, runSignal),
    }
    // Yields to the event loop between runs that never wait.
    const yielder = new Yielder(this.#clock)
    for (;;) {
      await yielder.pause()
      if (this.#slots.pending >= this.#definition.concurrency) {
        await new Promise(resolve => this.#slots.once('next', resolve))
        continue
      }
      const item = await this.#queue.get()
      if (item === undefined) return
      while (this.#paused !== undefined && !this.#queue.isShutDown) await this.#paused
      if (this.#queue.isShutDown) {
        this.#queue.done(item.key)
        continue
      }
      this.#slots
        .add(() => this.#work(item, host, caches))
        .catch(error => this.#log.error({ err: error, object: item.key }, 'controller failed'))
    }
  }

  /** Never rejects. Resolves when the run has settled or has exceeded its timeout. */
  #work(item: WorkItem, host: RunHost, caches: ControllerCaches<T>): Promise<void> {
    return new Promise(free => {
      const attempt = this.#queue.failures(item.key) + 1
      const run = new Run(host, item, attempt, this.#clock.monotonic(), free)
      this.#runs.add(run)
      this.#deadlines.add(run)
      const about = { controller: this.name, object: item.key, attempt, reason: item.reason }
      withReconcileSpan(about, async span => {
        const outcome = await this.#outcome(run, caches)
        this.#runs.delete(run)
        this.#deadlines.remove(run)
        const result = this.#outcomes.handle(run, outcome)
        if (!span.isRecording()) return
        span.setAttribute('setpoint.reconcile_id', run.reconcileId)
        recordResult(span, result, 'error' in outcome ? outcome.error : undefined)
      }).then(free, error => {
        this.#log.error({ err: error, object: item.key }, 'controller failed')
        free()
      })
    })
  }

  #timeOut(run: Run): void {
    const { timeoutMs } = this.#definition
    run.timedOut = true
    run.abort(new DOMException(`the run timed out after ${timeoutMs} ms`, 'TimeoutError'))
    this.#outcomes.overdue()
    run.log.error({ timeoutMs }, 'run timed out, aborting; its object stays locked until it settles')
    run.free()
  }

  /** Never rejects. Resolves when the run settles, however late. */
  async #outcome(run: Run, caches: ControllerCaches<T>): Promise<Outcome> {
    try {
      run.writing()
      const outcome = await this.#run(run, caches)
      return this.#forcedOutcome(run) ?? outcome
    } catch (error) {
      const forced = this.#forcedOutcome(run)
      if (forced !== undefined) return forced
      if (run.lacksLeadership) return { kind: 'notLeader', error }
      return { kind: error instanceof StaleCacheError ? 'stale' : 'failed', error }
    }
  }

  /** Returns the outcome of a run that was timed out or interrupted, whatever its result. */
  #forcedOutcome(run: Run): Outcome | undefined {
    if (run.timedOut) return { kind: 'failed', error: run.abortReason }
    return run.interrupted ? { kind: 'interrupted' } : undefined
  }

  async #run(run: Run, caches: ControllerCaches<T>): Promise<Outcome> {
    const { model, finalizer, retry } = this.#definition
    const { key } = run.item
    if (caches.isBehind) await caches.showsObject(key, run.signal)
    const object = caches.own.get(key)
    if (object === undefined) return { kind: 'gone' }
    switch (finalizerStep(object, finalizer)) {
      case 'none':
        return { kind: 'done', requeueAfterMs: undefined }
      case 'add':
        if (finalizer !== undefined) await addFinalizer(run.client, model, object, finalizer)
        return { kind: 'done', requeueAfterMs: undefined }
      case 'finalize':
        refuseFinalizeResult(await this.#definition.finalize(object, run.context()))
        if (finalizer !== undefined) {
          await removeFinalizer(run.client, model, object, finalizer, controllerDefaults.finalizerAttempts)
        }
        return { kind: 'done', requeueAfterMs: undefined }
      case 'reconcile': {
        run.isLastAttempt = run.attempt >= (retry.maxAttempts ?? Number.POSITIVE_INFINITY)
        try {
          const result = await this.#definition.reconcile(object, run.context())
          this.#warnOfPendingCalls(run, 'returned')
          return { kind: 'done', requeueAfterMs: requeueAfterMsOf(result) }
        } catch (error) {
          // A promise that was taken for its value fails like this. Other errors may leave calls of a Promise.all
          // behind.
          if (error instanceof TypeError) this.#warnOfPendingCalls(run, 'failed')
          throw error
        } finally {
          // Also after a failure: the change that it made causes the next run before the back-off ends.
          this.#warnOfRewrites(run, object.metadata.version)
        }
      }
    }
  }

  #warnOfPendingCalls({ pendingCalls, log }: Run, ended: 'returned' | 'failed'): void {
    if (pendingCalls > 0) log.warn({ calls: pendingCalls }, pendingCallsWarning(ended))
  }

  #warnOfRewrites(run: Run, before: string): void {
    const { ownWrite } = run
    const { key, reason } = run.item
    if (this.#rewrites.ended({ key, isUpdate: reason === 'updated', before, after: ownWrite }))
      run.log.warn(
        { runs: rewritesDefaults.runs },
        'reconcile changes its own object in every run, which causes the next run: write only what differs',
      )
  }
}
