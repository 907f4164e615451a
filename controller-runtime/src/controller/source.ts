import type { ApiObject } from '../api/object.ts'
import { Backoff } from '../backoff.ts'
import { Breather } from '../breather.ts'
import type { Lister } from '../cache/informer.ts'
import { type Clock, sleep } from '../clock.ts'
import type { Logger } from '../logger.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { priorities, type WorkQueue } from '../workqueue/work-queue.ts'

/** Bounds and times of external sources. */
export const sourceDefaults = Object.freeze({
  /** A source is not asked for more while so many keys are ready: it is memory that it fills, not idle workers. */
  backlog: 10_000,
  /** First pause before a source that failed or ended is begun again; each further one doubles it. */
  backoffBaseMs: 1_000,
  backoffMaxMs: 60_000,
  /** A source that went on for this long is not held to account for what was before. */
  healthyAfterMs: 60_000,
})

/** The name of an object that needs work, with the priority of a live change unless it says otherwise. */
export type SourceItem = string | { readonly name: string; readonly priority?: number }

/** What a source gets that is a function. */
export interface SourceContext<T extends ApiObject = ApiObject> {
  readonly clock: Clock
  /** The objects of the controller's model, as its cache has them. */
  readonly objects: Lister<T>
}

/**
 * Something beside objects that says when there is work: a timer, a queue, a stream of another system. A function is
 * called again, after a pause that grows, when what it answered fails or ends; an iterable alone can be had once.
 */
export type Source<T extends ApiObject = ApiObject> =
  | AsyncIterable<SourceItem>
  | ((signal: AbortSignal, context: SourceContext<T>) => AsyncIterable<SourceItem>)

/**
 * Every object of the controller, again and again after `ms`, at the priority of initial work.
 * @throws TypeError for a time that is not above 0.
 */
export function every(
  ms: number,
): (signal: AbortSignal, context: SourceContext) => AsyncIterable<SourceItem> {
  if (!(ms > 0)) throw new TypeError(`the time between two rounds must be above 0, is ${ms}`)
  return async function* (signal, { clock, objects }) {
    for (;;) {
      await sleep(clock, ms, signal)
      for (const { metadata } of objects.list()) yield { name: metadata.name, priority: priorities.initial }
    }
  }
}

export interface SourceRunOptions<T extends ApiObject> extends SourceContext<T> {
  readonly queue: WorkQueue
  readonly log: Logger
  /** From 0 up to, but not including, 1. */
  readonly random: () => number
}

/**
 * Follows a source until the signal is aborted. Never rejects: what the source does wrong is logged and stays its own.
 * A source that does not heed the signal is left to itself.
 */
export async function runSource<T extends ApiObject>(
  source: Source<T>,
  options: SourceRunOptions<T>,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, random } = options
  const { backoffBaseMs, backoffMaxMs, healthyAfterMs } = sourceDefaults
  const backoff = new Backoff({ baseMs: backoffBaseMs, maxMs: backoffMaxMs, random })
  while (!signal.aborted) {
    const began = clock.monotonic()
    try {
      await follow(typeof source === 'function' ? source(signal, options) : source, options, signal)
      if (signal.aborted) return
      log.warn({}, 'a source has ended')
    } catch (error) {
      if (signal.aborted) return
      log.error({ err: error }, 'a source failed')
    }
    if (typeof source !== 'function') return
    if (clock.monotonic() - began >= healthyAfterMs) backoff.reset()
    await sleep(clock, backoff.next(), signal).catch(() => {})
  }
}

async function follow<T extends ApiObject>(
  items: AsyncIterable<SourceItem>,
  { queue, clock }: SourceRunOptions<T>,
  signal: AbortSignal,
): Promise<void> {
  const breather = new Breather(clock)
  const iterator = items[Symbol.asyncIterator]()
  try {
    for (;;) {
      await queue.whenBelow(sourceDefaults.backlog, signal)
      const next = await unlessAborted(iterator.next(), signal)
      if (next.done === true) return
      const { name, priority = priorities.live } = read(next.value)
      queue.add(name, { priority, reason: 'source' })
      await breather.pause()
    }
  } finally {
    // Not waited for: a generator that does not heed the signal never gets there.
    void Promise.resolve()
      .then(() => iterator.return?.())
      .catch(() => {})
  }
}

/** @throws TypeError for what is not an item. */
function read(item: unknown): { readonly name: string; readonly priority?: number } {
  const { name, priority } =
    typeof item === 'object' && item !== null
      ? { name: 'name' in item && item.name, priority: 'priority' in item ? item.priority : undefined }
      : { name: item, priority: undefined }
  if (typeof name !== 'string' || name === '') {
    throw new TypeError('a source must give names, or objects that have one')
  }
  return typeof priority === 'number' ? { name, priority } : { name }
}
