import { join } from 'node:path'
import { errorMessage, type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Database, RootDatabase, Transaction } from 'lmdb'
import { checkDatabaseFile } from './database-file.ts'
import type { EmbeddedBounds } from './defaults.ts'
import { FileSpace } from './file-space.ts'
import { StoreFolderError } from './folder-error.ts'
import { encodeKey } from './keys.ts'
import { open } from './lmdb.ts'
import {
  decodePresent,
  decodeRevision,
  decodeSegment,
  decodeState,
  emptyState,
  encodeRevision,
  encodeState,
  type HistoryChange,
  type PresentRow,
  type RevisionChanges,
  revisionsOf,
  type Segment,
  type StoreState,
} from './rows.ts'
import { syncFolder } from './sync.ts'

export const storeFileName = 'store.mdb'
const formatVersion = 1
const formatKey = Buffer.from('format')
const stateKey = Buffer.from('state')

interface Tables {
  readonly root: RootDatabase<Buffer, Buffer>
  readonly meta: Database<Buffer, Buffer>
  readonly present: Database<Buffer, Buffer>
  readonly history: Database<Buffer, Buffer>
}

/** The rows of a commit, written in one LMDB transaction. */
export interface FileCommit {
  /** New rows by key; undefined removes the key. */
  readonly present: ReadonlyMap<string, PresentRow | undefined>
  readonly history: readonly Segment[]
  /** The first revisions of the segments to remove. */
  readonly sweep: readonly Revision[]
  readonly state: StoreState
}

/**
 * The LMDB file, with three tables and one writer.
 *
 * Reads use a snapshot that only `refresh` replaces, after a commit is durable. So all reads and `state` show the same
 * revision, and never a change that could still be lost.
 */
export class StoreFile {
  readonly folder: string
  readonly path: string
  readonly #root: RootDatabase<Buffer, Buffer>
  readonly #present: Database<Buffer, Buffer>
  readonly #history: Database<Buffer, Buffer>
  readonly #meta: Database<Buffer, Buffer>
  readonly #space: FileSpace
  readonly #bounds: EmbeddedBounds
  readonly #pageBytes: number
  /** An upper bound for the bytes of the file that LMDB uses. */
  #end: number
  #snapshot: Transaction
  #state: StoreState
  /** The last segment read, as a cache: segments never change, and revisions are read in order. */
  #lastSegment: Segment | undefined

  /**
   * @param dataDir an existing folder that this process has locked.
   * @param startAfter the revision that a new store begins after
   * @throws StoreFolderError if the file is damaged, belongs to another program, or has a newer format.
   */
  static async open(
    dataDir: string,
    bounds: EmbeddedBounds,
    { durable = true, startAfter = zeroRevision }: { durable?: boolean; startAfter?: Revision } = {},
  ): Promise<StoreFile> {
    const path = join(dataDir, storeFileName)
    checkDatabaseFile(path)
    let root: RootDatabase<Buffer, Buffer>
    try {
      root = open<Buffer, Buffer>({
        path,
        noSubdir: true,
        encoding: 'binary',
        keyEncoding: 'binary',
        maxDbs: 4,
        mapSize: bounds.mapBytes,
        // A commit must resolve only when it is durable.
        overlappingSync: false,
        noSync: !durable,
        // GroupCommit makes the batches.
        eventTurnBatching: false,
      })
    } catch (error) {
      throw new StoreFolderError(`cannot open the store ${path}: ${errorMessage(error)}`, {
        cause: error,
      })
    }
    try {
      const tables = new Set(Array.from(root.getKeys(), tableName))
      if (tables.size > 0 && !tables.has('meta'))
        throw new StoreFolderError(`${path} is the database of another program; choose another folder`)
      const meta = openTable(root, 'meta')
      checkFormat(path, meta, tables.size === 0 ? startAfter : undefined)
      const present = openTable(root, 'present')
      const history = openTable(root, 'history')
      // Opened last, because it overwrites everything after the current end of the file.
      const space = await FileSpace.open(path, bounds)
      const file = new StoreFile(dataDir, { root, meta, present, history }, space, bounds)
      if (tables.size === 0 && durable) syncFolder(dataDir)
      return file
    } catch (error) {
      await root.close()
      throw damageOf(path, error) ?? error
    }
  }

  private constructor(folder: string, tables: Tables, space: FileSpace, bounds: EmbeddedBounds) {
    const { root, meta, present, history } = tables
    this.folder = folder
    this.path = join(folder, storeFileName)
    this.#root = root
    this.#meta = meta
    this.#present = present
    this.#history = history
    this.#space = space
    this.#bounds = bounds
    const stats = root.getStats()
    this.#pageBytes = statistic(stats, 'pageSize')
    this.#end = usedBytes(stats)
    root.resetReadTxn()
    this.#snapshot = root.useReadTransaction()
    this.#state = this.#readState()
  }

  /** The state of the snapshot, which all reads use. */
  get state(): StoreState {
    return this.#state
  }

  get(key: string): PresentRow | undefined {
    const bytes = this.#present.get(encodeKey(key), { transaction: this.#snapshot })
    return bytes && decodePresent(bytes)
  }

  /** Returns the keys from `start` up to `end`, exclusive, in ascending order. Do not await while iterating. */
  *range(start: Buffer, end: Buffer | undefined): Generator<{ key: string; row: PresentRow }> {
    const range = { transaction: this.#snapshot, ...(start.length ? { start } : {}), ...(end ? { end } : {}) }
    for (const { key, value } of this.#present.getRange(range))
      yield { key: key.toString('utf8'), row: decodePresent(value) }
  }

  /** Returns true if no key is stored. */
  get isEmpty(): boolean {
    for (const _ of this.#present.getKeys({ transaction: this.#snapshot, limit: 1 })) return false
    return true
  }

  /** Returns the segment with a revision, or undefined if it has been removed. */
  segmentWith(revision: Revision): Segment | undefined {
    const last = this.#lastSegment
    if (last !== undefined && last.first <= revision && revision <= last.last) return last
    const range = { transaction: this.#snapshot, start: encodeRevision(revision), reverse: true, limit: 1 }
    for (const { key, value } of this.#history.getRange(range)) {
      const segment = decodeSegment(decodeRevision(key), value)
      this.#lastSegment = segment
      return segment.last < revision ? undefined : segment
    }
    return undefined
  }

  /** Returns the changes of a revision; empty if they have been removed. */
  changesOf(revision: Revision): readonly HistoryChange[] {
    const segment = this.segmentWith(revision)
    if (segment !== undefined) for (const { changes } of revisionsOf(segment, revision)) return changes
    return []
  }

  /** Returns the history after a revision, in ascending order. Do not await while iterating. */
  *historyAfter(revision: Revision): Generator<RevisionChanges> {
    const next = toRevision(revision + 1)
    const start = this.segmentWith(next)?.first ?? next
    const range = { transaction: this.#snapshot, start: encodeRevision(start) }
    for (const { key, value } of this.#history.getRange(range))
      yield* revisionsOf(decodeSegment(decodeRevision(key), value), next)
  }

  /**
   * Writes a commit as one LMDB transaction, on another thread. Resolves once it is durable; `refresh` then makes it
   * readable. Supports one commit at a time.
   * @throws the error of LMDB or the system. After an error, `refresh` shows whether the commit was written.
   */
  async commit({ present, history, sweep, state }: FileCommit): Promise<void> {
    await this.#ensureSpace({ present, history, sweep, state })
    try {
      await this.#root.batch(() => {
        for (const [key, row] of present) {
          const bytes = encodeKey(key)
          if (row === undefined) void this.#present.remove(bytes)
          else void this.#present.put(bytes, row.bytes)
        }
        for (const { first, row } of history) void this.#history.put(encodeRevision(first), row)
        for (const first of sweep) void this.#history.remove(encodeRevision(first))
        void this.#meta.put(stateKey, encodeState(state))
      })
    } catch (error) {
      throw await reasonOf(error)
    }
  }

  /** Moves the snapshot to the newest commit and returns its state. */
  refresh(): StoreState {
    const old = this.#snapshot
    this.#root.resetReadTxn()
    this.#snapshot = this.#root.useReadTransaction()
    old.done()
    this.#state = this.#readState()
    return this.#state
  }

  /** Returns the bytes of the file, and of its part that LMDB uses. */
  space(): { readonly sizeBytes: number; readonly usedBytes: number } {
    return { sizeBytes: this.#space.allocatedBytes, usedBytes: usedBytes(this.#root.getStats()) }
  }

  /** Writes the content to a new file, without free space. @throws the error of LMDB or the system */
  copyCompacted(path: string): Promise<void> {
    return this.#root.backup(path, true)
  }

  /**
   * Closes the file. Resolves with false if a commit hangs for longer than `patienceMs` milliseconds; LMDB then still
   * uses the file.
   */
  async close(patienceMs: number): Promise<boolean> {
    this.#snapshot.done()
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise<false>(resolve => {
      timer = setTimeout(() => resolve(false), patienceMs)
    })
    const closed = this.#root.close().then(async () => {
      await this.#space.close()
      return true
    })
    const isClosed = await Promise.race([closed, patience])
    clearTimeout(timer)
    return isClosed
  }

  async #ensureSpace({ present, history, sweep, state }: FileCommit): Promise<void> {
    let pages = pagesPerCommit + (present.size + history.length + sweep.length) * pagesPerRow
    for (const row of present.values()) pages += Math.ceil((row?.bytes.length ?? 0) / this.#pageBytes)
    for (const { row } of history) pages += Math.ceil(row.length / this.#pageBytes)
    const need = pages * this.#pageBytes
    const isClearing = present.size === 0 || state.dataBytes < this.#state.dataBytes
    const spare = isClearing ? 0 : this.#bounds.spaceReserveBytes
    // The estimates are too high, because LMDB mostly reuses free pages. Read the real end before allocating space.
    if (this.#space.isLow(this.#end + need + spare)) this.#end = usedBytes(this.#root.getStats())
    await this.#space.ensure(this.#end + need + spare)
    this.#end += need
  }

  #readState(): StoreState {
    const bytes = this.#meta.get(stateKey, { transaction: this.#snapshot })
    return bytes ? decodeState(bytes) : emptyState
  }
}

/** Returns an error with the remedy if LMDB's error says that pages of the file are damaged. */
function damageOf(path: string, error: unknown): StoreFolderError | undefined {
  const message = errorMessage(error)
  if (!/^MDB_(BAD_TXN|CORRUPTED|INVALID|PAGE_NOTFOUND|PANIC)/.test(message)) return undefined
  return new StoreFolderError(`${path} is damaged, restore a backup: ${message}`, { cause: error })
}

function openTable(root: RootDatabase<Buffer, Buffer>, name: string): Database<Buffer, Buffer> {
  return root.openDB<Buffer, Buffer>({ name, encoding: 'binary', keyEncoding: 'binary' })
}

/** Pages of the trees and of LMDB's free list that any commit may copy. */
const pagesPerCommit = 64
/** Additional pages that writing or removing a row may copy: a leaf, a split, and a share of the branches. */
const pagesPerRow = 4

function usedBytes(stats: object): number {
  return (statistic(stats, 'lastPageNumber') + 1) * statistic(stats, 'pageSize')
}

function statistic(stats: object, name: string): number {
  const value: unknown = Reflect.get(stats, name)
  if (typeof value !== 'number') throw new Error(`lmdb does not report ${name}`)
  return value
}

/** Returns the table name of a key of the root table, where lmdb appends a zero byte. */
function tableName(key: Buffer): string {
  return key.toString('utf8').replace(/\0$/, '')
}

/** @param startAfter the revision that the store begins after, if it is new */
function checkFormat(path: string, meta: Database<Buffer, Buffer>, startAfter: Revision | undefined): void {
  if (startAfter !== undefined && startAfter !== zeroRevision) {
    const [current, compacted, swept] = [startAfter, startAfter, startAfter]
    meta.putSync(stateKey, encodeState({ ...emptyState, current, compacted, swept }))
  }
  if (startAfter !== undefined)
    meta.putSync(formatKey, Buffer.from(JSON.stringify({ store: 'setpoint', version: formatVersion })))
  const version = readFormat(meta.get(formatKey))
  if (version === undefined)
    throw new StoreFolderError(`${path} is the database of another program; choose another folder`)
  if (version > formatVersion)
    throw new StoreFolderError(
      `${path} has format ${version}, written by a newer version of Setpoint; this version reads formats up to ${formatVersion}`,
    )
}

function readFormat(row: Buffer | undefined): number | undefined {
  if (row === undefined) return undefined
  try {
    const value: unknown = JSON.parse(row.toString())
    if (typeof value !== 'object' || value === null || !('store' in value) || !('version' in value))
      return undefined
    return value.store === 'setpoint' && typeof value.version === 'number' ? value.version : undefined
  } catch {
    return undefined
  }
}

/** Returns the reason of a failed batch. lmdb hides it in `commitError`, a promise that rejects with the reason. */
async function reasonOf(error: unknown): Promise<unknown> {
  if (typeof error !== 'object' || error === null || !('commitError' in error)) return error
  try {
    return await error.commitError
  } catch (reason) {
    return reason
  }
}
