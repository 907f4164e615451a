import type { ApiObject } from '../api/object.ts'
import type { Client } from '../client/client.ts'
import type { Logger } from '../logger.ts'

/** What a reconcile or a finalize gets beside the object. */
export interface ReconcileContext {
  /**
   * Acts as the controller's plugin. What is written through it is seen by the controller's next run for that
   * object: a cache older than it is waited for.
   */
  readonly client: Client
  /** Aborted when the run exceeds the controller's `timeoutMs`, or when the manager stops and its patience is over. */
  readonly signal: AbortSignal
  /** Carries the controller and the object's name. */
  readonly log: Logger
  /** 1, and one more for each failure in a row of this object. */
  readonly attempt: number
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

/** A failure that trying again will not mend: no retry before the object changes. */
export class TerminalError extends Error {
  override readonly name = 'TerminalError'
}
