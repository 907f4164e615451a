import { statfs } from 'node:fs/promises'
import { constants } from 'node:os'
import type { Logger } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import {
  OutcomeUnknownError,
  StoreFullError,
  StoreUnavailableError,
  type Transaction,
  type TransactionResult,
} from '../contract.ts'
import { Batch } from './batch.ts'
import { type EmbeddedBounds, embeddedDefaults } from './defaults.ts'
import { errorMessage } from './folder-error.ts'
import { encodeState } from './rows.ts'
import type { FileCommit, StoreFile } from './store-file.ts'

/**
 * Many transactions, one sync: what arrives while a commit is under way forms the next one.
 *
 *     waiting --(taken into a batch)--> committing --(durable)--> published, then answered
 *        |                                  |
 *        +-- signal, close, stall:          +-- failed and verified as absent: StoreFullError, StoreUnavailableError
 *            StoreUnavailableError          +-- signal, no end in time, failed but there: OutcomeUnknownError
 *
 * Answers come only after the commit, also for refused compares and for transactions that change nothing: what they
 * have read may be of the same batch.
 */
export class GroupCommit {
  readonly #file: StoreFile
  readonly #bounds: EmbeddedBounds
  readonly #log: Logger | undefined
  readonly #publish: (commit: FileCommit) => void
  #waiting: Waiting[] = []
  #waitingBytes = 0
  /** How many of those that wait are to be committed alone, after the batch that they were in has failed. */
  #alone = 0
  #running: Promise<void> | undefined
  #stalled = false
  #closed = false

  /** @param publish called after each durable commit, with the file already showing it, before its callers know. */
  constructor(
    file: StoreFile,
    bounds: EmbeddedBounds,
    log: Logger | undefined,
    publish: (commit: FileCommit) => void,
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

  /** Refuses what waits and what comes, and resolves when the commit under way has ended or is given up on. */
  async close(): Promise<void> {
    this.#closed = true
    this.#refuseWaiting('the store has been closed')
    if (!this.#stalled) await this.#running
  }

  #submit<T>(apply: (batch: Batch) => T, bytes: number, signal: AbortSignal | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal(bytes, signal)
      if (refusal !== undefined) {
        reject(refusal)
        return
      }
      let answer = () => {}
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
            answer = () => resolve(result)
          } catch (error) {
            answer = () => reject(error)
          }
        },
        answer: () => settle(answer),
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
    if (this.#closed) return new StoreUnavailableError('the store has been closed')
    if (signal?.aborted)
      return new StoreUnavailableError('given up before it was begun', { cause: signal.reason })
    if (this.#stalled) return new StoreUnavailableError('the disk does not answer: a commit is overdue')
    const isFull =
      this.#waiting.length >= this.#bounds.queuedTransactions ||
      (this.#waitingBytes + bytes > this.#bounds.queuedBytes && this.#waiting.length > 0)
    return isFull ? new StoreUnavailableError('too many transactions are waiting for the disk') : undefined
  }

  #abandon(entry: Waiting, cause: unknown): void {
    const index = this.#waiting.indexOf(entry)
    if (index < 0) {
      entry.reject(new OutcomeUnknownError('given up while it was being committed', { cause }))
      return
    }
    this.#waiting.splice(index, 1)
    this.#waitingBytes -= entry.bytes
    if (index < this.#alone) this.#alone--
    entry.reject(new StoreUnavailableError('given up before it was begun', { cause }))
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
      // Everybody who has just been answered may come with the next transaction before the batch is closed.
      await nextTurn()
    } while (!this.#closed && (await this.#commitNext()))
  }

  /** Commits one batch. Answers whether there may be more to do. */
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
      this.#log?.error({ err: error }, 'The embedded store has failed.')
      failure = new OutcomeUnknownError(`the store has failed: ${errorMessage(error)}`, { cause: error })
    }
    if (failure === undefined) for (const entry of entries) entry.answer()
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

  /** Answers why the commit has not taken effect, or undefined if it has. */
  async #write(commit: FileCommit, entries: readonly Waiting[]): Promise<Error | undefined> {
    const overdue = setTimeout(() => this.#stall(entries), this.#bounds.commitTimeoutMs)
    let failure: unknown
    try {
      await this.#file.commit(commit)
    } catch (error) {
      failure = error
    } finally {
      clearTimeout(overdue)
      this.#stalled = false
    }
    const now = this.#file.refresh()
    const isThere = encodeState(now).equals(encodeState(commit.state))
    if (isThere) this.#publish(commit)
    if (isThere && failure === undefined) return undefined
    failure ??= new Error(`the file is at revision ${now.current} instead of ${commit.state.current}`)
    this.#log?.error(
      { err: failure, revision: commit.state.current },
      'A commit to the embedded store has failed.',
    )
    const options = { cause: failure }
    if (isThere)
      return new OutcomeUnknownError(`a commit has failed, yet is there: ${errorMessage(failure)}`, options)
    if (await isFull(failure, this.#file.folder))
      return new StoreFullError(`the disk of the store is full: ${errorMessage(failure)}`, options)
    return new StoreUnavailableError(`the store cannot write: ${errorMessage(failure)}`, options)
  }

  #fail(entries: readonly Waiting[], failure: Error): void {
    if (!(failure instanceof StoreFullError) || entries.length < 2) {
      for (const entry of entries) entry.reject(failure)
      return
    }
    // One that is too large must not take along those that would fit, least of all deletions.
    const again = entries.filter(entry => !entry.isSettled)
    this.#waiting.unshift(...again)
    for (const entry of again) this.#waitingBytes += entry.bytes
    this.#alone += again.length
  }

  #stall(entries: readonly Waiting[]): void {
    this.#stalled = true
    const { commitTimeoutMs } = this.#bounds
    this.#log?.error({ commitTimeoutMs }, 'The disk of the embedded store does not answer.')
    for (const entry of entries)
      entry.reject(new OutcomeUnknownError(`the commit has not ended within ${commitTimeoutMs} ms`))
    this.#refuseWaiting('the disk does not answer: a commit is overdue')
  }
}

/** A transaction or compaction from its arrival to its answer. */
interface Waiting {
  readonly bytes: number
  isSettled: boolean
  /** Works out the answer, again if the batch before has failed. */
  apply(batch: Batch): void
  /** Gives the answer that was worked out. */
  answer(): void
  reject(error: unknown): void
}

const { ENOSPC, EDQUOT, EFBIG, EIO } = constants.errno
/** As Node names them and as LMDB numbers them, with LMDB's own for a map that is full. */
const fullCodes: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG', ENOSPC, EDQUOT, EFBIG, -30792])

/**
 * LMDB reports a write that only partly fitted on the disk as EIO, like a broken disk. They are told apart by the
 * room that is left.
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
