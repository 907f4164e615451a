import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { FutureRevisionError, StoreFullError, type Transaction, type TransactionResult } from '../contract.ts'
import type { EmbeddedBounds } from './defaults.ts'
import { encodeKey } from './keys.ts'
import {
  type DraftChange,
  type DraftRevision,
  draftRevision,
  encodePresent,
  encodeSegments,
  type PresentRow,
  presentHeaderBytes,
  type StoreState,
  toKeyValue,
} from './rows.ts'
import type { FileCommit, StoreFile } from './store-file.ts'

/**
 * Applies the transactions of a commit in memory, in order. Each one sees the changes before it and gets a revision of
 * its own. Nothing is written before the result of `finish` is committed.
 */
export class Batch {
  readonly #file: StoreFile
  readonly #bounds: EmbeddedBounds
  readonly #start: StoreState
  /** Rows that the batch has read or written; undefined for a missing key. */
  readonly #rows = new Map<string, PresentRow | undefined>()
  readonly #written = new Map<string, PresentRow | undefined>()
  readonly #history: DraftRevision[] = []
  #current: Revision
  #compacted: Revision
  #historyBytes: number
  #dataBytes: number

  constructor(file: StoreFile, bounds: EmbeddedBounds) {
    this.#file = file
    this.#bounds = bounds
    this.#start = file.state
    this.#current = this.#start.current
    this.#compacted = this.#start.compacted
    this.#historyBytes = this.#start.historyBytes
    this.#dataBytes = this.#start.dataBytes
  }

  /** @throws StoreFullError if the data would exceed its bound. The batch is then unchanged. */
  transact({ compares, onSuccess, onFailure }: Transaction): TransactionResult {
    for (const { key, modRevision } of compares)
      if ((this.#read(key)?.modRevision ?? zeroRevision) !== modRevision)
        return {
          succeeded: false,
          revision: this.#current,
          pairs: (onFailure ?? []).map(wanted => {
            const row = this.#read(wanted)
            return row && toKeyValue(wanted, row)
          }),
        }
    const revision = toRevision(this.#current + 1)
    const changes: DraftChange[] = []
    const rows: [key: string, row: PresentRow | undefined][] = []
    let growth = 0
    for (const operation of onSuccess) {
      const before = this.#read(operation.key)
      if (operation.type === 'delete' && before === undefined) continue
      const now =
        operation.type === 'delete'
          ? undefined
          : encodePresent(revision, before?.createRevision ?? revision, operation.value)
      const key = encodeKey(operation.key)
      growth += sizeOf(key, now) - sizeOf(key, before)
      changes.push({ key, now, before })
      rows.push([operation.key, now])
    }
    if (changes.length === 0) return { succeeded: true, revision: this.#current }
    if (growth > 0 && this.#dataBytes + growth > this.#bounds.dataBytes)
      throw new StoreFullError(
        `the store is full: its data would exceed ${this.#bounds.dataBytes} bytes; delete some objects`,
      )
    for (const [key, row] of rows) {
      this.#rows.set(key, row)
      this.#written.set(key, row)
    }
    const draft = draftRevision(revision, changes)
    this.#history.push(draft)
    this.#historyBytes += draft.bytes
    this.#dataBytes += growth
    this.#current = revision
    return { succeeded: true, revision }
  }

  /** @throws FutureRevisionError if the store has not reached the revision. */
  compact(revision: Revision): void {
    if (revision > this.#current)
      throw new FutureRevisionError(`revision ${revision} is in the future: the store is at ${this.#current}`)
    if (revision > this.#compacted) this.#compacted = revision
  }

  /** Returns the commit, or undefined if there is nothing to write and no history to remove. */
  finish(): FileCommit | undefined {
    const beyondBound = this.#current - this.#bounds.historyRevisions
    if (beyondBound > this.#compacted) this.#compacted = toRevision(beyondBound)
    const { sweep, swept } = this.#sweep()
    if (this.#history.length === 0 && sweep.length === 0 && this.#compacted === this.#start.compacted)
      return undefined
    return {
      present: this.#written,
      history: encodeSegments(this.#history, this.#bounds.segmentBytes),
      sweep,
      state: {
        current: this.#current,
        compacted: this.#compacted,
        swept,
        historyBytes: this.#historyBytes,
        dataBytes: this.#dataBytes,
      },
    }
  }

  /**
   * Returns the oldest segments, which this commit removes: those that are compacted, and those beyond the bound of the
   * history, which thereby become compacted. The revisions of this batch stay.
   */
  #sweep(): { sweep: Revision[]; swept: Revision } {
    const sweep: Revision[] = []
    let { swept } = this.#start
    while (sweep.length < this.#bounds.sweepSegments && swept < this.#start.current) {
      const isTooLarge = this.#historyBytes > this.#bounds.historyBytes
      if (swept >= this.#compacted && !isTooLarge) break
      const oldest = this.#file.segmentWith(toRevision(swept + 1))
      if (oldest === undefined || (oldest.last > this.#compacted && !isTooLarge)) break
      sweep.push(oldest.first)
      swept = oldest.last
      this.#historyBytes -= oldest.row.length
    }
    if (swept > this.#compacted) this.#compacted = swept
    return { sweep, swept }
  }

  #read(key: string): PresentRow | undefined {
    const known = this.#rows.get(key)
    if (known !== undefined || this.#rows.has(key)) return known
    const row = this.#file.get(key)
    this.#rows.set(key, row)
    return row
  }
}

function sizeOf(key: Buffer, row: PresentRow | undefined): number {
  return row === undefined ? 0 : key.length + row.bytes.length - presentHeaderBytes
}
