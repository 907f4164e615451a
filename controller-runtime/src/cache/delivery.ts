import type { DeepReadonly } from '../api/deep-readonly.ts'
import type { ApiObject } from '../api/object.ts'
import { objectKey } from '../api/object-key.ts'
import type { Clock } from '../clock.ts'
import { asFrozen } from '../freeze.ts'
import type { Logger } from '../logger.ts'
import { Yielder } from '../yielder.ts'
import type { Change } from './store.ts'

/**
 * Callbacks for the changes of an informer. The informer awaits a returned promise before the next call. If a callback
 * throws or rejects, the error is logged and the next call follows. Objects are frozen.
 */
export interface InformerHandler<T extends ApiObject = ApiObject> {
  /** `initial` is true if the object existed when the handler or the informer started. */
  onAdd?(object: DeepReadonly<T>, info: { readonly initial: boolean }): void | Promise<void>
  onUpdate?(before: DeepReadonly<T>, after: DeepReadonly<T>): void | Promise<void>
  /** `object` is the last known state. */
  onDelete?(object: DeepReadonly<T>): void | Promise<void>
}

interface Pending<T extends ApiObject> {
  before: T | undefined
  after: T | undefined
  last: T
  readonly initial: boolean
  /** Monotonic ms of the first change that is not delivered yet. */
  readonly since: number
}

/** How far a handler is behind. */
export interface HandlerLag {
  /** Objects with undelivered changes, including the one being handled. */
  readonly waiting: number
  /** Age of the oldest of these changes in ms, or 0. */
  readonly oldestMs: number
}

/**
 * Delivers changes to one handler, one at a time.
 *
 * Guarantees
 * - The handler sees states of each object in order, ending with the current one. While it is busy, several changes of
 *   an object are merged into one, so the backlog is bounded by the number of objects. A slow handler delays no other.
 * - An object that was deleted and recreated is reported as deleted and added, never as updated.
 * - A synchronous handler sees every change as it happens, except while a large batch, such as the initial objects, is
 *   delivered in slices.
 */
export class Delivery<T extends ApiObject> {
  /** Resolves when the handler has seen all initial objects, or is removed. Never rejects. */
  readonly synced: Promise<void>
  readonly #handler: InformerHandler<T>
  readonly #log: Logger
  readonly #clock: Clock
  readonly #yielder: Yielder
  /** By name, in the order of `since`: a later change updates the entry in place. */
  readonly #pending = new Map<string, Pending<T>>()
  #running = false
  /** `since` of the change being handled. */
  #busySince: number | undefined
  #removed = false
  /** Undefined until the initial objects are known. */
  #initialLeft: number | undefined
  #resolveSynced: () => void = () => {}

  constructor(handler: InformerHandler<T>, clock: Clock, log: Logger) {
    this.#handler = handler
    this.#log = log
    this.#clock = clock
    this.#yielder = new Yielder(clock)
    this.synced = new Promise(resolve => {
      this.#resolveSynced = resolve
    })
  }

  get lag(): HandlerLag {
    const [oldest] = this.#pending.values()
    const since = this.#busySince ?? oldest?.since
    return {
      waiting: this.#pending.size + (this.#busySince === undefined ? 0 : 1),
      oldestMs: since === undefined ? 0 : this.#clock.monotonic() - since,
    }
  }

  /** Delivers the initial objects. Called once, before any change. */
  begin(objects: readonly T[]): void {
    if (this.#removed) return
    this.#initialLeft = objects.length
    const since = this.#clock.monotonic()
    for (const object of objects) {
      this.#pending.set(objectKey(object.metadata), {
        before: undefined,
        after: object,
        last: object,
        initial: true,
        since,
      })
    }
    if (objects.length === 0) this.#resolveSynced()
    this.#start()
  }

  notify({ key, before, after, last }: Change<T>): void {
    if (this.#removed) return
    const waiting = this.#pending.get(key)
    if (waiting === undefined) {
      this.#pending.set(key, { before, after, last, initial: false, since: this.#clock.monotonic() })
    } else {
      waiting.after = after
      waiting.last = last
    }
    this.#start()
  }

  remove(): void {
    this.#removed = true
    this.#pending.clear()
    this.#resolveSynced()
  }

  #start(): void {
    if (this.#running) return
    this.#running = true
    void this.#run()
  }

  async #run(): Promise<void> {
    this.#yielder.begin()
    for (const [key, change] of this.#pending) {
      this.#pending.delete(key)
      this.#busySince = change.since
      try {
        for (const result of this.#calls(change)) {
          if (isThenable(result)) await result
          if (this.#removed) break
        }
      } catch (error) {
        this.#log.error({ err: error, object: key }, 'event handler failed')
      }
      this.#busySince = undefined
      if (change.initial && this.#initialLeft !== undefined && --this.#initialLeft === 0)
        this.#resolveSynced()
      const pause = this.#yielder.pause()
      if (pause !== undefined) await pause
    }
    this.#running = false
  }

  /** A generator, so that an addition is delivered only after the deletion before it. */
  *#calls({ before, after, last, initial }: Pending<T>): Generator<unknown, void> {
    const handler = this.#handler
    if (before === undefined) {
      if (after !== undefined) yield handler.onAdd?.(asFrozen(after), { initial })
    } else if (after === undefined) {
      yield handler.onDelete?.(asFrozen(last))
    } else if (before.metadata.uid !== after.metadata.uid) {
      yield handler.onDelete?.(asFrozen(before))
      yield handler.onAdd?.(asFrozen(after), { initial: false })
    } else if (before !== after) {
      yield handler.onUpdate?.(asFrozen(before), asFrozen(after))
    }
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value
}
