import { setMaxListeners } from 'node:events'
import {
  aborted,
  type DeepReadonly,
  type PluginRunContext,
  sleep,
  unlessAborted,
} from '@setpoint/controller-runtime'
import { backoffMs, Subscription, type SubscriptionObject } from './subscription.ts'
import { Worker, type WorkerResult, type WorkerSurroundings } from './worker.ts'

/** Pauses after a failure to read or serve a subscription, in seconds. */
const retries = Object.freeze({ minSeconds: 1, maxSeconds: 30 })

/** The work on one subscription: a worker, and a new one whenever the subscription changes. */
interface Lane {
  /** The latest known `metadata.generation`. */
  generation: number
  worker: Worker | undefined
  ended: Promise<WorkerResult>
}

/**
 * Runs a worker for each subscription, while this process leads. The controller tells it which subscriptions there are,
 * and since when; a worker reads its subscription from the server before it starts, because a cache may be stale.
 */
export class Dispatcher {
  readonly #parts: Omit<WorkerSurroundings, 'client' | 'log'>
  /** By uid. */
  readonly #known = new Map<string, { readonly name: string; readonly generation: number }>()
  /** By uid. */
  readonly #lanes = new Map<string, Lane>()
  #session: PluginRunContext | undefined
  /** Woken when the workers run. */
  readonly #waiting: (() => void)[] = []

  constructor(parts: Omit<WorkerSurroundings, 'client' | 'log'>) {
    this.#parts = parts
  }

  /** Runs the workers until the signal is aborted and they have ended. */
  async run(context: PluginRunContext): Promise<void> {
    const { signal } = context
    // Every worker listens to it.
    setMaxListeners(0, signal)
    this.#session = context
    for (const [uid, { name, generation }] of this.#known) this.#start(uid, name, generation, context)
    for (const wake of this.#waiting.splice(0)) wake()
    await aborted(signal)
    this.#session = undefined
    await Promise.all([...this.#lanes.values()].map(({ ended }) => ended))
  }

  /** Starts the worker of a subscription, or starts it over if the subscription has changed. */
  apply({ metadata }: DeepReadonly<SubscriptionObject>): void {
    const { uid, name, generation } = metadata
    this.#known.set(uid, { name, generation })
    const lane = this.#lanes.get(uid)
    if (lane === undefined) {
      if (this.#session !== undefined) this.#start(uid, name, generation, this.#session)
    } else if (generation > lane.generation) {
      lane.generation = generation
      lane.worker?.restart()
    }
  }

  /**
   * Waits until a deleted subscription has delivered the changes before its deletion, or its time is over.
   * @returns the number of changes that were read and not settled
   * @throws the signal's reason if it is aborted; Error if the workers end first
   */
  async drain(subscription: DeepReadonly<SubscriptionObject>, signal: AbortSignal): Promise<number> {
    await this.#started(signal)
    this.apply(subscription)
    const lane = this.#lanes.get(subscription.metadata.uid)
    const result = lane && (await unlessAborted(lane.ended, signal))
    if (result?.type === 'gone') return 0
    if (result?.type === 'drained') return result.left
    throw new Error('the deliveries have stopped; the subscription is drained when they run again')
  }

  #start(uid: string, name: string, generation: number, session: PluginRunContext): void {
    const lane: Lane = { generation, worker: undefined, ended: Promise.resolve({ type: 'stopped' }) }
    this.#lanes.set(uid, lane)
    lane.ended = this.#serve(uid, name, lane, session).then(result => {
      this.#lanes.delete(uid)
      if (result.type !== 'stopped') this.#known.delete(uid)
      return result
    })
  }

  /** Never rejects. */
  async #serve(uid: string, name: string, lane: Lane, session: PluginRunContext): Promise<WorkerResult> {
    const { client, signal, log } = session
    for (let failures = 0; !signal.aborted; ) {
      try {
        const live = await client.getIfExists(Subscription, name, { signal })
        if (live === undefined || live.metadata.uid !== uid) return { type: 'gone' }
        // The read may have begun before the change that this lane knows about.
        if (live.metadata.generation < lane.generation) continue
        lane.generation = live.metadata.generation
        lane.worker = new Worker(live, { ...this.#parts, client, log })
        const result = await lane.worker.run(signal)
        failures = 0
        if (result.type !== 'restart') return result
      } catch (error) {
        if (signal.aborted) break
        log.warn({ err: error, subscription: name }, 'failed to serve a subscription, retrying')
        const pauseMs = backoffMs(retries, ++failures, this.#parts.random())
        await sleep(this.#parts.clock, pauseMs, signal).catch(() => {})
      } finally {
        lane.worker = undefined
      }
    }
    return { type: 'stopped' }
  }

  /** Resolves when the workers run. */
  async #started(signal: AbortSignal): Promise<void> {
    while (this.#session === undefined) {
      const start = new Promise<void>(resolve => {
        this.#waiting.push(resolve)
      })
      await unlessAborted(start, signal)
    }
  }
}
