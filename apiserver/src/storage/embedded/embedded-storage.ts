import { accessSync, constants, existsSync, realpathSync, statSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Logger } from '@setpoint/controller-runtime'
import { errorMessage, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import {
  type CallOptions,
  FutureRevisionError,
  type KeyValue,
  type ListOptions,
  type ListPage,
  type Storage,
  StoreFullError,
  StoreLockedError,
  type StoreSpace,
  StoreUnavailableError,
  storageLimits,
  type Transaction,
  type TransactionResult,
  type WatchBatch,
  type WatchOptions,
} from '../contract.ts'
import type { Fullness } from '../fullness.ts'
import { compactFile } from './compact-file.ts'
import { type EmbeddedBounds, embeddedDefaults } from './defaults.ts'
import { makePrivateFolder, restrictFiles } from './file-modes.ts'
import { StoreFolderError } from './folder-error.ts'
import { GroupCommit } from './group-commit.ts'
import { HistoryTail } from './history-tail.ts'
import { checkKey, encodeKey, prefixEnd } from './keys.ts'
import { PastStates, rangeStart } from './past-state.ts'
import { LockHeldError, lockFile, type ProcessLock } from './process-lock.ts'
import { checkReplaced } from './replacement-folder.ts'
import { toKeyValue } from './rows.ts'
import { StoreFile, storeFileName } from './store-file.ts'
import { Watches } from './watch.ts'

export interface EmbeddedOptions extends Partial<EmbeddedBounds> {
  /** The folder of the store, on a local disk. Created if missing; other files in it are not touched. */
  readonly dataDir: string
  /** If false, a folder without a store is an error instead of a new store. Default true. */
  readonly create?: boolean
  /**
   * If false, commits are not synced: a crash of the system can lose commits or damage the store. For temporary stores.
   * Default true.
   */
  readonly durable?: boolean
  /** If true, rewrites the file without its free space first. Default false. */
  readonly compact?: boolean
  /** The revision that a new store begins after. Without effect on an existing one. Default zero. */
  readonly startAfter?: Revision
  readonly fullness?: Fullness
  /** Called after each commit of one or more transactions with the time that it took. */
  readonly onCommit?: (seconds: number) => void
  /** Reports failed commits and files that other users can read. Default: none. */
  readonly log?: Logger
}

/**
 * Opens the store of a folder and locks the folder until the store is closed or the process ends.
 * @throws StoreLockedError if this process or another one has the store open.
 * @throws StoreFolderError if the folder cannot be created or written, has other content, or an incomplete restore; or
 * no store,
 *   unless `create`.
 */
export async function openEmbeddedStorage(options: EmbeddedOptions): Promise<Storage> {
  const {
    dataDir,
    create = true,
    durable = true,
    compact = false,
    startAfter = zeroRevision,
    fullness,
    onCommit,
    log,
    ...bounds
  } = options
  if (!create && !existsSync(join(dataDir, storeFileName)))
    throw new StoreFolderError(`the folder ${dataDir} has no store: is it the --data-dir of the server?`)
  const { folder, lock } = await lockStore(dataDir, { durable, log })
  try {
    checkReplaced(folder)
    refuseLostStore(folder, lock)
    const all = { ...embeddedDefaults, ...bounds }
    const open = () => StoreFile.open(folder, all, { durable, startAfter })
    if (compact) await compactFile(await open(), all.commitTimeoutMs, log)
    const file = await open()
    markStore(lock)
    return new EmbeddedStorage(file, lock, all, { fullness, onCommit, log })
  } catch (error) {
    await lock.release()
    throw error
  }
}

/**
 * LMDB takes an empty file for a new database, so a store that was truncated would look like one without objects. The
 * lock is marked once the store exists. A start that ended before that leaves an empty file, too, and no mark.
 */
function refuseLostStore(folder: string, lock: ProcessLock): void {
  const path = join(folder, storeFileName)
  if (!lock.isMarked || statSync(path).size > 0) return
  throw new StoreFolderError(
    `${path} is empty or was missing, but the folder had a store: restore a backup, or remove the folder to begin without any object`,
  )
}

function markStore(lock: ProcessLock): void {
  try {
    if (!lock.isMarked) lock.mark()
  } catch {
    // The disk is full. The store works, and the next start marks it.
  }
}

/**
 * Creates the folder of a store if it is missing, and locks it. Returns its real path.
 * @throws StoreLockedError, StoreFolderError
 */
export async function lockStore(
  dataDir: string,
  { durable = true, log }: Pick<EmbeddedOptions, 'durable' | 'log'> = {},
): Promise<{ readonly folder: string; readonly lock: ProcessLock }> {
  const folder = prepareFolder(dataDir)
  restrictFiles(folder, log)
  return { folder, lock: await lockFolder(folder, durable) }
}

/** @throws StoreLockedError, StoreFolderError */
async function lockFolder(dataDir: string, durable: boolean): Promise<ProcessLock> {
  try {
    return await lockFile(join(dataDir, 'holder.mdb'), durable)
  } catch (error) {
    const options = { cause: error }
    if (error instanceof LockHeldError)
      throw new StoreLockedError(
        `the data folder ${dataDir} is in use by ${error.message}; stop it, or choose another folder`,
        options,
      )
    throw new StoreFolderError(`cannot lock the data folder ${dataDir}: ${errorMessage(error)}`, options)
  }
}

function prepareFolder(dataDir: string): string {
  try {
    makeFolder(resolve(dataDir))
  } catch (error) {
    throw new StoreFolderError(`cannot create the data folder ${dataDir}: ${errorMessage(error)}`, {
      cause: error,
    })
  }
  try {
    accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)
    return realpathSync(dataDir)
  } catch (error) {
    throw new StoreFolderError(`cannot write to the data folder ${dataDir}: ${errorMessage(error)}`, {
      cause: error,
    })
  }
}

/** Creates a folder and its parents. Node's recursive mkdir never returns for folders in /proc. */
function makeFolder(folder: string): void {
  const isThere = () => statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true
  if (isThere()) return
  const parent = dirname(folder)
  if (parent !== folder) makeFolder(parent)
  try {
    makePrivateFolder(folder)
  } catch (error) {
    // Another process may have created it.
    if (!isThere()) throw error
  }
}

const noValue = Buffer.alloc(0)

class EmbeddedStorage implements Storage {
  readonly #file: StoreFile
  readonly #lock: ProcessLock
  readonly #bounds: EmbeddedBounds
  readonly #fullness: Fullness | undefined
  readonly #tail: HistoryTail
  readonly #watches: Watches
  readonly #past: PastStates
  readonly #commits: GroupCommit
  #closing: Promise<void> | undefined

  constructor(
    file: StoreFile,
    lock: ProcessLock,
    bounds: EmbeddedBounds,
    { fullness, onCommit, log }: Pick<EmbeddedOptions, 'fullness' | 'onCommit' | 'log'>,
  ) {
    this.#file = file
    this.#lock = lock
    this.#bounds = bounds
    this.#fullness = fullness
    this.#tail = new HistoryTail(bounds.tailRevisions, bounds.tailBytes)
    this.#watches = new Watches(file, this.#tail, bounds)
    this.#past = new PastStates(file, bounds.pastRevisions)
    this.#commits = new GroupCommit(file, bounds, log, (commit, seconds) => {
      onCommit?.(seconds)
      for (const segment of commit.history) this.#tail.push(segment)
      this.#watches.announce()
    })
  }

  async get(key: string, options?: CallOptions): Promise<{ revision: Revision; pair: KeyValue | undefined }> {
    this.#begin(options)
    const { current } = this.#file.state
    const row = key === '' || key.length > this.#bounds.keyBytes ? undefined : this.#file.get(key)
    return { revision: current, pair: row && toKeyValue(key, row) }
  }

  async list(prefix: string, options: ListOptions = {}): Promise<ListPage> {
    this.#begin(options)
    const { revision, limit = this.#bounds.listPairs, after, keysOnly = false, signal } = options
    if (!(limit >= 1)) throw new RangeError(`limit must be at least 1, not ${limit}`)
    const { current } = this.#file.state
    if (revision !== undefined && revision > current)
      throw new FutureRevisionError(`revision ${revision} is in the future: the store is at ${current}`)
    if (prefix.length > this.#bounds.keyBytes)
      return { revision: revision ?? current, pairs: [], more: false }
    const start = rangeStart(prefix, after, this.#bounds.keyBytes)
    const end = prefixEnd(encodeKey(prefix))
    if (end !== undefined && Buffer.compare(start, end) >= 0)
      return { revision: revision ?? current, pairs: [], more: false }
    if (revision === undefined || revision === current)
      return { revision: current, ...this.#page(this.#present(start, end), limit, keysOnly) }
    const past = await this.#past.at(revision, signal)
    this.#begin(options)
    return { revision, ...this.#page(past.range(start, end), limit, keysOnly) }
  }

  async transact(transaction: Transaction, options?: CallOptions): Promise<TransactionResult> {
    const bytes = this.#check(transaction)
    const begunAt = this.#fullness?.refusals ?? 0
    try {
      const result = await this.#commits.transact(transaction, bytes, options?.signal)
      if (result.succeeded && bytes > 0) this.#fullness?.accepted(begunAt)
      return result
    } catch (error) {
      if (error instanceof StoreFullError) this.#fullness?.refused(error.message)
      throw error
    }
  }

  watch(prefix: string, options: WatchOptions): AsyncIterable<WatchBatch> {
    return this.#watches.watch(prefix, options)
  }

  async head(options?: CallOptions): Promise<{ current: Revision; written: Revision }> {
    this.#begin(options)
    const { current } = this.#file.state
    return { current, written: current }
  }

  async compact(revision: Revision, options?: CallOptions): Promise<void> {
    await this.#commits.compact(revision, options?.signal)
  }

  async space(options?: CallOptions): Promise<StoreSpace> {
    this.#begin(options)
    const { bavail, bsize } = await statfs(this.#file.folder)
    return { ...this.#file.space(), quotaBytes: undefined, diskFreeBytes: bavail * bsize }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#commits.close()
    this.#watches.close()
    this.#tail.clear()
    // A hanging commit may still be written, so the lock is then kept until the process ends.
    if (await this.#file.close(this.#bounds.commitTimeoutMs)) await this.#lock.release()
  }

  #begin(options: CallOptions | undefined): void {
    if (this.#closing) throw new StoreUnavailableError('the store is closed')
    options?.signal?.throwIfAborted()
  }

  *#present(start: Buffer, end: Buffer | undefined): Generator<KeyValue> {
    for (const { key, row } of this.#file.range(start, end)) yield toKeyValue(key, row)
  }

  #page(from: Iterable<KeyValue>, limit: number, keysOnly: boolean): { pairs: KeyValue[]; more: boolean } {
    const pairs: KeyValue[] = []
    let bytes = 0
    for (const pair of from) {
      if (!keysOnly) bytes += pair.value.length
      if (pairs.length >= limit || (bytes > this.#bounds.listBytes && pairs.length > 0))
        return { pairs, more: true }
      pairs.push(keysOnly ? { ...pair, value: noValue } : pair)
    }
    return { pairs, more: false }
  }

  /**
   * Returns the bytes of the values.
   * @throws RangeError if the transaction exceeds a limit of the contract or has an invalid key.
   */
  #check({ compares, onSuccess, onFailure }: Transaction): number {
    if (Math.max(compares.length, onSuccess.length) > storageLimits.transactionItems)
      throw new RangeError(
        `a transaction may have at most ${storageLimits.transactionItems} compares and as many operations`,
      )
    let bytes = 0
    const keys = new Set<string>()
    for (const operation of onSuccess) {
      checkKey(operation.key, this.#bounds.keyBytes)
      if (keys.has(operation.key))
        throw new RangeError(`the transaction has two operations on ${operation.key}`)
      keys.add(operation.key)
      if (operation.type === 'delete') continue
      if (operation.value.length > storageLimits.storedBytes)
        throw new RangeError(`the value of ${operation.key} exceeds ${storageLimits.storedBytes} bytes`)
      bytes += operation.value.length
    }
    for (const { key } of compares) checkKey(key, this.#bounds.keyBytes)
    for (const key of onFailure ?? []) checkKey(key, this.#bounds.keyBytes)
    return bytes
  }
}
