import type { Revision } from '@setpoint/controller-runtime/api'
import type { Storage } from './contract.ts'

/**
 * A store whose whole content is being replaced. Until `complete` resolves, no server serves it: the embedded store
 * keeps its folder locked and the old content as it is; etcd has a mark, and the old content is gone.
 */
export interface Replacement {
  /** Takes the new content. It is empty at first, and all of its revisions are above the given one. */
  readonly storage: Storage
  /** True if transactions happen in the order in which they are sent, so that they need not wait for each other. */
  readonly keepsOrder: boolean
  /** Makes the new content that of the store. It is durable then, and earlier versions count as compacted. */
  complete(): Promise<void>
  /**
   * Closes the store. An embedded store that was not completed is the old one then; one on etcd stays incomplete.
   * Idempotent.
   */
  close(): Promise<void>
}

export interface ReplacementOptions {
  /** The new revisions are above this one, and above all that the store has given out. */
  readonly above: Revision
  /** Replaces a store that is not empty, or that another restore has left incomplete. */
  readonly force: boolean
  readonly signal: AbortSignal
}

/** The store has content, or an incomplete restore, and the caller did not ask to replace it. */
export class StoreNotEmptyError extends Error {
  override readonly name = 'StoreNotEmptyError'
}
