import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Change, KeyValue } from '../contract.ts'

/**
 * The rows of the file. All numbers are 8-byte big-endian doubles (exact for every revision) unless said otherwise.
 *
 *     present   key bytes                   -> modRevision | createRevision | value
 *     history   revision as uint64          -> change*, all changes of that revision
 *     change    flags u8 | key length u16 | key | createRevision | value?    (length u32 | bytes)
 *                                                | previous?  (modRevision | createRevision | length u32 | bytes)
 *     state     "state" in the meta table   -> StoreState, five numbers
 *
 * A change carries the value and the one before it, so that a watch needs nothing else, and the state at a past
 * revision is the present with the later changes undone.
 */
export interface PresentRow {
  readonly modRevision: Revision
  readonly createRevision: Revision
  /** The whole row, as it is stored. */
  readonly bytes: Buffer
}

export const presentHeaderBytes = 16

export function encodePresent(
  modRevision: Revision,
  createRevision: Revision,
  value: Uint8Array,
): PresentRow {
  const bytes = Buffer.allocUnsafe(presentHeaderBytes + value.length)
  bytes.writeDoubleBE(modRevision, 0)
  bytes.writeDoubleBE(createRevision, 8)
  bytes.set(value, presentHeaderBytes)
  return { modRevision, createRevision, bytes }
}

export function decodePresent(bytes: Buffer): PresentRow {
  return {
    modRevision: toRevision(bytes.readDoubleBE(0)),
    createRevision: toRevision(bytes.readDoubleBE(8)),
    bytes,
  }
}

export function toKeyValue(key: string, row: PresentRow): KeyValue {
  return {
    key,
    value: valueIn(row),
    modRevision: row.modRevision,
    createRevision: row.createRevision,
  }
}

function valueIn(row: PresentRow): Buffer {
  return row.bytes.subarray(presentHeaderBytes)
}

/** One key's change, before it has become bytes. */
export interface DraftChange {
  readonly key: Buffer
  readonly now: PresentRow | undefined
  readonly before: PresentRow | undefined
}

const hasValue = 1
const hasPrevious = 2

export function encodeHistory(changes: readonly DraftChange[]): Buffer {
  let size = 0
  for (const { key, now, before } of changes) {
    size += 11 + key.length
    if (now !== undefined) size += 4 + now.bytes.length - presentHeaderBytes
    if (before !== undefined) size += 4 + before.bytes.length
  }
  const row = Buffer.allocUnsafe(size)
  let at = 0
  for (const { key, now, before } of changes) {
    at = row.writeUInt8((now ? hasValue : 0) | (before ? hasPrevious : 0), at)
    at = row.writeUInt16BE(key.length, at)
    at += key.copy(row, at)
    at = row.writeDoubleBE(now?.createRevision ?? zeroRevision, at)
    if (now !== undefined) {
      at = row.writeUInt32BE(now.bytes.length - presentHeaderBytes, at)
      at += now.bytes.copy(row, at, presentHeaderBytes)
    }
    if (before !== undefined) {
      at += before.bytes.copy(row, at, 0, presentHeaderBytes)
      at = row.writeUInt32BE(before.bytes.length - presentHeaderBytes, at)
      at += before.bytes.copy(row, at, presentHeaderBytes)
    }
  }
  return row
}

/** A change together with the pair that it replaced, which undoes it. */
export interface HistoryChange extends Change {
  readonly before: KeyValue | undefined
}

/** All changes of one revision. Their values share the memory of `row`. */
export function decodeHistory(revision: Revision, row: Buffer): HistoryChange[] {
  const changes: HistoryChange[] = []
  for (let at = 0; at < row.length; ) {
    const flags = row.readUInt8(at)
    const keyEnd = at + 3 + row.readUInt16BE(at + 1)
    const key = row.toString('utf8', at + 3, keyEnd)
    const createRevision = toRevision(row.readDoubleBE(keyEnd))
    at = keyEnd + 8
    let value: Buffer | undefined
    if (flags & hasValue) {
      const length = row.readUInt32BE(at)
      value = row.subarray(at + 4, at + 4 + length)
      at += 4 + length
    }
    let before: KeyValue | undefined
    if (flags & hasPrevious) {
      const length = row.readUInt32BE(at + presentHeaderBytes)
      const start = at + presentHeaderBytes + 4
      before = {
        key,
        value: row.subarray(start, start + length),
        modRevision: toRevision(row.readDoubleBE(at)),
        createRevision: toRevision(row.readDoubleBE(at + 8)),
      }
      at = start + length
    }
    changes.push({ key, revision, value, previous: before?.value, createRevision, before })
  }
  return changes
}

export function encodeRevision(revision: number): Buffer {
  const bytes = Buffer.allocUnsafe(8)
  bytes.writeBigUInt64BE(BigInt(revision))
  return bytes
}

export function decodeRevision(bytes: Buffer): Revision {
  return toRevision(Number(bytes.readBigUInt64BE()))
}

/** Where the store stands, as of one commit. */
export interface StoreState {
  /** The last revision given out. */
  readonly current: Revision
  /** What is older than this state can neither be listed nor watched from. */
  readonly compacted: Revision
  /** The last revision whose history row has been removed: at most `compacted`, behind it while a sweep goes on. */
  readonly swept: Revision
  /** Bytes of the history rows above `swept`. */
  readonly historyBytes: number
  /** Bytes of the present's keys and values. */
  readonly dataBytes: number
}

export const emptyState: StoreState = Object.freeze({
  current: zeroRevision,
  compacted: zeroRevision,
  swept: zeroRevision,
  historyBytes: 0,
  dataBytes: 0,
})

export function encodeState(state: StoreState): Buffer {
  const bytes = Buffer.allocUnsafe(40)
  bytes.writeDoubleBE(state.current, 0)
  bytes.writeDoubleBE(state.compacted, 8)
  bytes.writeDoubleBE(state.swept, 16)
  bytes.writeDoubleBE(state.historyBytes, 24)
  bytes.writeDoubleBE(state.dataBytes, 32)
  return bytes
}

export function decodeState(bytes: Buffer): StoreState {
  return {
    current: toRevision(bytes.readDoubleBE(0)),
    compacted: toRevision(bytes.readDoubleBE(8)),
    swept: toRevision(bytes.readDoubleBE(16)),
    historyBytes: bytes.readDoubleBE(24),
    dataBytes: bytes.readDoubleBE(32),
  }
}
