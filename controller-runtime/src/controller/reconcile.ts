import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Lister } from '../cache/informer.ts'
import type { Client } from '../client/client.ts'
import type { Logger } from '../logger.ts'

/** What a reconcile or a finalize gets beside the object. */
export interface ReconcileContext {
  /**
   * Acts as the controller's plugin. What is written through it is seen by the controller's next run for that
   * object, and by every `lister` that is asked for later: a cache older than it is waited for.
   */
  readonly client: Client
  /** Aborted when the run exceeds the controller's `timeoutMs`, or when the manager stops and its patience is over. */
  readonly signal: AbortSignal
  /** Carries the controller, the object's name, the attempt, the reason and the reconcile id. */
  readonly log: Logger
  /** 1, and one more for each failure in a row of this object. */
  readonly attempt: number
  /** Whether a failure now is not tried again before the object changes; false where attempts are unlimited. */
  readonly isLastAttempt: boolean
  /** A UUID of this run, which its log lines and its span carry too. */
  readonly reconcileId: string
  /**
   * Reads the objects of the controller's model, or of one that it owns, watches or reads, from the cache; of a model
   * that was declared with several selections, the first. What this controller has written by now is in it, also what
   * it created or deleted, by whichever way it is read: the cache is waited for. So after a write, ask again.
   * @throws TypeError for any other model; StaleCacheError when the cache does not show the writes in time, which is
   *   not to be caught: it puts the run off.
   */
  lister<T extends ApiObject>(model: Model<T>): Promise<Lister<T>>
}

/** What a reconcile may answer; nothing at all means: until the next change. */
export interface ReconcileResult {
  /** Run again after this long at the latest; a change runs it earlier. At least 0. */
  readonly requeueAfterMs?: number
}

/**
 * Brings the world in line with an object. It must be idempotent: it runs at every start, after every change (of
 * which it sees the newest only) and again after a failure. The object is frozen; `structuredClone` gives a draft.
 *
 * A rejection runs it again after an exponential back-off, a TerminalError not before the next change.
 */
export type Reconcile<T extends ApiObject> = (
  object: T,
  context: ReconcileContext,
  // biome-ignore lint/suspicious/noConfusingVoidType: a function declared to return nothing is a fine reconcile.
) => Promise<ReconcileResult | void> | ReconcileResult | void

/**
 * Undoes what reconcile did outside the object. It may run more than once and after a reconcile that was cut off
 * half-way, so it must be idempotent. The finalizer goes only after it has resolved.
 */
export type Finalize<T extends ApiObject> = (object: T, context: ReconcileContext) => Promise<void> | void

/** A cache does not show the controller's own last write in time. A run that fails with it is put off. */
export class StaleCacheError extends Error {
  override readonly name = 'StaleCacheError'
}

/** A failure that trying again will not mend: no retry before the object changes. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError'
}
