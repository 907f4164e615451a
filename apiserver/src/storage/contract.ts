import type { Revision } from '@setpoint/controller-runtime/api'

/**
 * What the server needs of a store: a log of revisions over ordered keys and opaque bytes.
 *
 * Keys are strings without a leading slash, relative to the store's own prefix, ordered by their UTF-8 bytes.
 * Values are opaque. Every successful transaction that changes something gets a revision of its own, higher than
 * any before it, and takes effect in one step; all keys that it puts have that revision as `modRevision`.
 *
 * Guarantees of every implementation (the conformance suite checks them):
 *
 * - `transact` resolves only once the change is durable. It happens once at most: it is sent again only where it is
 *   certain that it has not happened and no longer can. Refused compares change nothing. What it rejects with says whether it happened: `StoreUnavailableError` means that it did not,
 *   `OutcomeUnknownError` that nobody knows yet.
 * - A read begun after a transaction resolved sees it (`get`, `list` without a revision, `head`).
 * - A watch after revision R delivers every change with a revision above R under its prefix, once, in order, whole
 *   revisions at a time, or ends with `CompactedError`. It survives the loss of the connection and of the store.
 * - Nothing waits for ever: every unary call has a deadline and takes an AbortSignal.
 */
export interface Storage {
  /** Reads one key. `revision` is the store's current one at the read. */
  get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }>

  /**
   * One page of the keys that start with `prefix`, ascending.
   * @throws CompactedError when `options.revision` is no longer kept.
   * @throws FutureRevisionError when it has not been reached.
   */
  list(prefix: string, options?: ListOptions): Promise<ListPage>

  /** Applies `onSuccess` if every compare holds, in one step; otherwise reads `onFailure`. */
  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult>

  /**
   * The changes under `prefix` after a revision, for as long as the signal is not aborted.
   * @throws CompactedError, from the iteration, when `after` is older than what is kept.
   */
  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchBatch>

  /**
   * Where the store stands: `current` is its revision, `written` that of the last transaction through any Storage of
   * this prefix. They differ where others write to the same etcd. A follower of the log that has seen `written` is
   * as new as `current`.
   */
  head(options?: CallOptions): Promise<{ current: Revision; written: Revision }>

  /** Forgets the history up to and including `revision`; the present state stays. Never an error when already done. */
  compact(revision: Revision, options?: CallOptions): Promise<void>

  /** Ends every watch and call, releases the files or connections. Idempotent. */
  close(): Promise<void>
}

export interface KeyValue {
  readonly key: string
  readonly value: Buffer
  /** Revision of the transaction that put this value. */
  readonly modRevision: Revision
  /** Revision of the transaction that created the key (after its last deletion). */
  readonly createRevision: Revision
}

export interface CallOptions {
  readonly signal?: AbortSignal
}

export interface ListOptions extends CallOptions {
  /** The state at this revision; the present one if absent. */
  readonly revision?: Revision
  /** Pairs of a page at most; an implementation may return fewer, and then says `more`. Default 500. */
  readonly limit?: number
  /** Only keys that come after this one. */
  readonly after?: string
  /** Leaves the values out: every pair's is empty. What is not needed need not come over the network. */
  readonly keysOnly?: boolean
}

export interface ListPage {
  /** The state that the page is from: give it to the next page. */
  readonly revision: Revision
  readonly pairs: readonly KeyValue[]
  /** Whether more keys follow the last one of this page. */
  readonly more: boolean
}

/** A key's `modRevision` must be this; `zeroRevision` means that the key must not exist. */
export interface Compare {
  readonly key: string
  readonly modRevision: Revision
}

export type Operation =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly type: 'delete'; readonly key: string }

/** Each list has at most `storageLimits.transactionItems` members; each key is operated on at most once. */
export interface Transaction {
  readonly compares: readonly Compare[]
  readonly onSuccess: readonly Operation[]
  /** Keys to read when a compare fails, from the same state that failed it. */
  readonly onFailure?: readonly string[]
}

export type TransactionResult =
  | { readonly succeeded: true; readonly revision: Revision }
  | {
      readonly succeeded: false
      readonly revision: Revision
      readonly pairs: readonly (KeyValue | undefined)[]
    }

export interface WatchOptions {
  readonly after: Revision
  /** The iteration returns once everything up to here, which must have been reached, has been delivered. */
  readonly until?: Revision
  readonly signal: AbortSignal
}

export interface Change {
  readonly key: string
  readonly revision: Revision
  /** Absent where the key was deleted. */
  readonly value: Buffer | undefined
  /** What the key held before; absent where it did not exist, or where the store no longer knows. */
  readonly previous: Buffer | undefined
  /** Revision of the creation of the key; equal to `revision` where this change created it. Zero for a deletion. */
  readonly createRevision: Revision
}

/**
 * Whole revisions, in order: never part of one. `changes` may be empty, which only says that everything up to
 * `revision` has been delivered.
 */
export interface WatchBatch {
  readonly changes: readonly Change[]
  readonly revision: Revision
}

/** Bounds that hold for every store, so that a plugin that runs on one runs on the other. */
export const storageLimits = Object.freeze({
  /** Bytes of one value: below etcd's default request limit of 1.5 MiB, which counts keys and framing too. */
  valueBytes: 1_500_000,
  /** Compares, and operations, of one transaction: below etcd's default of 128, which holds for each list by itself. */
  transactionItems: 126,
})

/** The store cannot be reached or has not answered in time, and the call did not change anything. Worth a retry. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
}

/** A transaction was sent and no answer came: it may have happened, or may yet happen. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError'
}

/** The revision asked for has been compacted. */
export class CompactedError extends Error {
  override readonly name = 'CompactedError'
  /** The oldest revision that is still kept, where known. */
  readonly compactRevision: Revision | undefined
  /**
   * Whether what was compacted is known not to be the history that the asker has followed: the store is another one,
   * or an older state of it has been put in its place. Then the revisions of before mean nothing any more.
   */
  readonly replaced: boolean

  constructor(message: string, compactRevision?: Revision, replaced = false) {
    super(message)
    this.compactRevision = compactRevision
    this.replaced = replaced
  }
}

/** The revision asked for has not been reached. */
export class FutureRevisionError extends Error {
  override readonly name = 'FutureRevisionError'
}

/** The store takes no more data (etcd's quota, a full disk). Reads go on. */
export class StoreFullError extends Error {
  override readonly name = 'StoreFullError'
}

/** Another process holds the embedded store's folder. */
export class StoreLockedError extends Error {
  override readonly name = 'StoreLockedError'
}
