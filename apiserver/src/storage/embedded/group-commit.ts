import { statfs } from 'node:fs/promises'
import { constants } from 'node:os'
import type { Logger } from '@setpoint/controller-runtime'
import { errorMessage, type Revision } from '@setpoint/controller-runtime/api'
import {
  OutcomeUnknownError,
  StoreFullError,
  StoreUnavailableError,
  type Transaction,
  type TransactionResult,
} from '../contract.ts'
import { Batch } from './batch.ts'
import { type EmbeddedBounds, embeddedDefaults } from './defaults.ts'
import { encodeState } from './rows.ts'
import type { FileCommit, StoreFile } from './store-file.ts'

/**
 * Commits many transactions with one sync: those that arrive during a commit form the next batch.
 *
 *     waiting --(added to a batch)--> committing --(durable)--> published, then resolved
 *        |                                |
 *        +-- abort, close, stall:         +-- failed, not in the file: StoreFullError, StoreUnavailableError
 *            StoreUnavailableError        +-- abort, timeout, failed but in the file: OutcomeUnknownError
 *
 * Failed compares and transactions without a change also resolve after the commit, because they may have read changes
 * of the same batch.
 */
export class GroupCommit {
  readonly #file: StoreFile
  readonly #bounds: EmbeddedBounds
  readonly #log: Logger | undefined
  readonly #publish: (commit: FileCommit, seconds: number) => void
  #waiting: Waiting[] = []
  #waitingBytes = 0
  /** How many of the waiting entries to commit alone, because their batch did not fit on the disk. */
  #alone = 0
  #running: Promise<void> | undefined
  #stalled = false
  #closed = false

  /**
   * @param publish called after each durable commit, when the file shows it and before its callers are resolved, with
   * the time
   *   that it took
   */
  constructor(
    file: StoreFile,
    bounds: EmbeddedBounds,
    log: Logger | undefined,
    publish: (commit: FileCommit, seconds: number) => void,
  ) {
    this.#file = file
    this.#bounds = bounds
    this.#log = log
    this.#publish = publish
    this.#wake()
  }

  transact(transaction: Transaction, bytes: number, signal?: AbortSignal): Promise<TransactionResult> {
    return this.#submit(batch => batch.transact(transaction), bytes, signal)
  }

  compact(revision: Revision, signal?: AbortSignal): Promise<void> {
    return this.#submit(batch => batch.compact(revision), 0, signal)
  }

  /** Rejects waiting and later transactions. Resolves when the current commit has ended or stalled. */
  async close(): Promise<void> {
    this.#closed = true
    this.#refuseWaiting('the store is closed')
    if (!this.#stalled) await this.#running
  }

  #submit<T>(apply: (batch: Batch) => T, bytes: number, signal: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal(bytes, signal)
      if (refusal !== undefined) {
        reject(refusal)
        return
      }
      let complete = () => {}
      const settle = (settleWith: () => void) => {
        entry.isSettled = true
        signal?.removeEventListener('abort', onAbort)
        settleWith()
      }
      const entry: Waiting = {
        bytes,
        isSettled: false,
        apply(batch) {
          try {
            const result = apply(batch)
            complete = () => resolve(result)
          } catch (error) {
            complete = () => reject(error)
          }
        },
        complete: () => settle(complete),
        reject: error => settle(() => reject(error)),
      }
      const onAbort = () => this.#abandon(entry, signal?.reason)
      signal?.addEventListener('abort', onAbort)
      this.#waiting.push(entry)
      this.#waitingBytes += bytes
      this.#wake()
    })
  }

  #refusal(bytes: number, signal: AbortSignal | undefined): Error | undefined {
    if (this.#closed) return new StoreUnavailableError('the store is closed')
    if (signal?.aborted)
      return new StoreUnavailableError('the call was aborted before the commit', { cause: signal.reason })
    if (this.#stalled) return new StoreUnavailableError(stalledMessage)
    const isFull =
      this.#waiting.length >= this.#bounds.queuedTransactions ||
      (this.#waitingBytes + bytes > this.#bounds.queuedBytes && this.#waiting.length > 0)
    return isFull ? new StoreUnavailableError('too many transactions are waiting for the disk') : undefined
  }

  #abandon(entry: Waiting, cause: unknown): void {
    const index = this.#waiting.indexOf(entry)
    if (index < 0) {
      entry.reject(new OutcomeUnknownError('the call was aborted during the commit', { cause }))
      return
    }
    this.#waiting.splice(index, 1)
    this.#waitingBytes -= entry.bytes
    if (index < this.#alone) this.#alone--
    entry.reject(new StoreUnavailableError('the call was aborted before the commit', { cause }))
  }

  #refuseWaiting(message: string): void {
    const refused = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    this.#alone = 0
    for (const entry of refused) entry.reject(new StoreUnavailableError(message))
  }

  #wake(): void {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined
      if (this.#waiting.length > 0) this.#wake()
    })
  }

  async #run(): Promise<void> {
    do {
      // Lets callers that have just been resolved add their next transaction to this batch.
      await nextTurn()
    } while (!this.#closed && (await this.#commitNext()))
  }

  /** Commits one batch. Returns true if there may be more to do. */
  async #commitNext(): Promise<boolean> {
    const entries = this.#take()
    let failure: Error | undefined
    let isMoreDue = false
    try {
      const batch = new Batch(this.#file, this.#bounds)
      for (const entry of entries) entry.apply(batch)
      const commit = batch.finish()
      if (commit !== undefined) failure = await this.#write(commit, entries)
      isMoreDue = commit !== undefined && failure === undefined
    } catch (error) {
      this.#log?.error({ err: error }, 'failed to commit a batch')
      failure = new OutcomeUnknownError(`the embedded store failed: ${errorMessage(error)}`, { cause: error })
    }
    if (failure === undefined) for (const entry of entries) entry.complete()
    else this.#fail(entries, failure)
    return isMoreDue || this.#waiting.length > 0
  }

  #take(): Waiting[] {
    const most = this.#alone > 0 ? 1 : this.#bounds.batchTransactions
    let count = 0
    let bytes = 0
    for (const entry of this.#waiting) {
      if (count === most || (count > 0 && bytes + entry.bytes > this.#bounds.batchBytes)) break
      bytes += entry.bytes
      count++
    }
    if (this.#alone > 0) this.#alone--
    this.#waitingBytes -= bytes
    return this.#waiting.splice(0, count)
  }

  /** Returns the error for the callers, or undefined if the commit is durable. */
  async #write(commit: FileCommit, entries: readonly Waiting[]): Promise<Error | undefined> {
    const overdue = setTimeout(() => this.#stall(entries), this.#bounds.commitTimeoutMs)
    const begunAt = performance.now()
    let failure: unknown
    try {
      await this.#file.commit(commit)
    } catch (error) {
      failure = error
    } finally {
      clearTimeout(overdue)
      this.#stalled = false
    }
    const seconds = (performance.now() - begunAt) / 1000
    const now = this.#file.refresh()
    const isThere = encodeState(now).equals(encodeState(commit.state))
    if (isThere) this.#publish(commit, seconds)
    if (isThere && failure === undefined) return undefined
    failure ??= new Error(`the file is at revision ${now.current} instead of ${commit.state.current}`)
    this.#log?.error(
      { err: failure, revision: commit.state.current },
      'failed to commit to the embedded store',
    )
    const options = { cause: failure }
    if (isThere)
      return new OutcomeUnknownError(
        `the commit reported an error, but is in the file: ${errorMessage(failure)}`,
        options,
      )
    if (await isFull(failure, this.#file.folder))
      return new StoreFullError(`the disk is full: ${errorMessage(failure)}`, options)
    return new StoreUnavailableError(`failed to write to the disk: ${errorMessage(failure)}`, options)
  }

  #fail(entries: readonly Waiting[], failure: Error): void {
    if (!(failure instanceof StoreFullError) || entries.length < 2) {
      for (const entry of entries) entry.reject(failure)
      return
    }
    // One large transaction must not fail the others, least of all deletions: commits each alone.
    const again = entries.filter(entry => !entry.isSettled)
    this.#waiting.unshift(...again)
    for (const entry of again) this.#waitingBytes += entry.bytes
    this.#alone += again.length
  }

  #stall(entries: readonly Waiting[]): void {
    this.#stalled = true
    const { commitTimeoutMs } = this.#bounds
    this.#log?.error({ commitTimeoutMs }, 'the disk of the embedded store does not respond')
    for (const entry of entries)
      entry.reject(new OutcomeUnknownError(`the commit did not finish within ${commitTimeoutMs} ms`))
    this.#refuseWaiting(stalledMessage)
  }
}

/** A transaction or compaction that has not been resolved. */
interface Waiting {
  readonly bytes: number
  isSettled: boolean
  /** Applies it to a batch and keeps the result. Called again after a failed batch. */
  apply(batch: Batch): void
  /** Resolves or rejects with the kept result. */
  complete(): void
  reject(error: unknown): void
}

const stalledMessage = 'the disk does not respond: a commit is overdue'

const { ENOSPC, EDQUOT, EFBIG, EIO } = constants.errno
/** Error codes of Node and of LMDB; -30792 is MDB_MAP_FULL. */
const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', ENOSPC, EDQUOT, EFBIG, -30792])

/**
 * Returns true if the disk is full. LMDB reports a partial write as EIO, like a broken disk; the free space tells them
 * apart.
 */
async function isFull(error: unknown, folder: string): Promise<boolean> {
  if (typeof error !== 'object' || error === null || !('code' in error)) return false
  const { code } = error
  if (fullCodes.has(code)) return true
  if (code !== EIO) return false
  const { bavail, bsize } = await statfs(folder)
  return bavail * bsize < embeddedDefaults.batchBytes
}

function nextTurn(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
