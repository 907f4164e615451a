import type { ApiObject } from '../../api/object.ts'
import type { Revision } from '../../api/version.ts'
import type { ChangeType } from '../../api/watch-event.ts'

/** Everything that is known of a run: what writers were told, what watchers and lists showed. */
export interface RunLog {
  readonly writes: readonly WriteRecord[]
  readonly watchers: readonly WatcherRecord[]
  readonly lists: readonly ListRecord[]
  /** Whether objects were also changed by writers that did not report. */
  readonly otherWriters: boolean
  /** The mark that the last write left in an object (see `WriteRecord.mark`). */
  readonly markOf: (object: ApiObject) => string | undefined
}

/** What a client knows of a write. */
export type WriteOutcome =
  /** Answered with success. `object` as it was answered, where it was read. */
  | { readonly kind: 'acknowledged'; readonly version: Revision; readonly object?: ApiObject }
  /** Answered with a refusal, or never sent: it must never show. */
  | { readonly kind: 'refused'; readonly why: string }
  /** No answer, or 504: it happened or not. */
  | { readonly kind: 'unknown' }

/** One write, and what its writer was told. */
export interface WriteRecord {
  readonly verb: 'create' | 'update' | 'delete'
  readonly name: string
  /** What the write leaves in the object; another one for each attempt. Undefined for a delete, or without marks. */
  readonly mark?: string | undefined
  readonly outcome: WriteOutcome
}

/** What one watcher was told over all of its connections. */
export interface WatcherRecord {
  readonly name: string
  /** Whether an object is what it watches, by its selector and, where it watches one, by its name. */
  readonly selects: (object: ApiObject) => boolean
  /** Whether it watches everything, so that what it sees is what happened. */
  readonly witness: boolean
  readonly connections: readonly ConnectionRecord[]
}

/** One connection of a watcher. */
export interface ConnectionRecord {
  /** `present`: it began with what there is. A version: resumed from there. */
  readonly start: 'present' | Revision
  /** The highest version that had been acknowledged to any writer when it was opened; 0 for none. */
  readonly acknowledged: Revision
  /** In the order of their arrival. */
  readonly events: readonly EventRecord[]
}

/** One event as a watcher got it. */
export type EventRecord = ChangeRecord | BookmarkRecord | ErrorRecord

export interface ChangeRecord {
  readonly type: ChangeType
  readonly name: string
  readonly version: Revision
  readonly object: ApiObject
}

export interface BookmarkRecord {
  readonly type: 'BOOKMARK'
  readonly version: Revision
  readonly endsInitialEvents: boolean
}

export interface ErrorRecord {
  readonly type: 'ERROR'
  /** Of its Status. */
  readonly code: number
  readonly message: string
  /** The highest version up to which the store had been told to compact when this came; 0 for none. */
  readonly compacted: Revision
}

/** A list of everything that matched: all its pages, at one version. */
export interface ListRecord {
  readonly name: string
  readonly selects: (object: ApiObject) => boolean
  readonly version: Revision
  readonly objects: readonly ApiObject[]
  /** As for a connection. */
  readonly acknowledged: Revision
}
