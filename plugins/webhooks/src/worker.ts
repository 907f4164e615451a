import { setMaxListeners } from 'node:events'
import {
  type ApiObject,
  aborted,
  type Client,
  type Clock,
  type Logger,
  type PluginContext,
  settledWithin,
  sleep,
} from '@setpoint/controller-runtime'
import { Backlog } from './backlog.ts'
import type { Courier } from './courier.ts'
import { DeadLetters } from './dead-letters.ts'
import { type Delivery, type DeliveryInput, deliveryOf } from './delivery.ts'
import { beginning, type FeedEvent, feed } from './feed.ts'
import { forgetSubscription, type Metrics } from './metrics.ts'
import { Progress, type StatusPatch } from './progress.ts'
import { Report } from './report.ts'
import { backoffMs, pluralOf, type SubscribedKind, type SubscriptionObject } from './subscription.ts'

/** Times of a worker, in ms. */
export const workerDefaults = Object.freeze({
  /** For requests in progress to get their response when the worker ends, so that they are not repeated. */
  graceMs: 2_000,
  /** For the last write of the progress. */
  lastWriteMs: 2_000,
})

/** Why a worker has ended. */
export type WorkerResult =
  /** `restart`: the subscription or its progress has changed; read it and start over. */
  | { readonly type: 'stopped' | 'gone' | 'restart' }
  /** The subscription is deleted. `left` changes were read and not settled in time. */
  | { readonly type: 'drained'; readonly left: number }

/** What all workers of a process share. */
export interface WorkerSurroundings {
  readonly client: Client
  readonly courier: Courier
  readonly metrics: Metrics
  readonly events: PluginContext['events']
  readonly clock: Clock
  /** In [0, 1). */
  readonly random: () => number
  readonly log: Logger
}

/**
 * Delivers the changes of one subscription, from the cursors in its status on.
 *
 *     feed of each kind ──▶ backlog, in order for each object ──▶ courier ──▶ settled: delivered, or a dead letter
 *                                                                               │
 *                       status.cursors ◀── oldest change that is not settled ◀──┘
 *
 * Guarantees
 * - A cursor never passes a change that is not settled, so a process that starts from the cursor misses nothing.
 * - The next change of an object is sent once the previous one is settled.
 * - The condition `Ready` becomes True in the write that stores the first cursors, so a crash does not move the start.
 */
export class Worker {
  readonly #subscription: SubscriptionObject
  readonly #around: WorkerSurroundings
  readonly #log: Logger
  readonly #backlog: Backlog
  readonly #report: Report
  readonly #progress: Progress
  readonly #deadLetters: DeadLetters
  /** Aborted when nothing new is to begin. */
  readonly #closing = new AbortController()
  /** Aborted when requests in progress are to end. */
  readonly #aborting = new AbortController()
  /** By resource: everything up to this version has been read. */
  readonly #read = new Map<string, string>()
  /** The version that a deleted subscription has to reach. */
  readonly #target: bigint | undefined
  #result: WorkerResult = { type: 'stopped' }

  /** @param subscription as it is stored now */
  constructor(subscription: SubscriptionObject, around: WorkerSurroundings) {
    const { metadata } = subscription
    const { client, clock } = around
    this.#subscription = subscription
    this.#around = around
    this.#log = around.log.child({ subscription: metadata.name })
    // Every pending delivery may listen to them.
    setMaxListeners(0, this.#closing.signal, this.#aborting.signal)
    this.#target = metadata.deletionTimestamp === undefined ? undefined : BigInt(metadata.version)
    this.#backlog = new Backlog(
      delivery => this.#settle(delivery),
      () => this.#changed(),
    )
    this.#report = new Report(subscription, clock)
    this.#deadLetters = new DeadLetters(client, subscription, around.courier.keys)
    this.#progress = new Progress({
      client,
      subscription,
      clock,
      log: this.#log,
      snapshot: () => this.#snapshot(),
      onGone: () => this.#end({ type: 'gone' }),
      onSuperseded: () => this.#end({ type: 'restart' }),
    })
  }

  /** Runs until the signal is aborted, the subscription changes, or it is deleted and drained. Called once. */
  async run(signal: AbortSignal): Promise<WorkerResult> {
    const onAbort = () => this.#end({ type: 'stopped' })
    if (signal.aborted) onAbort()
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      await this.#deliverAll()
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
      this.#end({ type: 'restart' })
      await this.#close()
    }
    return this.#result
  }

  /** Ends, to be started over with the changed subscription. */
  restart(): void {
    this.#end({ type: 'restart' })
  }

  #end(result: WorkerResult): void {
    if (this.#closing.signal.aborted) return
    this.#result = result
    this.#closing.abort(new DOMException('the worker is ending', 'AbortError'))
  }

  async #deliverAll(): Promise<void> {
    const { kinds, signingKey } = this.#subscription.spec
    this.#startCursors()
    const ended = this.#target === undefined ? aborted(this.#closing.signal) : this.#deadline()
    if (!this.#around.courier.keys.has(signingKey)) {
      this.#report.refused('SigningKeyMissing', `the setting signingKeys has no key ${signingKey}`)
      this.#progress.soon()
      await ended
      return
    }
    const drained = Promise.all(kinds.map(kind => this.#follow(kind)))
    await Promise.race([drained, ended])
    this.#end({ type: 'drained', left: this.#backlog.size })
  }

  /** Resolves when a deleted subscription has had its time. */
  async #deadline(): Promise<void> {
    const { metadata, spec } = this.#subscription
    const { clock } = this.#around
    const endsAt = Date.parse(metadata.deletionTimestamp ?? '') + spec.drainSeconds * 1000
    await sleep(clock, Math.max(0, endsAt - clock.now()), this.#closing.signal)
    this.#end({ type: 'drained', left: this.#backlog.size })
  }

  /** Determines where the feeds start. */
  #startCursors(): void {
    const { metadata, spec, status } = this.#subscription
    const { replay } = spec
    const isReplay =
      replay !== undefined &&
      (replay.fromVersion !== status?.replayed?.fromVersion || replay.token !== status?.replayed?.token)
    if (isReplay)
      this.#record('Normal', 'Replay', `delivering the changes after version ${replay.fromVersion}`)
    for (const kind of spec.kinds) {
      const { apiVersion } = kind
      const plural = pluralOf(kind)
      const stored = status?.cursors?.find(each => each.apiVersion === apiVersion && each.plural === plural)
      this.#read.set(resourceOf(kind), isReplay ? replay.fromVersion : (stored?.version ?? metadata.version))
    }
  }

  /** Reads the changes of a kind. Ends when a deleted subscription has settled them. */
  async #follow(kind: SubscribedKind): Promise<void> {
    const resource = resourceOf(kind)
    const { client, clock, random } = this.#around
    const { signal } = this.#closing
    const events = feed(
      {
        client,
        kind,
        cursor: this.#readOf(resource),
        brief: this.#target !== undefined,
        onWatch: error => {
          if (this.#report.watched(resource, error)) this.#progress.soon()
        },
        clock,
        random,
        log: this.#log,
      },
      signal,
    )
    for await (const event of events) {
      await this.#take(kind, event)
      if (this.#target !== undefined && BigInt(this.#readOf(resource)) >= this.#target) break
    }
    await this.#backlog.whenSettled(resource, signal)
  }

  async #take(kind: SubscribedKind, event: FeedEvent): Promise<void> {
    const { version } = event
    switch (event.type) {
      case 'bookmark':
        this.#progress.later()
        break
      case 'state':
        await this.#resync(kind, event.objects, version)
        break
      default:
        await this.#add({
          kind,
          event: event.type,
          version,
          object: event.object,
          floor: String(BigInt(version) - 1n),
        })
    }
    this.#read.set(resourceOf(kind), version)
  }

  /** Delivers the current state. The cursor stays behind until all of it is settled. */
  async #resync(kind: SubscribedKind, objects: readonly ApiObject[], version: string): Promise<void> {
    const resource = resourceOf(kind)
    const { signal } = this.#closing
    const floor = this.#readOf(resource)
    if (floor === beginning) this.#record('Normal', 'Resync', `delivering the state of ${resource}`)
    else {
      const message = `the changes of ${resource} after version ${floor} are no longer kept; delivering the state`
      this.#record('Warning', 'Resync', message)
    }
    this.#around.metrics.resyncs.inc({ subscription: this.#subscription.metadata.name })
    for (const object of objects) await this.#add({ kind, event: 'resync', version, object, floor })
    await this.#backlog.whenSettled(resource, signal)
    await this.#add({ kind, event: 'resynced', version, floor })
    await this.#backlog.whenSettled(resource, signal)
  }

  async #add(input: Omit<DeliveryInput, 'subscription'>): Promise<void> {
    const delivery = deliveryOf({ ...input, subscription: this.#subscription })
    const now = this.#around.clock.monotonic()
    await this.#backlog.add(resourceOf(input.kind), delivery, now, this.#closing.signal)
  }

  /** Sends a delivery until it is accepted or a dead letter. @throws when the worker ends */
  async #settle(delivery: Delivery): Promise<void> {
    const { clock, random } = this.#around
    const { spec } = this.#subscription
    for (let attempts = 1; ; attempts++) {
      const { failure } = await this.#attempt(delivery)
      if (failure === undefined) {
        this.#report.delivered(delivery)
        break
      }
      if (this.#report.failed(delivery, failure)) {
        this.#record('Warning', 'DeliveryFailed', `${delivery.object}: ${failure}`)
        this.#progress.soon()
      } else this.#progress.later()
      // The dead letter of a deleted subscription would be deleted with it, and prolong a deletion in the foreground.
      const mayBury = this.#target === undefined && attempts >= spec.maxAttempts
      if (mayBury && (await this.#bury(delivery, attempts, failure))) {
        this.#report.settled(delivery)
        break
      }
      await sleep(clock, backoffMs(spec.backoff, attempts, random()), this.#closing.signal)
    }
  }

  async #attempt(delivery: Delivery): Promise<{ readonly failure?: string }> {
    const waiting = this.#closing.signal
    const sending = this.#aborting.signal
    waiting.throwIfAborted()
    try {
      return await this.#around.courier.attempt(this.#subscription, delivery, { waiting, sending })
    } catch (error) {
      if (waiting.aborted || sending.aborted) throw error
      this.#log.error({ err: error }, 'failed to send a delivery')
      return { failure: 'internal error' }
    }
  }

  /** Stores a dead letter. @returns false if it could not be stored: the delivery is retried, and not lost */
  async #bury(delivery: Delivery, attempts: number, reason: string): Promise<boolean> {
    try {
      const hasRoom = await this.#deadLetters.add(delivery, attempts, reason)
      this.#report.room(hasRoom)
      if (!hasRoom) return false
    } catch (error) {
      this.#log.warn({ err: error }, 'failed to store a dead letter')
      return false
    }
    this.#around.metrics.deadLetters.inc({ subscription: this.#subscription.metadata.name })
    this.#record('Warning', 'DeadLetter', `${delivery.object}: gave up after ${attempts} attempts: ${reason}`)
    return true
  }

  async #close(): Promise<void> {
    const { clock, metrics } = this.#around
    this.#progress.close()
    // Without a request in progress, the work on the backlog ends at once.
    const stopped = this.#backlog.stopped()
    await settledWithin(clock, stopped, workerDefaults.graceMs)
    this.#aborting.abort(this.#closing.signal.reason)
    await stopped
    if (this.#result.type !== 'gone') {
      const written = this.#progress.flush().catch((error: unknown) => {
        this.#log.debug({ err: error }, 'failed to write the last progress of a subscription')
      })
      await settledWithin(clock, written, workerDefaults.lastWriteMs)
    }
    const ended = this.#result.type === 'gone' || this.#result.type === 'drained'
    forgetSubscription(metrics, this.#subscription.metadata.name, { ended })
  }

  #snapshot(): StatusPatch {
    const { kinds, replay } = this.#subscription.spec
    return {
      ...this.#report.status(this.#backlog.size, this.#backlog.oldestSince),
      ...(replay && { replayed: { fromVersion: replay.fromVersion, token: replay.token ?? null } }),
      cursors: kinds.map(kind => {
        const resource = resourceOf(kind)
        const version = this.#backlog.oldestOf(resource)?.floor ?? this.#readOf(resource)
        return { apiVersion: kind.apiVersion, plural: pluralOf(kind), version }
      }),
    }
  }

  /** The backlog has changed. */
  #changed(): void {
    this.#progress.soon()
    const { clock, metrics } = this.#around
    const labels = { subscription: this.#subscription.metadata.name }
    const since = this.#backlog.oldestSince
    const oldest = since === undefined ? 0 : (clock.now() - (clock.monotonic() - since)) / 1000
    metrics.pending.set(labels, this.#backlog.size)
    metrics.oldest.set(labels, oldest)
  }

  #readOf(resource: string): string {
    return this.#read.get(resource) ?? this.#subscription.metadata.version
  }

  #record(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#around.events.record(this.#subscription, { type, reason, message })
  }
}

function resourceOf(kind: SubscribedKind): string {
  return `${pluralOf(kind)}.${kind.apiVersion}`
}
