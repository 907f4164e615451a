import type { ApiObject } from '../api/object.ts'
import { Breather } from '../breather.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { Change } from './store.ts'

/**
 * What is told of the objects of an informer. A handler that answers a promise gets nothing more before that has
 * settled; one that throws or rejects is logged and gets the next event. Objects are frozen.
 */
export interface InformerHandler<T extends ApiObject = ApiObject> {
  /** `initial`: the object was there when the handler, or the informer, began. */
  onAdd?(object: T, info: { readonly initial: boolean }): void | Promise<void>
  onUpdate?(before: T, after: T): void | Promise<void>
  /** `object` is the last state that is known. */
  onDelete?(object: T): void | Promise<void>
}

interface Pending<T extends ApiObject> {
  before: T | undefined
  after: T | undefined
  last: T
  readonly initial: boolean
  /** Monotonic ms of the first change that is not told yet. */
  readonly since: number
}

/** How far a handler is behind. */
export interface HandlerLag {
  /** Objects of which it has still to be told something, the one that it is busy with included. */
  readonly waiting: number
  /** Ms since the oldest of those changes; 0 where nothing waits. */
  readonly oldestMs: number
}

/**
 * Delivers changes to one handler, one after the other.
 *
 * Guarantees
 * - Of each object the handler is told a sequence of states in their order, ending with the present one. While it is
 *   busy, several changes of one object become one; hence what waits is bounded by the number of objects, however
 *   slow the handler is, and it delays nobody else. `lag` says how far it is behind.
 * - An object that was deleted and made again is told as deleted and added, never as updated.
 * - A handler that answers no promise is called within the change itself and sees each, unless it is still being told
 *   so much at once, such as the initial objects, that others are let run in between.
 */
export class Delivery<T extends ApiObject> {
  /** Resolves when the handler has been told everything that was there when it began, or is removed. Never rejects. */
  readonly synced: Promise<void>
  readonly #handler: InformerHandler<T>
  readonly #log: Logger
  readonly #clock: Clock
  readonly #breather: Breather
  /** By name. Its order is that of `since`: an entry takes in later changes where it is. */
  readonly #pending = new Map<string, Pending<T>>()
  #running = false
  /** `since` of what the handler is busy with. */
  #busySince: number | undefined
  #removed = false
  /** Undefined until the initial objects are known. */
  #initialLeft: number | undefined
  #resolveSynced: () => void = () => {}

  constructor(handler: InformerHandler<T>, clock: Clock, log: Logger) {
    this.#handler = handler
    this.#log = log
    this.#clock = clock
    this.#breather = new Breather(clock)
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

  /** Everything there is at the beginning; comes once, before any change. */
  begin(objects: readonly T[]): void {
    if (this.#removed) return
    this.#initialLeft = objects.length
    const since = this.#clock.monotonic()
    for (const object of objects) {
      this.#pending.set(object.metadata.name, {
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

  notify({ name, before, after, last }: Change<T>): void {
    if (this.#removed) return
    const waiting = this.#pending.get(name)
    if (waiting === undefined) {
      this.#pending.set(name, { before, after, last, initial: false, since: this.#clock.monotonic() })
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
    this.#breather.begin()
    for (const [name, change] of this.#pending) {
      this.#pending.delete(name)
      this.#busySince = change.since
      try {
        for (const told of this.#tell(change)) {
          if (isThenable(told)) await told
          if (this.#removed) break
        }
      } catch (error) {
        this.#log.error({ err: error, object: name }, 'a handler failed; it goes on with the next event')
      }
      this.#busySince = undefined
      if (change.initial && this.#initialLeft !== undefined && --this.#initialLeft === 0)
        this.#resolveSynced()
      const pause = this.#breather.pause()
      if (pause !== undefined) await pause
    }
    this.#running = false
  }

  /** Lazily, so that an addition is told only after the deletion before it was taken in. */
  *#tell({ before, after, last, initial }: Pending<T>): Generator<unknown, void> {
    const handler = this.#handler
    if (before === undefined) {
      if (after !== undefined) yield handler.onAdd?.(after, { initial })
    } else if (after === undefined) {
      yield handler.onDelete?.(last)
    } else if (before.metadata.uid !== after.metadata.uid) {
      yield handler.onDelete?.(before)
      yield handler.onAdd?.(after, { initial: false })
    } else if (before !== after) {
      yield handler.onUpdate?.(before, after)
    }
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'then' in value
}
