import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { objectKey } from '../api/object-key.ts'
import type { Lister } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import { type CallObserver, observeClient } from '../client/observed-client.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { RandomSource } from '../random.ts'
import type { WorkItem } from '../workqueue/work-queue.ts'
import type { ReconcileContext } from './reconcile.ts'

/** What a run needs from its controller. */
export interface RunHost {
  /** The controller's name. */
  readonly name: string
  /** The kind of the objects that are reconciled. */
  readonly model: Model
  readonly client: Client
  readonly log: Logger
  readonly clock: Clock
  readonly randomSource: RandomSource
  /** Throws if this process may no longer act as the leader. */
  readonly leadershipGuard: (() => void) | undefined
  wrote(model: Model, object: ApiObject, removed: boolean): void
  uncertain(model: Model, name: string): void
  lister<T extends ApiObject>(model: Model<T>, signal: AbortSignal): Promise<Lister<T>>
}

/** One run for one object. Its parts are created on first use, since most runs have nothing to do. */
export class Run implements CallObserver {
  readonly item: WorkItem
  readonly attempt: number
  /** Monotonic ms. */
  readonly beganAt: number
  /** Frees the worker. */
  readonly free: () => void
  isLastAttempt = false
  /** Whether the run has exceeded its timeout. */
  timedOut = false
  /** Whether the controller has gone to standby since. */
  interrupted = false
  /** Whether the leadership guard refused the run or one of its writes. */
  lacksLeadership = false
  /** The version of the run's last write of its own object. */
  ownWrite: string | undefined
  /** Calls of the client that have not settled. */
  pendingCalls = 0
  readonly #host: RunHost
  #abort: AbortController | undefined
  #abortReason: Error | undefined
  #client: Client | undefined
  #log: Logger | undefined
  #reconcileId: string | undefined

  constructor(host: RunHost, item: WorkItem, attempt: number, beganAt: number, free: () => void) {
    this.#host = host
    this.item = item
    this.attempt = attempt
    this.beganAt = beganAt
    this.free = free
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController()
      // Every pending request listens; Node warns from the eleventh listener on.
      setMaxListeners(0, this.#abort.signal)
      if (this.#abortReason !== undefined) this.#abort.abort(this.#abortReason)
    }
    return this.#abort.signal
  }

  /** The reason if the run was aborted. */
  get abortReason(): Error | undefined {
    return this.#abortReason
  }

  get client(): Client {
    this.#client ??= observeClient(this.#host.client, this, this.signal, this.#host.name)
    return this.#client
  }

  get log(): Logger {
    this.#log ??= this.#host.log.child({
      object: this.item.key,
      attempt: this.attempt,
      reason: this.item.reason,
      reconcileId: this.reconcileId,
    })
    return this.#log
  }

  get reconcileId(): string {
    this.#reconcileId ??= randomUUID()
    return this.#reconcileId
  }

  /** A plain object, so that it can be destructured and spread. */
  context(): ReconcileContext {
    const run = this
    return {
      attempt: run.attempt,
      isLastAttempt: run.isLastAttempt,
      clock: run.#host.clock,
      random: (name, bytes) => run.#host.randomSource(`${run.item.key}/${name}`, bytes),
      get client() {
        return run.client
      },
      get signal() {
        return run.signal
      },
      get log() {
        return run.log
      },
      get reconcileId() {
        return run.reconcileId
      },
      lister: model => run.#host.lister(model, run.signal),
    }
  }

  abort(reason: Error): void {
    this.#abortReason ??= reason
    this.#abort?.abort(reason)
  }

  /** Aborts the run and frees its worker. */
  interrupt(reason: Error): void {
    this.interrupted = true
    this.abort(reason)
    this.free()
  }

  /** @throws the error of the leadership guard. */
  writing(): void {
    try {
      this.#host.leadershipGuard?.()
    } catch (error) {
      this.lacksLeadership = true
      throw error
    }
  }

  began(): void {
    this.pendingCalls++
  }

  settled(): void {
    this.pendingCalls--
  }

  wrote(model: Model, object: ApiObject, removed: boolean): void {
    const { group, plural } = this.#host.model
    if (model.group === group && model.plural === plural && objectKey(object.metadata) === this.item.key)
      this.ownWrite = object.metadata.version
    this.#host.wrote(model, object, removed)
  }

  uncertain(model: Model, name: string): void {
    this.#host.uncertain(model, name)
  }
}
