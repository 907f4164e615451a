import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Change, KeyValue } from '../contract.ts'

/**
 * The rows of the file. Revisions are big-endian doubles unless noted.
 *
 *     present   key bytes                    -> modRevision | createRevision | value
 *     history   first revision, as uint64    -> segment: the changes of consecutive revisions
 *     segment   revision*                       revision: length u32 | change*
 *     change    flags u8 | key length u16 | key | createRevision | value?    (length u32 | bytes)
 *                                                | previous?  (modRevision | createRevision | length u32 | bytes)
 *     state     "state" in the meta table    -> StoreState, five numbers
 *
 * A change has the value and the previous pair, so a watch reads only the history, and a past state is the current one
 * with later changes undone. The revisions of a commit share segments, because one large row costs LMDB far less than
 * many small ones.
 */
export interface PresentRow {
  readonly modRevision: Revision
  readonly createRevision: Revision
  /** The row as stored. */
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

/** A change of a key, not yet encoded. */
export interface DraftChange {
  readonly key: Buffer
  readonly now: PresentRow | undefined
  readonly before: PresentRow | undefined
}

const hasValue = 1
const hasPrevious = 2

/** The changes of a revision, not yet encoded. */
export interface DraftRevision {
  readonly revision: Revision
  readonly changes: readonly DraftChange[]
  /** Size in a segment, in bytes. */
  readonly bytes: number
}

export function draftRevision(revision: Revision, changes: readonly DraftChange[]): DraftRevision {
  let bytes = 4
  for (const { key, now, before } of changes) {
    bytes += 11 + key.length
    if (now !== undefined) bytes += 4 + now.bytes.length - presentHeaderBytes
    if (before !== undefined) bytes += 4 + before.bytes.length
  }
  return { revision, changes, bytes }
}

/** A row with consecutive revisions. */
export interface Segment {
  readonly first: Revision
  readonly last: Revision
  readonly row: Buffer
}

/** @param segmentBytes the largest segment. Only a single revision may be larger. */
export function encodeSegments(revisions: readonly DraftRevision[], segmentBytes: number): Segment[] {
  const segments: Segment[] = []
  for (let from = 0; from < revisions.length; ) {
    let bytes = 0
    let to = from
    for (; to < revisions.length; to++) {
      const next = revisions[to]?.bytes ?? 0
      if (to > from && bytes + next > segmentBytes) break
      bytes += next
    }
    const members = revisions.slice(from, to)
    const first = members[0]
    const last = members.at(-1)
    if (first === undefined || last === undefined) break
    const row = Buffer.allocUnsafe(bytes)
    let at = 0
    for (const member of members) at = writeRevision(row, at, member)
    segments.push({ first: first.revision, last: last.revision, row })
    from = to
  }
  return segments
}

function writeRevision(row: Buffer, start: number, { changes, bytes }: DraftRevision): number {
  let at = row.writeUInt32BE(bytes - 4, start)
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
  return at
}

export function decodeSegment(first: Revision, row: Buffer): Segment {
  let last = first - 1
  for (let at = 0; at < row.length; at += 4 + row.readUInt32BE(at)) last++
  return { first, last: toRevision(last), row }
}

/** All changes of a revision, with their size in bytes. Values share the memory of the segment. */
export interface RevisionChanges {
  readonly revision: Revision
  readonly changes: readonly HistoryChange[]
  readonly bytes: number
}

/** Returns the revisions of a segment from `from` on, in ascending order. */
export function* revisionsOf(segment: Segment, from: Revision): Generator<RevisionChanges> {
  let revision = segment.first
  for (let at = 0; at < segment.row.length; revision = toRevision(revision + 1)) {
    const bytes = segment.row.readUInt32BE(at)
    if (revision >= from)
      yield {
        revision,
        changes: decodeChanges(revision, segment.row.subarray(at + 4, at + 4 + bytes)),
        bytes,
      }
    at += 4 + bytes
  }
}

/** A change with the pair that it replaced. */
export interface HistoryChange extends Change {
  readonly before: KeyValue | undefined
}

function decodeChanges(revision: Revision, row: Buffer): HistoryChange[] {
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

/** The revisions and sizes of the store after a commit. */
export interface StoreState {
  /** The last assigned revision. */
  readonly current: Revision
  /** The oldest revision that lists and watches can use. */
  readonly compacted: Revision
  /** The last revision whose history has been removed; at most `compacted`. */
  readonly swept: Revision
  /** Bytes of the history after `swept`. */
  readonly historyBytes: number
  /** Bytes of the current keys and values. */
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
