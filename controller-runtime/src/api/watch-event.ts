import type { Status } from './errors.ts'
import type { ApiObject } from './object.ts'

/** The type of a change, relative to the objects that the selectors match. */
export type ChangeType = 'ADDED' | 'MODIFIED' | 'DELETED'

/** The object of a BOOKMARK: all changes up to its version have been sent. */
export interface BookmarkObject {
  apiVersion: string
  kind: string
  metadata: { version: string; resourceVersion: string; annotations?: Record<string, string> }
}

/** One event of a watch, as sent over the wire. */
export type WatchEvent<T = ApiObject> =
  | { type: ChangeType; object: T }
  | { type: 'BOOKMARK'; object: BookmarkObject }
  | { type: 'ERROR'; object: Status }

/** Close codes of the watch WebSocket. */
export const closeCodes = Object.freeze({
  normal: 1000,
  /** The server is shutting down: reconnect, to another server if there is one. */
  goingAway: 1001,
  /** The credentials have expired. */
  policyViolation: 1008,
  /** The server or a plugin failed to produce the next event. The last event is an ERROR with the reason. */
  internalError: 1011,
  /** The client was too slow, or the server is not ready: resume from the last version. */
  tryAgainLater: 1013,
  /** The server no longer keeps the requested version: list again. */
  expired: 4410,
})
