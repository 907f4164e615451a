import { randomBytes } from 'node:crypto'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import {
  type KeyValue,
  type Operation,
  storageLimits,
  type Transaction,
  type TransactionResult,
} from '../contract.ts'
import { Keyspace } from './keyspace.ts'
import type { EtcdOperation, EtcdPair, TxnRequest, TxnResponse } from './messages.ts'

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
): TxnRequest {
  const { compares, onSuccess, onFailure = [] } = transaction
  if (Math.max(compares.length, onSuccess.length) > storageLimits.transactionItems)
    throw new RangeError(`more than ${storageLimits.transactionItems} compares and operations`)
  const request = {
    compares: compares.map(({ key, modRevision }) => ({ key: keyspace.encode(key), modRevision })),
    onSuccess: onSuccess.map(operation => encodeOperation(keyspace, operation)),
    onFailure: onFailure.map(key => keyspace.encode(key)),
  }
  if (request.onSuccess.length > 0) {
    request.onSuccess.push({ type: 'put', key: keyspace.tip, value: id })
    request.compares.push({ key: keyspace.fence, modRevision: fence })
    request.onFailure.push(keyspace.fence)
  }
  return request
}

function encodeOperation(keyspace: Keyspace, operation: Operation): EtcdOperation {
  if (Keyspace.isOwn(operation.key)) throw new RangeError(`the key ${operation.key} is the store's own`)
  const key = keyspace.encode(operation.key)
  if (operation.type === 'delete') return { type: 'delete', key }
  const { value } = operation
  if (value.byteLength > storageLimits.valueBytes)
    throw new RangeError(`a value of ${value.byteLength} bytes, over ${storageLimits.valueBytes}`)
  return { type: 'put', key, value }
}

/** Of a refused transaction with operations also where the fence is, which may be why it was refused. */
export function decodeTransaction(
  { onSuccess, onFailure = [] }: Transaction,
  { header: { revision }, succeeded, reads }: TxnResponse,
): { readonly result: TransactionResult; readonly fence?: Revision } {
  if (succeeded) return { result: { succeeded: true, revision } }
  const pairs = onFailure.map((key, index) => {
    const pair = reads[index]
    return pair && toKeyValue(key, pair)
  })
  const result: TransactionResult = { succeeded: false, revision, pairs }
  if (onSuccess.length === 0) return { result }
  return { result, fence: reads[onFailure.length]?.modRevision ?? zeroRevision }
}

/** @param key as callers have it. */
export function toKeyValue(key: string, { value, modRevision, createRevision }: EtcdPair): KeyValue {
  return { key, value, modRevision, createRevision }
}
