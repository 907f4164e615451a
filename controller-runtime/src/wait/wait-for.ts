import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import { type Clock, systemClock } from '../clock.ts'
import { linkedSignal } from '../linked-signal.ts'
import { Watcher, type WatcherEvent, type WatcherOptions } from '../watch/watcher.ts'
import type { WaitCondition } from './until.ts'

/** Options of `waitFor`. */
export interface WaitOptions {
  /** Default: no timeout. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  readonly clock?: Clock
  /** For the underlying watcher. */
  readonly watcher?: Pick<
    WatcherOptions,
    'log' | 'random' | 'backoffBaseMs' | 'backoffMaxMs' | 'healthyAfterMs'
  >
}

const waitKeys: KeysOf<WaitOptions> = { timeoutMs: true, signal: true, clock: true, watcher: true }

/** The condition did not hold in time. The message has the last observed state. */
export class WaitTimeoutError extends Error {
  override readonly name = 'WaitTimeoutError'
}

/**
 * Waits until an object, which need not exist yet, satisfies a condition. Returns the object, or undefined if the
 * condition holds for a missing object.
 *
 * The condition is checked on every observed state. While disconnected, short-lived states may be missed: wait for a
 * lasting one. A deleted object counts as missing; use `until.any(until.condition('Ready'), until.deleted())` to return
 * on deletion too. If the server cannot be reached or refuses, the wait continues until the timeout.
 *
 * @throws WaitTimeoutError after `timeoutMs`; the signal's reason when aborted; the error of the condition;
 *   TypeError for an unknown option, and for a name without the namespace that the kind needs; both at once.
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
  options: WaitOptions = {},
): Promise<T | undefined> {
  refuseUnknownKeys(options, waitKeys, 'the options of waitFor')
  const { timeoutMs, signal, clock = systemClock, watcher: watcherOptions } = options
  const ending = linkedSignal(signal)
  let seen = 'no response from the server yet'
  const cancelTimer =
    timeoutMs === undefined
      ? undefined
      : clock.setTimeout(() => {
          ending.abort(
            new WaitTimeoutError(`${model.kind} ${name}: condition not met within ${timeoutMs} ms: ${seen}`),
          )
        }, timeoutMs)
  try {
    const watcher = new Watcher(client, model, { ...watcherOptions, name, clock })
    for await (const event of watcher.events(ending.signal)) {
      if (event.type === 'bookmark') continue
      const object = stateIn(event)
      if (holds(condition, object)) return object
      seen =
        object === undefined
          ? 'the object does not exist'
          : `the object is at version ${object.metadata.version}`
    }
    throw ending.signal.reason
  } finally {
    cancelTimer?.()
    ending.dispose()
  }
}

/**
 * @throws TypeError for a condition that was not called, such as `until.deleted`: the function that it returns is true
 * for every object
 */
function holds<T extends ApiObject>(condition: WaitCondition<T>, object: T | undefined): boolean {
  const result: unknown = condition(object)
  if (typeof result === 'function')
    throw new TypeError('the condition returned a function: call it, as in until.deleted()')
  return Boolean(result)
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
