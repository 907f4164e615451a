import { randomBytes } from 'node:crypto'
import { parseRevision, type Revision } from '@setpoint/controller-runtime/api'
import type { IRequestOp, ITxnRequest, ITxnResponse } from 'etcd3'
import { type KeyValue, storageLimits, type Transaction, type TransactionResult } from '../contract.ts'
import type { Keyspace } from './keyspace.ts'

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
 * etcd's form of a transaction: the caller's operations and, where there are any, the put of the tip.
 * @throws RangeError when it is over `storageLimits` or touches the tip.
 */
export function encodeTransaction(keyspace: Keyspace, transaction: Transaction, id: Buffer): ITxnRequest {
  const { compares, onSuccess, onFailure } = transaction
  if (Math.max(compares.length, onSuccess.length) > storageLimits.transactionItems)
    throw new RangeError(`more than ${storageLimits.transactionItems} compares and operations`)
  const success: IRequestOp[] = []
  for (const operation of onSuccess) {
    const key = keyspace.encode(operation.key)
    if (key.equals(keyspace.tip)) throw new RangeError(`the key ${operation.key} is the store's own`)
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
  if (success.length > 0) success.push({ request_put: { key: keyspace.tip, value: id } })
  return {
    compare: compares.map(compare => ({
      key: keyspace.encode(compare.key),
      target: modRevisionTarget,
      result: equal,
      mod_revision: compare.modRevision,
    })),
    success,
    failure: onFailure?.map(key => ({ request_range: { key: keyspace.encode(key) } })) ?? [],
  }
}

export function decodeTransaction(transaction: Transaction, response: ITxnResponse): TransactionResult {
  const revision = parseRevision(response.header.revision)
  if (response.succeeded) return { succeeded: true, revision }
  return { succeeded: false, revision, pairs: decodeReads(transaction.onFailure ?? [], response) }
}

/** The answers to one range request for each key. */
export function decodeReads(
  keys: readonly string[],
  response: ITxnResponse,
  first = 0,
): (KeyValue | undefined)[] {
  return keys.map((key, index) => {
    const kv = response.responses[first + index]?.response_range.kvs[0]
    return kv && decodePair(key, kv)
  })
}

export function decodePair(
  key: string,
  kv: { value: Buffer; mod_revision: string; create_revision: string },
): KeyValue {
  const modRevision: Revision = parseRevision(kv.mod_revision)
  const createRevision =
    kv.create_revision === kv.mod_revision ? modRevision : parseRevision(kv.create_revision)
  return { key, value: kv.value, modRevision, createRevision }
}

function toBuffer(value: Uint8Array): Buffer {
  return Buffer.isBuffer(value) ? value : Buffer.from(value.buffer, value.byteOffset, value.byteLength)
}
