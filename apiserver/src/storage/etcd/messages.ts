import { type Revision, toRevision, zeroRevision } from '@setpoint/controller-runtime/api'
import { ProtoReader, ProtoWriter } from './protobuf.ts'

/**
 * etcd's messages, with those of their fields that are in use; the numbers are those of etcd's `rpc.proto` and
 * `kv.proto`. Encoded requests begin with gRPC's prefix. Decoded bytes share the memory of the answer.
 */

/** What every answer begins with. */
export interface Header {
  /** Of the cluster; any other number is another store. */
  readonly clusterId: bigint
  readonly revision: Revision
  readonly raftTerm: number
}

export interface EtcdPair {
  readonly key: Buffer
  readonly createRevision: Revision
  readonly modRevision: Revision
  /** Puts since the creation of the key. */
  readonly version: number
  readonly value: Buffer
}

export interface RangeRequest {
  readonly key: Buffer
  /** The first key that is no longer meant; absent where `key` alone is. */
  readonly rangeEnd?: Buffer
  readonly limit?: number
  /** The state at this revision; the present one if absent. */
  readonly revision?: Revision
  /** Answered by the member from what it has, without asking the others. */
  readonly serializable?: boolean
  readonly keysOnly?: boolean
}

export interface RangeResponse {
  readonly header: Header
  readonly pairs: readonly EtcdPair[]
  readonly more: boolean
}

/** That a key was last put at a revision; at zero, that it does not exist. */
export interface EtcdCompare {
  readonly key: Buffer
  readonly modRevision: Revision
}

export type EtcdOperation =
  | { readonly type: 'put'; readonly key: Buffer; readonly value: Uint8Array }
  | { readonly type: 'delete'; readonly key: Buffer }

export interface TxnRequest {
  readonly compares: readonly EtcdCompare[]
  readonly onSuccess: readonly EtcdOperation[]
  /** Keys that are read where a compare fails. */
  readonly onFailure: readonly Buffer[]
}

export interface TxnResponse {
  readonly header: Header
  readonly succeeded: boolean
  /** Of a refused transaction: what each key of `onFailure` holds. */
  readonly reads: readonly (EtcdPair | undefined)[]
}

export interface WatchCreateRequest {
  readonly key: Buffer
  readonly rangeEnd?: Buffer
  readonly startRevision: Revision
  readonly progressNotify?: boolean
  readonly previousPair?: boolean
  readonly fragment?: boolean
}

export interface EtcdEvent {
  readonly type: 'put' | 'delete'
  readonly pair: EtcdPair
  readonly previous: EtcdPair | undefined
}

export interface WatchResponse {
  readonly header: Header
  /** -1 where the response concerns no watcher in particular. */
  readonly watchId: number
  readonly created: boolean
  readonly canceled: boolean
  readonly cancelReason: string
  /** Above zero where the watch was to begin at a revision that is compacted. */
  readonly compactRevision: Revision
  /** Whether more of the same revision follows in another response. */
  readonly fragment: boolean
  readonly events: readonly EtcdEvent[]
}

/** Room for the numbers and tags beside a key or value: more would only be reserved once it is needed. */
const overheadBytes = 32

export function encodeRange(request: RangeRequest): Buffer {
  const writer = new ProtoWriter(2 * (overheadBytes + request.key.length))
  writeRange(writer, request)
  return framed(writer)
}

function writeRange(writer: ProtoWriter, request: RangeRequest): void {
  const { key, rangeEnd, limit = 0, revision = zeroRevision, serializable, keysOnly } = request
  writer.flag(8, keysOnly)
  writer.flag(7, serializable)
  writer.integer(4, revision)
  writer.integer(3, limit)
  writer.bytes(2, rangeEnd)
  writer.bytes(1, key)
}

export function encodeTxn({ compares, onSuccess, onFailure }: TxnRequest): Buffer {
  let expectedBytes = overheadBytes
  for (const { key } of compares) expectedBytes += overheadBytes + key.length
  for (const key of onFailure) expectedBytes += overheadBytes + key.length
  for (const operation of onSuccess) {
    expectedBytes += overheadBytes + operation.key.length
    if (operation.type === 'put') expectedBytes += operation.value.length
  }
  const writer = new ProtoWriter(expectedBytes)
  for (let n = onFailure.length - 1; n >= 0; n--) writeRead(writer, onFailure[n])
  for (let n = onSuccess.length - 1; n >= 0; n--) writeOperation(writer, onSuccess[n])
  for (let n = compares.length - 1; n >= 0; n--) writeCompare(writer, compares[n])
  return framed(writer)
}

function writeCompare(writer: ProtoWriter, compare: EtcdCompare | undefined): void {
  if (compare === undefined) return
  const { mark } = writer
  writer.member(6, compare.modRevision)
  writer.bytes(3, compare.key)
  writer.integer(2, modTarget)
  writer.message(1, mark)
}

/** Compare by the mod revision; that it be equal is zero, and so is left out. */
const modTarget = 2

function writeOperation(writer: ProtoWriter, operation: EtcdOperation | undefined): void {
  if (operation === undefined) return
  const { mark } = writer
  if (operation.type === 'put') writer.bytes(2, operation.value)
  writer.bytes(1, operation.key)
  writer.message(operation.type === 'put' ? 2 : 3, mark)
  writer.message(2, mark)
}

function writeRead(writer: ProtoWriter, key: Buffer | undefined): void {
  if (key === undefined) return
  const { mark } = writer
  writer.bytes(1, key)
  writer.message(1, mark)
  writer.message(3, mark)
}

export function encodeCompaction(revision: Revision): Buffer {
  const writer = new ProtoWriter(overheadBytes)
  writer.integer(1, revision)
  return framed(writer)
}

export function encodeAuthenticate({ name, password }: { name: string; password: string }): Buffer {
  const writer = new ProtoWriter(overheadBytes)
  writer.text(2, password)
  writer.text(1, name)
  return framed(writer)
}

export function encodeWatchCreate(request: WatchCreateRequest): Buffer {
  const writer = new ProtoWriter(2 * (overheadBytes + request.key.length))
  const { mark } = writer
  writer.flag(8, request.fragment)
  writer.flag(6, request.previousPair)
  writer.flag(4, request.progressNotify)
  writer.integer(3, request.startRevision)
  writer.bytes(2, request.rangeEnd)
  writer.bytes(1, request.key)
  writer.message(1, mark)
  return framed(writer)
}

/** Uncompressed. */
function framed(writer: ProtoWriter): Buffer {
  writer.prefix(0)
  return writer.finish()
}

export function decodeRange(bytes: Buffer): RangeResponse {
  return readRange(new ProtoReader(bytes))
}

function readRange(reader: ProtoReader): RangeResponse {
  let header = noHeader
  const pairs: EtcdPair[] = []
  let more = false
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) header = readHeader(reader.message())
    else if (field === 2) pairs.push(readPair(reader.message()))
    else if (field === 3) more = reader.flag()
    else reader.skip()
  }
  return { header, pairs, more }
}

export function decodeTxn(bytes: Buffer): TxnResponse {
  const reader = new ProtoReader(bytes)
  let header = noHeader
  let succeeded = false
  const reads: (EtcdPair | undefined)[] = []
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) header = readHeader(reader.message())
    else if (field === 2) succeeded = reader.flag()
    // What was put or deleted is of no interest, and comes after the word that it was.
    else if (field === 3 && !succeeded) reads.push(readRead(reader.message()))
    else reader.skip()
  }
  return { header, succeeded, reads }
}

function readRead(reader: ProtoReader): EtcdPair | undefined {
  let pair: EtcdPair | undefined
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) pair = readRange(reader.message()).pairs[0]
    else reader.skip()
  }
  return pair
}

/** Of the answer to a login, the token. */
export function decodeAuthenticate(bytes: Buffer): string {
  const reader = new ProtoReader(bytes)
  let token = ''
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 2) token = reader.text()
    else reader.skip()
  }
  return token
}

export function decodeWatch(bytes: Buffer): WatchResponse {
  const reader = new ProtoReader(bytes)
  let header = noHeader
  let watchId = 0
  let created = false
  let canceled = false
  let cancelReason = ''
  let compactRevision = zeroRevision
  let fragment = false
  const events: EtcdEvent[] = []
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) header = readHeader(reader.message())
    else if (field === 2) watchId = Number(BigInt.asIntN(64, reader.bigInteger()))
    else if (field === 3) created = reader.flag()
    else if (field === 4) canceled = reader.flag()
    else if (field === 5) compactRevision = toRevision(reader.integer())
    else if (field === 6) cancelReason = reader.text()
    else if (field === 7) fragment = reader.flag()
    else if (field === 11) events.push(readEvent(reader.message()))
    else reader.skip()
  }
  return { header, watchId, created, canceled, cancelReason, compactRevision, fragment, events }
}

function readEvent(reader: ProtoReader): EtcdEvent {
  let type: EtcdEvent['type'] = 'put'
  let pair = noPair
  let previous: EtcdPair | undefined
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) type = reader.integer() === 1 ? 'delete' : 'put'
    else if (field === 2) pair = readPair(reader.message())
    else if (field === 3) previous = readPair(reader.message())
    else reader.skip()
  }
  return { type, pair, previous }
}

function readHeader(reader: ProtoReader): Header {
  let clusterId = 0n
  let revision = zeroRevision
  let raftTerm = 0
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) clusterId = reader.bigInteger()
    else if (field === 3) revision = toRevision(reader.integer())
    else if (field === 4) raftTerm = reader.integer()
    else reader.skip()
  }
  return { clusterId, revision, raftTerm }
}

function readPair(reader: ProtoReader): EtcdPair {
  let key = noBytes
  let createRevision = zeroRevision
  let modRevision = zeroRevision
  let version = 0
  let value = noBytes
  for (let field = reader.field(); field !== 0; field = reader.field()) {
    if (field === 1) key = reader.bytes()
    else if (field === 2) createRevision = toRevision(reader.integer())
    else if (field === 3) modRevision = toRevision(reader.integer())
    else if (field === 4) version = reader.integer()
    else if (field === 5) value = reader.bytes()
    else reader.skip()
  }
  return { key, createRevision, modRevision, version, value }
}

const noBytes: Buffer = Buffer.alloc(0)
/** What an answer without one means, by the rules of the format. */
const noHeader: Header = Object.freeze({ clusterId: 0n, revision: zeroRevision, raftTerm: 0 })
const noPair: EtcdPair = Object.freeze({
  key: noBytes,
  createRevision: zeroRevision,
  modRevision: zeroRevision,
  version: 0,
  value: noBytes,
})
