import type { Status } from './errors.ts'
import type { ApiObject } from './object.ts'

/** What a change is to a watcher: of the objects that its selectors match. */
export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED'

/** What a BOOKMARK carries: everything up to its version has been sent. */
export interface BookmarkObject {
  apiVersion: string
  kind: string
  metadata: { version: string; resourceVersion: string; annotations?: Record<string, string> }
}

/** One event of a watch, as it stands on the wire. */
export type WatchEvent<T = ApiObject> =
  | { type: ChangeType; object: T }
  | { type: 'BOOKMARK'; object: BookmarkObject }
  | { type: 'ERROR'; object: Status }

/** Close codes of the watch WebSocket (contract, section 6). */
export const closeCodes = Object.freeze({
  normal: 1000,
  /** The server is draining: connect again, to another server if there is one. */
  goingAway: 1001,
  /** The credentials are no longer valid. */
  policyViolation: 1008,
  /** The client was too slow, or the server is not ready: resume from the last version. */
  tryAgainLater: 1013,
  /** The version asked for is no longer kept: list again. */
  expired: 4410,
})
