import { setMaxListeners } from 'node:events'
import PQueue from 'p-queue'
import { isApiError } from '../api/errors.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { Breather } from '../breather.ts'
import type { HandlerRegistration, Informer } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { ObservedClient } from '../client/observed-client.ts'
import { type CancelTimer, type Clock, sleep, systemClock } from '../clock.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { priorities, type WorkItem, WorkQueue } from '../workqueue/work-queue.ts'
import { type ControllerDefinition, controllerDefaults } from './builder.ts'
import { addFinalizer, finalizerStep, removeFinalizer } from './finalizer.ts'
import { OwnWrites } from './own-writes.ts'
import { type Reconcile, TerminalError } from './reconcile.ts'

export interface ControllerOptions {
  /** Given to reconciles; writes through it are what a run is never older than. */
  readonly client: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Where the definition has none; by default `<plural>.<group>`. */
  readonly name?: string
}

/** What a controller has done since its start. */
export interface ControllerCounts {
  /** Runs that succeeded. */
  readonly succeeded: number
  /** Runs that threw, rejected or took too long. */
  readonly failed: number
  /** Of those that failed: took too long. */
  readonly timedOut: number
  /** Runs put off because the cache did not show the controller's own last write in time. */
  readonly stale: number
}

type Outcome =
  | { readonly kind: 'done'; readonly requeueAfterMs: number | undefined }
  /** The object is gone. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'stale' }
  | { readonly kind: 'failed'; readonly error: unknown }

/**
 * Runs one `ControllerDefinition` over the objects of an informer.
 *
 *     informer ──add, update, delete──> work queue ──key──> run: object from the cache ──> reconcile or finalize
 *                                          ^                  │
 *                                          └── requeueAfter, ─┘
 *                                              failure: back-off
 *
 * Guarantees
 * - One object is never in two runs at once. A run that exceeds its time frees its worker for others, but its object
 *   stays locked until it has really settled: two runs for one object would be worse than none.
 * - Every change that passes the filter is followed by a run that begins after it and sees it, or something newer.
 * - No run sees an object older than the controller's own last write of it.
 * - A run that throws, rejects, or never settles delays its own object only.
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
  readonly #queue: WorkQueue
  readonly #slots: PQueue
  /** Every run that has not settled, those that exceeded their time included. */
  readonly #runs = new Set<Run>()
  readonly #counts = { succeeded: 0, failed: 0, timedOut: 0, stale: 0 }
  #registration: HandlerRegistration | undefined
  #stopped: Promise<void> | undefined

  constructor(definition: ControllerDefinition<T>, options: ControllerOptions) {
    const { model } = definition
    this.name = definition.name ?? options.name ?? `${model.plural}.${model.group}`
    this.model = model
    this.#definition = definition
    this.#client = options.client
    this.#log = (options.log ?? silentLogger).child({ controller: this.name })
    this.#clock = options.clock ?? systemClock
    this.#queue = new WorkQueue({ clock: this.#clock })
    this.#slots = new PQueue({ concurrency: definition.concurrency })
  }

  get counts(): ControllerCounts {
    return { ...this.#counts }
  }

  /** Keys that are ready, that wait for their time, and that are being worked on. */
  get queue(): { readonly depth: number; readonly delayed: number; readonly processing: number } {
    const { depth, delayed, processing } = this.#queue
    return { depth, delayed, processing }
  }

  /** Begins to work on the informer's objects, as soon as it has them. Calling it again changes nothing. */
  start(informer: Informer<T>): void {
    if (this.#registration !== undefined || this.#stopped !== undefined) return
    const writes = new OwnWrites(informer, this.#clock)
    this.#registration = informer.addHandler({
      onAdd: ({ metadata: { name } }, { initial }) => {
        writes.settle(name)
        this.#queue.add(name, { priority: initial ? priorities.initial : priorities.live })
      },
      onUpdate: (before, after) => {
        writes.settle(after.metadata.name)
        if (this.#passes(before, after)) this.#queue.add(after.metadata.name)
      },
      onDelete: ({ metadata: { name } }) => {
        writes.settle(name)
        // There is nothing left to reconcile, but a back-off to forget.
        this.#queue.add(name)
      },
    })
    void this.#dispatch(informer, writes)
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
    this.#registration?.remove()
    this.#queue.shutDown()
    await this.#idleWithin(drainTimeoutMs)
    const overdue = this.#slots.pending
    if (overdue > 0) this.#log.warn({ runs: overdue }, 'runs did not finish in time and are aborted')
    const reason = new DOMException(`controller ${this.name} is stopping`, 'AbortError')
    for (const run of this.#runs) run.abort(reason)
    await this.#idleWithin(controllerDefaults.abortGraceMs)
  }

  async #idleWithin(timeoutMs: number): Promise<void> {
    const patience = new AbortController()
    await Promise.race([this.#slots.onIdle(), sleep(this.#clock, timeoutMs, patience.signal).catch(() => {})])
    patience.abort()
  }

  /** A filter cannot hide what the finalizer rests on: that it was stored, and that deletion has begun. */
  #passes(before: T, after: T): boolean {
    const { finalizer } = this.#definition
    if (finalizerStep(before, finalizer) !== finalizerStep(after, finalizer)) return true
    if (before.metadata.deletionTimestamp !== after.metadata.deletionTimestamp) return true
    try {
      return this.#definition.passes(before, after)
    } catch (error) {
      this.#log.error({ err: error, object: after.metadata.name }, 'the filter of updates failed; it passes')
      return true
    }
  }

  async #dispatch(informer: Informer<T>, writes: OwnWrites<T>): Promise<void> {
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
      this.#slots
        .add(() => this.#work(item, informer, writes))
        .catch(error => this.#log.error({ err: error, object: item.key }, 'the controller failed'))
    }
  }

  /** Never rejects. Resolves when the run has settled or has exceeded its time. */
  async #work(item: WorkItem, informer: Informer<T>, writes: OwnWrites<T>): Promise<void> {
    const attempt = this.#queue.failures(item.key) + 1
    const log = this.#log.child({ object: item.key, attempt })
    const run = new Run(this.#clock, this.#definition.timeoutMs)
    this.#runs.add(run)
    const settled = this.#run(item.key, run.signal, attempt, log, informer, writes)
      .catch((error: unknown): Outcome => ({ kind: 'failed', error }))
      .then(outcome => {
        this.#runs.delete(run)
        run.end()
        this.#settle(item, run.timedOut ? { kind: 'failed', error: run.signal.reason } : outcome, log)
      })
    await Promise.race([settled, run.timeout])
    if (run.timedOut && this.#runs.has(run)) {
      this.#counts.timedOut++
      log.error(
        { timeoutMs: this.#definition.timeoutMs },
        'the run exceeds its time and is aborted; the object stays locked until it settles',
      )
    }
  }

  async #run(
    key: string,
    signal: AbortSignal,
    attempt: number,
    log: Logger,
    informer: Informer<T>,
    writes: OwnWrites<T>,
  ): Promise<Outcome> {
    const { model, finalizer } = this.#definition
    const caughtUp = await writes.caughtUp(
      key,
      this.#client,
      model,
      controllerDefaults.staleCacheTimeoutMs,
      signal,
    )
    if (!caughtUp) return { kind: 'stale' }
    const object = informer.get(key)
    if (object === undefined) return { kind: 'gone' }
    const client = new ObservedClient(this.#client, writes, signal)
    const context = { client, signal, log, attempt }
    switch (finalizerStep(object, finalizer)) {
      case 'none':
        return { kind: 'done', requeueAfterMs: undefined }
      case 'add':
        if (finalizer !== undefined) await addFinalizer(client, model, object, finalizer)
        return { kind: 'done', requeueAfterMs: undefined }
      case 'finalize':
        await this.#definition.finalize(object, context)
        if (finalizer !== undefined) {
          await removeFinalizer(client, model, object, finalizer, controllerDefaults.finalizerAttempts)
        }
        return { kind: 'done', requeueAfterMs: undefined }
      case 'reconcile':
        return {
          kind: 'done',
          requeueAfterMs: requeueAfterMs(await this.#definition.reconcile(object, context)),
        }
    }
  }

  /** Decides when the object is due again, and only then gives it back. */
  #settle({ key, priority }: WorkItem, outcome: Outcome, log: Logger): void {
    switch (outcome.kind) {
      case 'gone':
        this.#queue.forget(key)
        break
      case 'done':
        this.#counts.succeeded++
        this.#queue.forget(key)
        if (outcome.requeueAfterMs !== undefined) {
          this.#queue.addAfter(key, outcome.requeueAfterMs, { priority })
        }
        break
      case 'stale':
        this.#counts.stale++
        log.warn({}, 'the cache does not show the last write yet; trying again')
        this.#queue.addAfter(key, controllerDefaults.staleCacheRequeueMs, { priority })
        break
      case 'failed':
        this.#fail(key, priority, outcome.error, log)
    }
    this.#queue.done(key)
  }

  #fail(key: string, priority: number, error: unknown, log: Logger): void {
    this.#counts.failed++
    if (this.#queue.isShutDown) return
    if (error instanceof TerminalError) {
      log.error({ err: error }, 'failed for good; not tried again before the object changes')
      return
    }
    const retryAfterSeconds = isApiError(error) ? error.details?.retryAfterSeconds : undefined
    const delayMs = this.#queue.addRateLimited(key, {
      priority,
      ...(retryAfterSeconds !== undefined && { atLeastMs: retryAfterSeconds * 1000 }),
    })
    // Someone else was faster: the newer state comes with its event, and that is the ordinary course of things.
    if (isApiError(error, 'Conflict')) log.debug({ err: error, delayMs }, 'conflict; trying again')
    else log.warn({ err: error, delayMs }, 'failed; trying again')
  }
}

/** One run's signal and time. */
class Run {
  /** Resolves when the run has exceeded its time or was aborted. */
  readonly timeout: Promise<void>
  readonly #controller = new AbortController()
  readonly #cancelTimer: CancelTimer
  #resolveTimeout: () => void = () => {}
  #timedOut = false

  constructor(clock: Clock, timeoutMs: number) {
    // A run may have any number of requests under way, each of which listens; Node warns from the eleventh on.
    setMaxListeners(0, this.#controller.signal)
    this.timeout = new Promise(resolve => {
      this.#resolveTimeout = resolve
    })
    this.#cancelTimer =
      timeoutMs === Number.POSITIVE_INFINITY
        ? () => {}
        : clock.setTimeout(() => {
            this.#timedOut = true
            this.#controller.abort(new DOMException(`the run exceeded ${timeoutMs} ms`, 'TimeoutError'))
            this.#resolveTimeout()
          }, timeoutMs)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get timedOut(): boolean {
    return this.#timedOut
  }

  abort(reason: DOMException): void {
    this.#cancelTimer()
    this.#controller.abort(reason)
  }

  end(): void {
    this.#cancelTimer()
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
