import { shownNumber } from '../api/echo.ts'
import { isRecord } from '../api/is-record.ts'
import { refuseUnknownKeys } from '../api/known-keys.ts'
import type { ApiObject } from '../api/object.ts'
import { objectKey } from '../api/object-key.ts'
import { Backoff } from '../backoff.ts'
import type { Lister } from '../cache/informer.ts'
import { type Clock, sleep } from '../clock.ts'
import type { Logger } from '../logger.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { priorities, type WorkQueue } from '../workqueue/work-queue.ts'
import { Yielder } from '../yielder.ts'

/** Limits and times of event sources. */
export const sourceDefaults = Object.freeze({
  /** A source is paused while this many keys are ready. */
  backlog: 10_000,
  /** First delay before a source that failed or ended is restarted; each further one doubles it. */
  backoffBaseMs: 1_000,
  backoffMaxMs: 60_000,
  /** A source that ran this long was healthy: the back-off starts over. */
  healthyAfterMs: 60_000,
})

/** The name of an object to reconcile. Default priority: that of a live change. */
export type SourceItem = string | { readonly name: string; readonly priority?: number }

/** What a source function receives. */
export interface SourceContext<T extends ApiObject = ApiObject> {
  readonly clock: Clock
  /** The cached objects of the controller's model. */
  readonly objects: Lister<T>
}

/**
 * Yields names of objects to reconcile, or `<namespace>/<name>` for a namespaced kind, from outside the API: a timer, a
 * queue, a stream of another system. A function is called again with back-off when its iterable fails or ends; a plain
 * iterable is read once.
 */
export type Source<T extends ApiObject = ApiObject> =
  | AsyncIterable<SourceItem>
  | ((signal: AbortSignal, context: SourceContext<T>) => AsyncIterable<SourceItem>)

/**
 * Returns a source that yields every object of the controller each `ms`, at the priority of initial work: a resync.
 * @throws TypeError if `ms` is not above 0.
 */
export function every(
  ms: number,
): (signal: AbortSignal, context: SourceContext) => AsyncIterable<SourceItem> {
  if (typeof ms !== 'number' || !(ms > 0))
    throw new TypeError(`the interval must be a number above 0, is ${shownNumber(ms)}`)
  return async function* (signal, { clock, objects }) {
    for (;;) {
      await sleep(clock, ms, signal)
      for (const { metadata } of objects.list())
        yield { name: objectKey(metadata), priority: priorities.initial }
    }
  }
}

export interface SourceRunOptions<T extends ApiObject> extends SourceContext<T> {
  readonly queue: WorkQueue
  readonly log: Logger
  /** Returns a number in [0, 1). */
  readonly random: () => number
}

/**
 * Reads a source until the signal is aborted. Never rejects: errors of the source are logged. A source that ignores the
 * signal is abandoned.
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
      log.warn({}, 'event source ended')
    } catch (error) {
      if (signal.aborted) return
      log.error({ err: error }, 'event source failed')
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
  const yielder = new Yielder(clock)
  const iterator = items[Symbol.asyncIterator]()
  try {
    for (;;) {
      await queue.whenBelow(sourceDefaults.backlog, signal)
      const next = await unlessAborted(iterator.next(), signal)
      if (next.done === true) return
      const { name, priority = priorities.live } = read(next.value)
      queue.add(name, { priority, reason: 'source' })
      await yielder.pause()
    }
  } finally {
    // Not awaited: a generator that ignores the signal never returns.
    void Promise.resolve()
      .then(() => iterator.return?.())
      .catch(() => {})
  }
}

/** @throws TypeError if the value is not an item. */
function read(item: unknown): { readonly name: string; readonly priority?: number } {
  const { name, priority, ...others } = isRecord(item) ? item : { name: item }
  refuseUnknownKeys(others, { name: true, priority: true }, 'an item of the source')
  if (typeof name !== 'string' || name === '') {
    throw new TypeError('a source must yield names, or objects with a name')
  }
  if (priority === undefined) return { name }
  // The queue could not find an element whose priority differs from itself.
  if (typeof priority !== 'number' || Number.isNaN(priority))
    throw new TypeError(`the priority of an item of the source must be a number, is ${String(priority)}`)
  return { name, priority }
}
