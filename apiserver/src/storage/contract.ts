import type { Revision } from '@setpoint/controller-runtime/api'

/**
 * A log of revisions over ordered keys and opaque values.
 *
 * Keys are strings without a leading slash, relative to the store's prefix, ordered by their UTF-8 bytes. A transaction
 * is atomic. If it changes a key, it gets a revision of its own, higher than all before it. The keys that it puts have
 * that revision as `modRevision`.
 *
 * Guarantees of every implementation, checked by the conformance suite:
 *
 * - `transact` resolves only once the change is durable, and applies it at most once. A failed compare changes nothing.
 *   `StoreUnavailableError` means that the transaction was not and will not be applied; after `OutcomeUnknownError` it
 *   may have been applied.
 * - A read that starts after a transaction resolved sees it (`get`, `list` without a revision, `head`).
 * - A watch after revision R delivers every later change under its prefix once, in order, in whole revisions, or throws
 *   `CompactedError`. It survives the loss of the connection and of the store.
 * - All calls concern one store. If it is replaced or restored to an earlier state, they throw `WrongStoreError`.
 * - Every unary call has a deadline and takes an AbortSignal.
 */
export interface Storage {
  /** Reads one key. `revision` is the store's revision at the time of the read. */
  get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }>

  /**
   * Returns a page of the keys that start with `prefix`, in ascending order.
   * @throws CompactedError if `options.revision` has been compacted.
   * @throws FutureRevisionError if the store has not reached it.
   */
  list(prefix: string, options?: ListOptions): Promise<ListPage>

  /** Applies `onSuccess` if all compares hold; otherwise reads the keys of `onFailure`. Atomic. */
  transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult>

  /**
   * Delivers the changes under `prefix` after a revision until the signal is aborted.
   * @throws CompactedError, from the iteration, if changes after `after` have been compacted, even if `until` is `after`;
   *   WrongStoreError
   */
  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchBatch>

  /**
   * Returns the revision of the store, and of the last transaction under this prefix (`written`). They differ if other
   * programs write to the same etcd. A follower that has seen `written` has seen all changes up to `current`. In an
   * empty store, and in a full etcd after a deletion, `written` is `current`.
   */
  head(options?: CallOptions): Promise<{ current: Revision; written: Revision }>

  /** Drops the history up to and including `revision`, and keeps the current state. Idempotent. */
  compact(revision: Revision, options?: CallOptions): Promise<void>

  /**
   * Returns how much space the store takes.
   * @throws StoreUnavailableError if the store does not tell.
   */
  space(options?: CallOptions): Promise<StoreSpace>

  /** Ends all watches and calls, and closes files or connections. Idempotent. */
  close(): Promise<void>
}

export interface StoreSpace {
  /** Bytes of the store's file, which does not shrink by itself. Of several members, the largest. */
  readonly sizeBytes: number
  /** Bytes of the file that are in use. New data reuse the others first. */
  readonly usedBytes: number
  /** Bytes that the file may have. Undefined if only the disk bounds it. */
  readonly quotaBytes: number | undefined
  /** Free bytes of the disk that the file is on. Undefined if the store does not tell. */
  readonly diskFreeBytes: number | undefined
}

export interface KeyValue {
  readonly key: string
  readonly value: Buffer
  /** Why the value cannot be decrypted. `value` is empty then. */
  readonly failure?: UndecryptableError
  /** Revision of the transaction that put the value. */
  readonly modRevision: Revision
  /** Revision of the transaction that created the key, since its last deletion. */
  readonly createRevision: Revision
}

export interface CallOptions {
  readonly signal?: AbortSignal
}

export interface ListOptions extends CallOptions {
  /** Lists the state at this revision. Default: the current one. */
  readonly revision?: Revision
  /** Maximum number of pairs. The store may return fewer and set `more`. Default 500. */
  readonly limit?: number
  /** Lists only keys after this one. */
  readonly after?: string
  /** Returns empty values, to save bandwidth. */
  readonly keysOnly?: boolean
}

export interface ListPage {
  /** Revision of the page. Pass it to the next call to read the same state. */
  readonly revision: Revision
  readonly pairs: readonly KeyValue[]
  /** True if keys follow the last one of this page. */
  readonly more: boolean
}

/** Holds if the key has this `modRevision`. `zeroRevision` means that the key does not exist. */
export interface Compare {
  readonly key: string
  readonly modRevision: Revision
}

export type Operation =
  | { readonly type: 'put'; readonly key: string; readonly value: Uint8Array }
  | { readonly type: 'delete'; readonly key: string }

/** Each list has at most `storageLimits.transactionItems` items, with at most one operation for a key. */
export interface Transaction {
  readonly compares: readonly Compare[]
  readonly onSuccess: readonly Operation[]
  /** Keys to read if a compare fails, from the same state. */
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
  /** Returns after delivering this revision, which the store must have reached. */
  readonly until?: Revision
  readonly signal: AbortSignal
}

export interface Change {
  readonly key: string
  readonly revision: Revision
  /** undefined if the key was deleted. */
  readonly value: Buffer | undefined
  /**
   * Why the value cannot be decrypted, for ever or at the moment. `value` is empty then, and so is a `previous` that
   * cannot be decrypted.
   */
  readonly failure?: UndecryptableError | KeyUnavailableError
  /**
   * The value before; undefined if the key did not exist or the value has been compacted, and in every watch without an
   * end: the follower of the log has the state, and etcd would read each value to send it.
   */
  readonly previous: Buffer | undefined
  /** Revision that created the key: equal to `revision` for a creation, zero for a deletion. */
  readonly createRevision: Revision
}

/** The changes of whole revisions, in order, up to `revision`. A batch without changes only reports progress. */
export interface WatchBatch {
  readonly changes: readonly Change[]
  readonly revision: Revision
}

/** Limits of every store, so that a plugin that works on one works on the other. */
export const storageLimits = Object.freeze({
  /** Bytes of a value: below etcd's default request limit of 1.5 MiB, which includes keys and framing. */
  valueBytes: 1_500_000,
  /** Bytes of a value with what its encryption adds: at most 35 kB, almost all of it what a key service has to say. */
  storedBytes: 1_536_000,
  /** Compares, and operations, of a transaction: below etcd's default of 128 for each list. */
  transactionItems: 126,
})

/** The store cannot be reached or timed out, and the call changed nothing. It can be retried. */
export class StoreUnavailableError extends Error {
  override readonly name: string = 'StoreUnavailableError'
  /** The log leaves out its stack and cause: an outage is logged for as long as it lasts, and the message says why. */
  readonly isOutage = true
}

/**
 * What can be reached is not the store that was used so far, or not one store. The message says what an operator has to
 * do.
 */
export class WrongStoreError extends StoreUnavailableError {
  override readonly name: string = 'WrongStoreError'
}

/** What clients are told, who need not know the machine that the restore runs on. */
export const incompleteRestore =
  'a restore of the store is not complete; if it has ended, run it again with --force'

/** A restore of the store has begun and was not completed. The message says since when, and what to do. */
export class IncompleteRestoreError extends WrongStoreError {
  override readonly name = 'IncompleteRestoreError'
}

/**
 * A stored value cannot be decrypted with the keys that there are. The message is a clause about the value that says
 * why.
 */
export class UndecryptableError extends Error {
  override readonly name: string = 'UndecryptableError'
}

/**
 * A stored value is in the clear, where the configuration of the encryption allows only encrypted ones. It is not
 * damaged.
 */
export class StoredInTheClearError extends UndecryptableError {
  override readonly name = 'StoredInTheClearError'
}

/**
 * Values cannot be encrypted or decrypted now, because the service that has the keys does not respond. The call changed
 * nothing.
 */
export class KeyUnavailableError extends StoreUnavailableError {
  override readonly name = 'KeyUnavailableError'
}

/** A transaction was sent without a response: it may have been applied, or may still be. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError'
}

/** The requested revision has been compacted. */
export class CompactedError extends Error {
  override readonly name = 'CompactedError'
}

/** The store has not reached the requested revision. */
export class FutureRevisionError extends Error {
  override readonly name = 'FutureRevisionError'
}

/**
 * The store has no space for more data: etcd's quota or a full disk. Reads and transactions of deletions still work.
 */
export class StoreFullError extends Error {
  override readonly name = 'StoreFullError'
}

/** Another process uses the folder of the embedded store. */
export class StoreLockedError extends Error {
  override readonly name = 'StoreLockedError'
}
