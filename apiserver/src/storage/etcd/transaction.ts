import { randomBytes } from 'node:crypto'
import { parseRevision, type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { ICompare, IRequestOp, ITxnRequest, ITxnResponse } from 'etcd3'
import { type KeyValue, storageLimits, type Transaction, type TransactionResult } from '../contract.ts'
import { Keyspace } from './keyspace.ts'

/**
 * Makes the value that a transaction gives to the tip: no two transactions of any process have the same, so whoever
 * reads the tip at a revision knows which transaction made that revision.
 */
export class TransactionIds {
  readonly #process = randomBytes(10)
  #count = 0

  next(): Buffer {
    const id = Buffer.allocUnsafe(16)
    this.#process.copy(id)
    id.writeUIntBE(++this.#count, 10, 6)
    return id
  }
}

/** The protocol's numbers, which encode faster than its names. */
const equal = 0
const modRevisionTarget = 2

/**
 * etcd's form of a transaction: the caller's compares and operations and, where there are any operations, the compare of
 * the fence and the put of the tip. A refusal brings the fence, after what the caller wants to know.
 * @throws RangeError when it is over `storageLimits` or touches the storage's own keys.
 */
export function encodeTransaction(
  keyspace: Keyspace,
  transaction: Transaction,
  id: Buffer,
  fence: Revision,
): ITxnRequest {
  const { compares, onSuccess, onFailure } = transaction
  if (Math.max(compares.length, onSuccess.length) > storageLimits.transactionItems)
    throw new RangeError(`more than ${storageLimits.transactionItems} compares and operations`)
  const success: IRequestOp[] = []
  for (const operation of onSuccess) {
    const key = keyspace.encode(operation.key)
    if (Keyspace.isOwn(operation.key)) throw new RangeError(`the key ${operation.key} is the store's own`)
    if (operation.type === 'delete') {
      success.push({ request_delete_range: { key } })
    } else {
      if (operation.value.byteLength > storageLimits.valueBytes)
        throw new RangeError(
          `a value of ${operation.value.byteLength} bytes, over ${storageLimits.valueBytes}`,
        )
      success.push({ request_put: { key, value: toBuffer(operation.value) } })
    }
  }
  const compare = compares.map(({ key, modRevision }) => isAt(keyspace.encode(key), modRevision))
  const failure = onFailure?.map(key => readOf(keyspace.encode(key))) ?? []
  if (success.length > 0) {
    success.push({ request_put: { key: keyspace.tip, value: id } })
    compare.push(isAt(keyspace.fence, fence))
    failure.push(readOf(keyspace.fence))
  }
  return { compare, success, failure }
}

function isAt(key: Buffer, modRevision: Revision): ICompare {
  return { key, target: modRevisionTarget, result: equal, mod_revision: modRevision }
}

function readOf(key: Buffer): IRequestOp {
  return { request_range: { key } }
}

/** Of a refused transaction with operations also where the fence is, which may be why it was refused. */
export function decodeTransaction(
  { onSuccess, onFailure = [] }: Transaction,
  { header, succeeded, responses }: ITxnResponse,
): { readonly result: TransactionResult; readonly fence?: Revision } {
  const revision = parseRevision(header.revision)
  if (succeeded) return { result: { succeeded: true, revision } }
  const pairs = onFailure.map((key, index) => {
    const kv = responses[index]?.response_range.kvs[0]
    return kv && decodePair(key, kv)
  })
  const result: TransactionResult = { succeeded: false, revision, pairs }
  if (onSuccess.length === 0) return { result }
  const fence = responses[onFailure.length]?.response_range.kvs[0]
  return { result, fence: fence ? parseRevision(fence.mod_revision) : zeroRevision }
}

export function decodePair(
  key: string,
  kv: { value: Buffer; mod_revision: string; create_revision: string; version: string },
): KeyValue {
  const modRevision: Revision = parseRevision(kv.mod_revision)
  const createRevision =
    kv.create_revision === kv.mod_revision ? modRevision : parseRevision(kv.create_revision)
  return { key, value: kv.value, modRevision, createRevision, puts: Number(kv.version) }
}

function toBuffer(value: Uint8Array): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}
