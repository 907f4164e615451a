import type { ApiObject, ChangeType, Revision } from '@setpoint/controller-runtime/api'

/** The record of a run: what writers, watchers and lists received. */
export interface RunLog {
  readonly writes: readonly WriteRecord[]
  readonly watchers: readonly WatcherRecord[]
  readonly lists: readonly ListRecord[]
  /** Whether there were writers that did not report. */
  readonly otherWriters: boolean
  /** Returns the mark that the last write left in an object (see `WriteRecord.mark`). */
  readonly markOf: (object: ApiObject) => string | undefined
  /** Returns the values that no other object may have. */
  readonly uniqueOf: (object: ApiObject) => readonly string[]
}

/** The outcome of a write as its client knows it. */
export type WriteOutcome =
  /** Success; `object` is the one in the response, if it was read. */
  | { readonly kind: 'acknowledged'; readonly version: Revision; readonly object?: ApiObject }
  /** Refused, or never sent: it must not have happened. */
  | { readonly kind: 'refused'; readonly why: string }
  /** No response, or 504: it may or may not have happened. */
  | { readonly kind: 'unknown' }

/** One write and its outcome. */
export interface WriteRecord {
  readonly verb: 'create' | 'update' | 'delete'
  readonly name: string
  /** A unique value per attempt that the write leaves in the object. Undefined for a delete, or without marks. */
  readonly mark?: string | undefined
  readonly outcome: WriteOutcome
}

/** What one watcher received over all of its connections. */
export interface WatcherRecord {
  readonly name: string
  /** Returns true for objects that it watches, by selector or by name. */
  readonly selects: (object: ApiObject) => boolean
  /** Whether it watches everything, so that its events are the true history. */
  readonly witness: boolean
  readonly connections: readonly ConnectionRecord[]
}

/** One connection of a watcher. */
export interface ConnectionRecord {
  /** `present`: started without a version. A version: resumed from there. */
  readonly start: 'present' | Revision
  /** The highest version acknowledged to any writer when it was opened, or 0. */
  readonly acknowledged: Revision
  /** In order of arrival. */
  readonly events: readonly EventRecord[]
}

/** One event as received by a watcher. */
export type EventRecord = ChangeRecord | BookmarkRecord | ErrorRecord

export interface ChangeRecord {
  readonly type: ChangeType
  readonly name: string
  readonly version: Revision
  readonly object: ApiObject
}

interface BookmarkRecord {
  readonly type: 'BOOKMARK'
  readonly version: Revision
  readonly endsInitialEvents: boolean
}

interface ErrorRecord {
  readonly type: 'ERROR'
  /** The code of its Status. */
  readonly code: number
  readonly message: string
  /** The highest version that the store had been asked to compact to at that time, or 0. */
  readonly compacted: Revision
}

/** A complete list at one version. */
export interface ListRecord {
  readonly name: string
  readonly selects: (object: ApiObject) => boolean
  readonly version: Revision
  readonly objects: readonly ApiObject[]
  /** As in `ConnectionRecord`. */
  readonly acknowledged: Revision
}
