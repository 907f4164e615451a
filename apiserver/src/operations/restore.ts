import type { Readable } from 'node:stream'
import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import {
  formatIn,
  formatKey,
  type Operation,
  type Replacement,
  type Storage,
  storeFormat,
} from '../storage/index.ts'
import { type BackupEntry, BackupError, type BackupHeader, isObject } from './backup-format.ts'
import { type BackupSummary, readBackup } from './backup-reader.ts'
import { RestoreSpool } from './restore-spool.ts'

export const restoreDefaults = Object.freeze({
  /**
   * How far the new versions begin above the backup's: more than any store gives out between a backup and the loss of
   * the store. At 10,000 writes a second it lasts for a day.
   */
  versionGap: 1_000_000_000,
  /** Keys other than objects that are written in one transaction. */
  batchKeys: 100,
  /** Bytes of their values: below the bound of one value, so that every store takes it. */
  batchBytes: 512 * 1024,
  /** Transactions under way, if the store keeps their order. */
  windowTransactions: 512,
  /** Bytes of their values. */
  windowBytes: 8 * 1024 * 1024,
})

/** One backup, and how to read it. */
export interface BackupSource {
  /** For messages. */
  readonly name: string
  open(): Readable
}

/** Backups that were read and checked: a full one, and the increments after it. */
export interface CheckedBackups {
  readonly summaries: readonly BackupSummary[]
  /** The version of the last one. */
  readonly revision: Revision
  readonly spool: RestoreSpool
}

/**
 * Reads and checks a full backup and the increments that follow it, in order. Nothing else has happened when it throws.
 * @throws BackupError that names the file; the error of the file, or of the temporary file
 */
export async function checkBackups(
  sources: readonly BackupSource[],
  { onBytes = () => {} }: { readonly onBytes?: (bytes: number) => void } = {},
): Promise<CheckedBackups> {
  const spool = new RestoreSpool()
  const summaries: BackupSummary[] = []
  try {
    for (const { name, open } of sources) {
      try {
        const source = open().on('data', (chunk: Buffer) => onBytes(chunk.length))
        let isFirst = true
        const check = (header: BackupHeader) => {
          if (isFirst) checkFollows(header, summaries.at(-1))
          isFirst = false
        }
        const summary = await readBackup(source, (entry, header) => {
          check(header)
          checkReadable(entry)
          spool.add(entry)
        })
        check(summary.header)
        summaries.push(summary)
      } catch (error) {
        throw error instanceof BackupError
          ? new BackupError(`cannot use ${name}: ${error.message}`, { cause: error })
          : error
      }
    }
    const last = summaries.at(-1)
    if (last === undefined) throw new BackupError('there is no backup to read')
    return { summaries, revision: last.header.revision, spool }
  } catch (error) {
    spool.close()
    throw error
  }
}

/** @throws BackupError if servers of this version could not read the restored store */
function checkReadable({ key, value }: BackupEntry): void {
  if (key !== formatKey || value === undefined) return
  const { version, by } = formatIn(value)
  if (version === undefined || version > storeFormat)
    throw new BackupError(
      `its store has format ${version ?? '(unknown)'}, written by Setpoint ${by}; this version reads formats up to ${storeFormat}`,
    )
}

/** @throws BackupError if a backup does not continue the one before it */
function checkFollows({ since }: BackupHeader, before: BackupSummary | undefined): void {
  if (before === undefined) {
    if (since === undefined) return
    throw new BackupError(
      `it is an increment of the backup at version ${since.revision}: give that one first, and this one after it`,
    )
  }
  if (since === undefined) throw new BackupError('it is a full backup: give it alone, or first')
  if (since.sha256 !== before.footer.sha256 || since.revision !== before.header.revision)
    throw new BackupError(
      `it is an increment of another backup, at version ${since.revision}, than the one before it, at version ${before.header.revision}`,
    )
}

/** Returns the version that all versions after the restore are above. */
export function baseAfter({ revision }: Pick<CheckedBackups, 'revision'>): Revision {
  return toRevision(revision + restoreDefaults.versionGap)
}

/**
 * Writes checked backups into a store that is being replaced, and makes them its content. Each object gets a version of
 * its own, in the order of the old ones.
 * @returns the version of the store
 * @throws the errors of the store; the replacement is not complete then
 */
export async function restoreInto(
  replacement: Replacement,
  { spool }: Pick<CheckedBackups, 'spool'>,
  { signal, onEntry = () => {} }: { readonly signal: AbortSignal; readonly onEntry?: (done: number) => void },
): Promise<Revision> {
  const { storage, keepsOrder } = replacement
  const writer = new OrderedWriter(storage, keepsOrder ? restoreDefaults.windowTransactions : 1, signal)
  const batch = new Batch()
  let done = 0
  for (const entry of spool.inOrder()) {
    if (isObject(entry.key)) {
      if (batch.operations.length > 0) await writer.write(batch.take())
      await writer.write([operationOf(entry)])
    } else {
      if (!batch.fits(entry)) await writer.write(batch.take())
      batch.add(entry)
    }
    onEntry(++done)
  }
  if (batch.operations.length > 0) await writer.write(batch.take())
  await writer.drain()
  signal.throwIfAborted()
  await replacement.complete()
  const { current } = await storage.head().catch(() => ({ current: undefined }))
  return current ?? writer.last
}

function operationOf({ key, value }: BackupEntry): Operation {
  return value === undefined ? { type: 'delete', key } : { type: 'put', key, value }
}

function bytesOf(operation: Operation): number {
  return operation.type === 'put' ? operation.value.length : 0
}

/** Keys that are written together. A transaction has no two operations for a key, as increments may have. */
class Batch {
  operations: Operation[] = []
  readonly #keys = new Set<string>()
  #bytes = 0

  fits({ key, value }: BackupEntry): boolean {
    const { batchKeys, batchBytes } = restoreDefaults
    if (this.operations.length === 0) return true
    const bytes = this.#bytes + (value?.length ?? 0)
    return this.operations.length < batchKeys && bytes <= batchBytes && !this.#keys.has(key)
  }

  add(entry: BackupEntry): void {
    this.operations.push(operationOf(entry))
    this.#keys.add(entry.key)
    this.#bytes += entry.value?.length ?? 0
  }

  take(): Operation[] {
    const { operations } = this
    this.operations = []
    this.#keys.clear()
    this.#bytes = 0
    return operations
  }
}

/** Writes transactions in order, several at a time if the store keeps it. */
class OrderedWriter {
  /** The revision of the latest transaction that has ended. */
  last: Revision = toRevision(0)
  readonly #storage: Storage
  readonly #most: number
  readonly #signal: AbortSignal
  #underWay = 0
  #bytes = 0
  #failure: { readonly error: unknown } | undefined
  #wake = () => {}

  constructor(storage: Storage, most: number, signal: AbortSignal) {
    this.#storage = storage
    this.#most = most
    this.#signal = signal
  }

  /** Resolves when the next one may be written. @throws the error of an earlier one, too */
  async write(onSuccess: readonly Operation[]): Promise<void> {
    this.#signal.throwIfAborted()
    const bytes = onSuccess.reduce((sum, operation) => sum + bytesOf(operation), 0)
    this.#bytes += bytes
    this.#underWay += 1
    void this.#storage
      .transact({ compares: [], onSuccess }, { signal: this.#signal })
      .then(
        ({ revision }) => {
          if (revision > this.last) this.last = revision
        },
        (error: unknown) => {
          this.#failure ??= { error }
        },
      )
      .finally(() => {
        this.#bytes -= bytes
        this.#underWay -= 1
        this.#wake()
      })
    while (this.#underWay >= this.#most || (this.#underWay > 0 && this.#bytes > restoreDefaults.windowBytes))
      await this.#oneEnded()
    this.#check()
  }

  async drain(): Promise<void> {
    while (this.#underWay > 0) await this.#oneEnded()
    this.#check()
  }

  #oneEnded(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  #check(): void {
    if (this.#failure !== undefined) throw this.#failure.error
  }
}
