import PQueue from 'p-queue'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { Breather } from '../breather.ts'
import type { HandlerRegistration } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { type ControllerMetrics, ControllerRecorder } from '../metrics/index.ts'
import { priorities, type WorkItem, WorkQueue } from '../workqueue/work-queue.ts'
import { type ControllerDefinition, controllerDefaults } from './builder.ts'
import { ControllerCaches } from './caches.ts'
import { addFinalizer, finalizerStep, removeFinalizer } from './finalizer.ts'
import type { InformerSource } from './inputs.ts'
import { type Reconcile, StaleCacheError } from './reconcile.ts'
import { type ReconcileResults, ResultFanOut, resultsDefaults } from './results.ts'
import { Run, type RunHost } from './run.ts'
import { type ControllerCounts, type Outcome, Settlement } from './settlement.ts'
import { recordResult, withReconcileSpan } from './tracing.ts'
import { Watchdog } from './watchdog.ts'

/** What a controller works with. */
export interface ControllerOptions {
  /** Given to reconciles; writes through it are what a run is never older than. */
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Where the definition has none; by default `<plural>.<group>`. */
  readonly name?: string
  /** Told of what the controller does, from its start to its stop. */
  readonly metrics?: ControllerMetrics
  /**
   * Throws when this process may no longer act as the leader. Called before each run and before each write of one; a
   * run that it stops is put off, and is no failure.
   */
  readonly fence?: () => void
  /** From 0 up to, but not including, 1, for the pauses of sources. Default `Math.random`. */
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
 * - One object is never in two runs at once. A run that exceeds its time frees its worker for others, but its object
 *   stays locked until it has really settled: two runs for one object would be worse than none.
 * - Every event that passes the filter is followed by a run that begins after it and sees it, or something newer.
 * - No run begins before every cache that the controller reads is filled.
 * - No run sees its object older than the controller's own last write of it, nor reads anything by `context.lister`
 *   that is older than any write of the controller.
 * - A run that throws, rejects, or never settles delays its own object only; so does a mapping, a filter or a source.
 * - Finalizers: see `finalizer.ts`.
 *
 * p-queue bounds the runs: that part is slots, which it does well. Work reaches it only when a slot is free, because
 * what waits in it could no longer be overtaken by something more urgent.
 */
export class Controller<T extends ApiObject = ApiObject> {
  readonly name: string
  readonly model: Model<T>
  readonly #definition: ControllerDefinition<T>
  readonly #client: Client
  readonly #log: Logger
  readonly #clock: Clock
  readonly #random: () => number
  readonly #fence: (() => void) | undefined
  readonly #metrics: ControllerMetrics | undefined
  readonly #recorder = new ControllerRecorder()
  readonly #queue: WorkQueue
  readonly #slots: PQueue
  readonly #watchdog: Watchdog<Run>
  readonly #results = new ResultFanOut()
  /** Every run that has not settled, those that exceeded their time included. */
  readonly #runs = new Set<Run>()
  readonly #settlement: Settlement
  #registrations: HandlerRegistration[] = []
  #caches: ControllerCaches<T> | undefined
  /** From a start to the next stand-by or the stop; aborted with it. */
  #period: AbortController | undefined
  /** While there is one, no run begins before it has resolved. */
  #paused: Promise<void> | undefined
  #resume: () => void = () => {}
  #dispatching: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(definition: ControllerDefinition<T>, options: ControllerOptions) {
    const { model, retry } = definition
    this.name = definition.name ?? options.name ?? `${model.plural}.${model.group}`
    this.model = model
    this.#definition = definition
    this.#client = options.client
    this.#log = (options.log ?? silentLogger).child({ controller: this.name })
    this.#clock = options.clock ?? systemClock
    this.#random = options.random ?? Math.random
    this.#fence = options.fence
    this.#metrics = options.metrics
    this.#queue = new WorkQueue({
      ...retry,
      clock: this.#clock,
      ...(options.metrics && { observer: this.#recorder }),
    })
    this.#settlement = new Settlement({
      queue: this.#queue,
      clock: this.#clock,
      recorder: this.#recorder,
      results: this.#results,
    })
    this.#slots = new PQueue({ concurrency: definition.concurrency })
    this.#watchdog = new Watchdog(this.#clock, definition.timeoutMs, run => this.#timeOut(run))
  }

  get counts(): ControllerCounts {
    return this.#settlement.counts
  }

  /** Keys that are ready, that wait for their time, and that are being worked on. */
  get queue(): { readonly depth: number; readonly delayed: number; readonly processing: number } {
    const { depth, delayed, processing } = this.#queue
    return { depth, delayed, processing }
  }

  /**
   * How the runs end from now on, as a stream, until the controller stops. It keeps at most `buffer` reports that
   * nobody has read, drops the oldest beyond that, and counts them.
   */
  results(buffer: number = resultsDefaults.buffer): ReconcileResults {
    return this.#results.open(buffer)
  }

  /**
   * Takes the informers of every kind that the controller reads, so that their caches can be filled before it starts.
   * Calling it again changes nothing.
   */
  attach(informers: InformerSource): void {
    this.#caches ??= new ControllerCaches(this.model, this.#definition.inputs, informers, {
      client: this.#client,
      clock: this.#clock,
      recorder: this.#recorder,
    })
  }

  /**
   * Begins to work on the objects of the informers that it was attached to, as soon as these are filled; after `standBy`
   * on all of them again. Calling it while it works changes nothing.
   * @throws Error when it was attached to none.
   */
  start(): void {
    if (this.#period !== undefined || this.#stopped !== undefined) return
    const caches = this.#caches
    if (caches === undefined) throw new Error(`controller ${this.name} has no informers: attach comes first`)
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
        lister: model => caches.lister(model),
        enqueue: (name, initial, reason) =>
          this.#queue.add(name, { priority: initial ? priorities.initial : priorities.live, reason }),
      }),
    ]
    void this.#begin(caches, period.signal)
  }

  /**
   * Ends all runs at once, with `reason` as that of their signals, and begins none until `start` is called again. A run
   * that does not heed its signal keeps its object locked, also beyond the next start.
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
   * Takes no new work, lets runs finish for `drainTimeoutMs`, then aborts their signals. Resolves when the runs have
   * ended, or have not heeded the abort in time. Calling it again answers the same promise.
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
    await this.#idleWithin(drainTimeoutMs)
    const overdue = this.#slots.pending
    if (overdue > 0) this.#log.warn({ runs: overdue }, 'runs did not finish in time and are aborted')
    for (const run of this.#runs) run.abort(reason)
    await this.#idleWithin(controllerDefaults.abortGraceMs)
    this.#watchdog.stop()
    this.#results.end()
    this.#metrics?.remove(this.name, this.#recorder)
  }

  /** No event and no source adds anything from now on. Answers whether one could before. */
  #endPeriod(reason: Error): boolean {
    if (this.#period === undefined) return false
    this.#period.abort(reason)
    this.#period = undefined
    for (const registration of this.#registrations) registration.remove()
    this.#registrations = []
    return true
  }

  async #idleWithin(timeoutMs: number): Promise<void> {
    const patience = new AbortController()
    await Promise.race([this.#slots.onIdle(), sleep(this.#clock, timeoutMs, patience.signal).catch(() => {})])
    patience.abort()
  }

  #listenToOwn(caches: ControllerCaches<T>): HandlerRegistration {
    return caches.own.addHandler({
      onAdd: (object, { initial }) => {
        const { name } = object.metadata
        caches.settle(name)
        if (!this.#passesAdd(object)) return
        this.#queue.add(name, {
          priority: initial ? priorities.initial : priorities.live,
          reason: initial ? 'initial' : 'added',
        })
      },
      onUpdate: (before, after) => {
        const { name } = after.metadata
        caches.settle(name)
        if (this.#passesUpdate(before, after)) this.#queue.add(name, { reason: 'updated' })
      },
      onDelete: ({ metadata: { name } }) => {
        caches.settle(name)
        // There is nothing left to reconcile, but a back-off to forget.
        this.#queue.add(name, { reason: 'deleted' })
      },
    })
  }

  /** A filter cannot hide what the finalizer rests on: that clean-up is due. */
  #passesAdd(object: T): boolean {
    if (finalizerStep(object, this.#definition.finalizer) === 'finalize') return true
    return this.#passes(object, () => this.#definition.passesAdd(object))
  }

  /** A filter cannot hide what the finalizer rests on: that it was stored, and that deletion has begun. */
  #passesUpdate(before: T, after: T): boolean {
    const { finalizer } = this.#definition
    if (finalizerStep(before, finalizer) !== finalizerStep(after, finalizer)) return true
    if (before.metadata.deletionTimestamp !== after.metadata.deletionTimestamp) return true
    return this.#passes(after, () => this.#definition.passesUpdate(before, after))
  }

  #passes(object: T, test: () => boolean): boolean {
    try {
      return test()
    } catch (error) {
      this.#log.error({ err: error, object: object.metadata.name }, 'the filter failed; the event passes')
      return true
    }
  }

  /** Waits for the caches; a run that began before would take what is not there yet for what is not there at all. */
  async #begin(caches: ControllerCaches<T>, signal: AbortSignal): Promise<void> {
    const cancelWarning = this.#clock.setTimeout(
      () => this.#log.warn({ kinds: caches.unfilled }, 'still waiting for caches to be filled'),
      controllerDefaults.syncWarningMs,
      { unref: true },
    )
    try {
      await caches.filled()
    } catch {
      // An informer was stopped, and the controller with it.
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
      client: this.#client,
      log: this.#log,
      fence: this.#fence,
      wrote: (model, object, removed) => caches.wrote(model, object, removed),
      uncertain: (model, name) => caches.uncertain(model, name),
      lister: (model, runSignal) => caches.caughtUpLister(model, runSignal),
    }
    // Runs that wait for nothing would otherwise follow each other without ever letting the process do else.
    const breather = new Breather(this.#clock)
    for (;;) {
      await breather.pause()
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
        .catch(error => this.#log.error({ err: error, object: item.key }, 'the controller failed'))
    }
  }

  /** Never rejects. Resolves when the run has settled or has exceeded its time. */
  #work(item: WorkItem, host: RunHost, caches: ControllerCaches<T>): Promise<void> {
    return new Promise(free => {
      const attempt = this.#queue.failures(item.key) + 1
      const run = new Run(host, item, attempt, this.#clock.monotonic(), free)
      this.#runs.add(run)
      this.#watchdog.watch(run)
      const about = { controller: this.name, object: item.key, attempt, reason: item.reason }
      withReconcileSpan(about, async span => {
        const outcome = await this.#outcome(run, caches)
        this.#runs.delete(run)
        this.#watchdog.unwatch(run)
        const result = this.#settlement.settle(run, outcome)
        if (!span.isRecording()) return
        span.setAttribute('setpoint.reconcile_id', run.reconcileId)
        recordResult(span, result, 'error' in outcome ? outcome.error : undefined)
      }).then(free, error => {
        this.#log.error({ err: error, object: item.key }, 'the controller failed')
        free()
      })
    })
  }

  #timeOut(run: Run): void {
    const { timeoutMs } = this.#definition
    run.timedOut = true
    run.abort(new DOMException(`the run exceeded ${timeoutMs} ms`, 'TimeoutError'))
    this.#settlement.overdue()
    run.log.error(
      { timeoutMs },
      'the run exceeds its time and is aborted; the object stays locked until it settles',
    )
    run.free()
  }

  /** How the run ends. Never rejects, but as late as the run settles. */
  async #outcome(run: Run, caches: ControllerCaches<T>): Promise<Outcome> {
    try {
      run.writing()
      const outcome = await this.#run(run, caches)
      return this.#verdict(run) ?? outcome
    } catch (error) {
      const verdict = this.#verdict(run)
      if (verdict !== undefined) return verdict
      if (run.fenced) return { kind: 'fenced', error }
      return { kind: error instanceof StaleCacheError ? 'stale' : 'failed', error }
    }
  }

  /** What became of the run, whatever it answers itself. */
  #verdict(run: Run): Outcome | undefined {
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
        await this.#definition.finalize(object, run.context())
        if (finalizer !== undefined) {
          await removeFinalizer(run.client, model, object, finalizer, controllerDefaults.finalizerAttempts)
        }
        return { kind: 'done', requeueAfterMs: undefined }
      case 'reconcile':
        run.isLastAttempt = run.attempt >= (retry.maxAttempts ?? Number.POSITIVE_INFINITY)
        return {
          kind: 'done',
          requeueAfterMs: requeueAfterMs(await this.#definition.reconcile(object, run.context())),
        }
    }
  }
}

function requeueAfterMs(result: Awaited<ReturnType<Reconcile<ApiObject>>>): number | undefined {
  const ms: unknown = result?.requeueAfterMs
  if (ms === undefined) return undefined
  if (typeof ms !== 'number' || !(ms >= 0)) {
    throw new TypeError(`requeueAfterMs must be a number of at least 0, is ${String(ms)}`)
  }
  return ms
}
