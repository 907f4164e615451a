import type { DeepReadonly } from '../api/deep-readonly.ts'
import { shownNumber } from '../api/echo.ts'
import { isRecord } from '../api/is-record.ts'
import { type KeysOf, unknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Lister } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import type { Clock } from '../clock.ts'
import type { Logger } from '../logger.ts'
import type { RandomSource } from '../random.ts'

/** What a reconciler or finalizer gets besides the object. */
export interface ReconcileContext {
  /**
   * Acts as the controller's plugin. Later runs for that object, and every `lister` requested later, see its writes:
   * they wait for the cache.
   */
  readonly client: Client
  /** Aborted when the run exceeds the controller's `timeoutMs`, and at shutdown after the drain timeout. */
  readonly signal: AbortSignal
  /** Has the controller, object name, attempt, reason and reconcile id as fields. */
  readonly log: Logger
  /** The controller's clock: the system's in production, a fake one in tests. */
  readonly clock: Clock
  /** Cryptographically secure in production, seeded by name and object in the conformance suite. */
  readonly random: RandomSource
  /** 1, plus the number of consecutive failures of this object. */
  readonly attempt: number
  /** If true, a failure now is not retried until the object changes. Always false with unlimited attempts. */
  readonly isLastAttempt: boolean
  /** A UUID of this run, also in its log lines and span. */
  readonly reconcileId: string
  /**
   * Returns the cache of the controller's model, or of one that it owns, watches or reads; if that was declared with
   * several selectors, the first. It waits until the cache shows all writes of this controller so far, so after a
   * write, request it again.
   * @throws TypeError for any other model; StaleCacheError if the cache does not show the writes in time. Do not catch
   *   it: it requeues the run.
   */
  lister<T extends ApiObject>(model: Model<T>): Promise<Lister<T>>
}

/** What a reconciler may return; undefined means: run again on the next change. */
export interface ReconcileResult {
  /** Requeues the object after this time at the latest. At least 0, which requeues it at once. */
  readonly requeueAfterMs?: number
}

const resultKeys: KeysOf<ReconcileResult> = { requeueAfterMs: true }

/** Returns the delay of a reconciler's result. @throws TypeError for anything but a result or nothing. */
export function requeueAfterMsOf(result: unknown): number | undefined {
  const expected = 'reconcile must return { requeueAfterMs } or nothing'
  if (result === undefined || result === null) return undefined
  if (!isRecord(result)) throw new TypeError(`${expected}, returned ${describe(result)}`)
  const [problem, ...more] = unknownKeys(result, resultKeys, 'the result')
  // One unknown key is a misspelling; more are another object, such as the one that a call of the client returns.
  if (more.length > 0) throw new TypeError(`${expected}, returned ${describe(result)}`)
  if (problem !== undefined) throw new TypeError(`${expected}: ${problem}`)
  const { requeueAfterMs: ms } = result
  if (ms === undefined) return undefined
  if (typeof ms !== 'number' || !(ms >= 0)) {
    throw new TypeError(`requeueAfterMs must be a number of at least 0, is ${shownNumber(ms)}`)
  }
  return ms
}

/**
 * @throws TypeError if a finalizer returned anything: the finalizer is removed once it resolves, whatever its result.
 */
export function refuseFinalizeResult(result: unknown): void {
  if (result === undefined || result === null) return
  throw new TypeError(
    `finalize must return nothing, returned ${describe(result)}; to keep the finalizer and run again, throw an error`,
  )
}

function describe(result: unknown): string {
  if (typeof result === 'string') return 'a string'
  if (Array.isArray(result)) return 'an array'
  if (isRecord(result)) return `an object with ${Object.keys(result).slice(0, 3).join(', ') || 'no keys'}`
  return typeof result === 'function' ? 'a function' : `the ${typeof result} ${String(result)}`
}

/**
 * Reconciles an object. It must be idempotent: it runs at every start, after changes (with the newest state only), and
 * after failures. The object is frozen; `mutableCopy` returns a copy that can be changed.
 *
 * A rejection is retried with exponential back-off; a TerminalError only after the next change. Any other result is a
 * rejection with a TypeError.
 */
export type Reconcile<T extends ApiObject> = (
  object: DeepReadonly<T>,
  context: ReconcileContext,
  // biome-ignore lint/suspicious/noConfusingVoidType: a function declared to return nothing is a valid reconciler.
) => Promise<ReconcileResult | void> | ReconcileResult | void

/**
 * Undoes what reconcile did outside the object. It must be idempotent: it may run more than once, and after an
 * interrupted reconcile. The finalizer is removed only after it has resolved. A result is a rejection with a TypeError.
 */
export type Finalize<T extends ApiObject> = (
  object: DeepReadonly<T>,
  context: ReconcileContext,
) => Promise<void> | void

/** A cache does not show the controller's own last write in time. The run is requeued. */
export class StaleCacheError extends Error {
  override readonly name = 'StaleCacheError'
}

/** An error that a retry cannot fix: no retry until the object changes. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError'
}
