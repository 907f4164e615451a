import type { Fields } from '../support/json.ts'
import type { LeaderWrite, ServedRelease } from './world/world.ts'

/**
 * What a run did and what came of it, as plain data: the requests and watches of clients as the clients saw them, and the
 * changes of the store as they happened. The judges need nothing else.
 *
 * Times are simulated milliseconds. A call that ended before another one started was answered before the other was asked.
 */
export interface History {
  readonly calls: readonly Call[]
  readonly watches: readonly WatchRecord[]
  /** Every change of an object, in the order of revisions. */
  readonly commits: readonly Commit[]
  /** In the order of revisions. */
  readonly records: readonly RecordChange[]
  /** The ends of the definition of gears, with the keys of objects and unique values that were left. */
  readonly definitionEnds: readonly DefinitionEnd[]
  /** Which releases servers may have served, and when. */
  readonly served: readonly ServedRelease[]
  /** The release that every server got last. */
  readonly lastRelease: number
  /** Every change of the lease of the controllers. */
  readonly leases: readonly Commit[]
  readonly leaderWrites: readonly LeaderWrite[]
  /** True if nothing goes wrong. Plugins may be reloaded. */
  readonly isCalm: boolean
  readonly compactions: readonly { readonly at: number; readonly revision: number }[]
  /** When the store was restored, and the first revision at which it can be read again. */
  readonly restores: readonly { readonly at: number; readonly revision: number }[]
  /** The tokens that the operator put into the file, and when. */
  readonly tokens: readonly TokensAt[]
  /** When servers stood still. */
  readonly pauses: readonly { readonly server: number; readonly at: number; readonly until: number }[]
  /** When servers were started. */
  readonly starts: readonly { readonly at: number; readonly server: number }[]
  /** When the last fault had ended. Before it nothing has to succeed. */
  readonly healedAt: number
  /** When everything had to be done that was asked. */
  readonly endedAt: number
}

export interface TokensAt {
  readonly at: number
  readonly tokens: readonly { readonly token: string; readonly user: string }[]
}

/** The collection of a kind's objects. */
export interface Resource {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly plural: string
  readonly namespaced: boolean
  /** Field of `spec` whose values are unique in the kind. */
  readonly unique?: string
}

/** Which objects are meant. Every part that is given must be equal. */
export interface Selection {
  readonly namespace?: string | undefined
  readonly color?: string | undefined
  readonly size?: number | undefined
}

interface CallStart {
  readonly id: number
  readonly client: number
  readonly server: number
  readonly at: number
  readonly resource: Resource
  /** Undefined for a caller who may do everything. */
  readonly token?: string | undefined
}

/** What a write asks for, beside the object that it is about. */
export interface WriteRequest {
  readonly verb: 'create' | 'update' | 'merge' | 'apply' | 'finalize' | 'delete'
  readonly namespace: string | undefined
  readonly name: string
  /** The version that the object must have. */
  readonly version?: number | undefined
  /** The uid that the object must have. */
  readonly uid?: string | undefined
  /** The spec that is sent: all of it, or the fields that change. */
  readonly spec?: Fields | undefined
  /** A value that no other call leaves in the object. */
  readonly mark?: string | undefined
}

export type Outcome =
  | { readonly type: 'responded'; readonly at: number; readonly status: number; readonly body: unknown }
  /** No response came, so a write may have happened. */
  | { readonly type: 'unknown'; readonly at: number }
  /** The call had not ended when the run did. */
  | { readonly type: 'pending' }

export type Call = CallOf & { readonly outcome: Outcome }

/** A call without its outcome. */
export type CallOf = CallStart &
  (
    | { readonly type: 'write'; readonly request: WriteRequest }
    | {
        readonly type: 'get'
        readonly namespace: string | undefined
        readonly name: string
        /** It asked for what the server's cache has. */
        readonly stale: boolean
      }
    | {
        readonly type: 'list'
        readonly selection: Selection
        readonly stale: boolean
        /** The version whose state was asked for, if any. */
        readonly exact?: number | undefined
        /** Set for a page: the first page's call, and where this page begins in the whole list. */
        readonly page?: { readonly first: number; readonly offset: number } | undefined
      }
  )

export interface WatchRecord {
  readonly id: number
  /** It opens a watch again when one ends. */
  readonly watcher: string
  readonly client: number
  readonly server: number
  readonly at: number
  readonly resource: Resource
  /** Undefined for a caller who may do everything. */
  readonly token?: string | undefined
  readonly selection: Selection
  /** Undefined if it began with the present objects. */
  readonly from: number | undefined
  readonly messages: readonly Message[]
  /** Undefined if it was open when the run ended. */
  readonly end?: WatchEnd | undefined
}

export interface WatchEnd {
  readonly at: number
  /** The client ended it. */
  readonly byClient: boolean
  /** Of a refusal. */
  readonly status?: number | undefined
}

export interface Message {
  readonly at: number
  readonly type: string
  readonly object: unknown
}

/** One change of one object in the store. */
export interface Commit {
  readonly revision: number
  readonly at: number
  /** `<group>/<plural>` */
  readonly resource: string
  readonly namespace: string | undefined
  readonly name: string
  /** As the first version shows it; undefined for a deletion. */
  readonly object: Fields | undefined
  /** True for what a restore put or deleted. It deletes everything before it puts what the backup had. */
  readonly isRestored?: boolean
  /** The name of the version that it is stored in. */
  readonly storedIn?: string
  /** The unique values that it holds. Default: those that it has. */
  readonly holds?: readonly string[]
}

/** A change of what all servers have to agree on about a kind. */
export interface RecordChange {
  readonly revision: number
  readonly at: number
  /** `<group>/<plural>` */
  readonly resource: string
  /** Whether values are unique, and all are known. Nothing is written while that is found out. */
  readonly uniqueness: 'none' | 'in force' | 'recomputing'
  /** The version that writes store, and all that objects may be stored in. */
  readonly stores: string | undefined
  readonly mayStore: readonly string[]
  /** True if its sender had died, or had given up, before it happened. */
  readonly isLate: boolean
}

export interface DefinitionEnd {
  readonly revision: number
  readonly at: number
  readonly keys: readonly string[]
}

export interface Violation {
  readonly judge: string
  readonly at: number
  readonly message: string
}

export type Judge = (history: History) => readonly Violation[]

export function titleOf({ group, plural }: Resource): string {
  return `${group}/${plural}`
}
