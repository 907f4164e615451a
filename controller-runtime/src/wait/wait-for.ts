import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { type Clock, systemClock } from '../clock.ts'
import { Watcher, type WatcherEvent, type WatcherOptions } from '../watch/watcher.ts'
import type { WaitCondition } from './until.ts'

/** How long is waited. */
export interface WaitOptions {
  /** Default: as long as it takes, or until aborted. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  readonly clock?: Clock
  /** For the watcher beneath. */
  readonly watcher?: Pick<
    WatcherOptions,
    'log' | 'random' | 'backoffBaseMs' | 'backoffMaxMs' | 'healthyAfterMs'
  >
}

/** The condition did not come to hold in time. The message says what was seen last. */
export class WaitTimeoutError extends Error {
  override readonly name = 'WaitTimeoutError'
}

/**
 * Waits until an object, which need not exist yet, satisfies a condition, and answers it as it was then: undefined
 * where the condition holds of an object that is not there. At once where it holds already.
 *
 * Every state that the server tells is looked at, but a state that lasts for a moment may pass unseen while the
 * connection is away: wait for what stays. An object that is deleted meanwhile is one that is not there; wait for
 * `until.any(until.condition('Ready'), until.deleted())` to hear of that instead of waiting on. A server that is away or
 * refuses is tried again until the time is over.
 *
 * @throws WaitTimeoutError after `timeoutMs`; the signal's reason when aborted; what the condition throws.
 */
export function waitFor<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  name: string,
  condition: (object: T | undefined) => object is T,
  options?: WaitOptions,
): Promise<T>
export function waitFor<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  name: string,
  condition: WaitCondition<T>,
  options?: WaitOptions,
): Promise<T | undefined>
export async function waitFor<T extends ApiObject>(
  client: Client,
  model: Model<T>,
  name: string,
  condition: WaitCondition<T>,
  { timeoutMs, signal, clock = systemClock, watcher: watcherOptions }: WaitOptions = {},
): Promise<T | undefined> {
  const ending = new AbortController()
  const both = signal === undefined ? ending.signal : AbortSignal.any([signal, ending.signal])
  let seen = 'the server has not answered'
  const cancelTimer =
    timeoutMs === undefined
      ? undefined
      : clock.setTimeout(() => {
          ending.abort(new WaitTimeoutError(`${model.kind} ${name}: not within ${timeoutMs} ms; ${seen}`))
        }, timeoutMs)
  try {
    const watcher = new Watcher(client, model, { ...watcherOptions, name, clock })
    for await (const event of watcher.events(both)) {
      if (event.type === 'bookmark') continue
      const object = stateIn(event)
      if (condition(object)) return object
      seen = object === undefined ? 'there is none' : `it is at version ${object.metadata.version}`
    }
    throw both.reason
  } finally {
    cancelTimer?.()
  }
}

function stateIn<T extends ApiObject>(event: Exclude<WatcherEvent<T>, { type: 'bookmark' }>): T | undefined {
  switch (event.type) {
    case 'replaced':
      return event.objects[0]
    case 'applied':
      return event.object
    case 'deleted':
      return undefined
  }
}
