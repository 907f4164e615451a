import { randomBytes } from 'node:crypto'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { ICompare, IKeyValue, IRequestOp, ITxnRequest, ITxnResponse } from 'etcd3'
import { type Operation, storageLimits, type Transaction, type TransactionResult } from '../contract.ts'
import type { Base } from './base.ts'
import { Keyspace } from './keyspace.ts'
import { checkedHeader, toKeyValue } from './messages.ts'

/** Makes the values that transactions put into the tip. Each is unique, so it identifies the transaction. */
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

/** How the store names keys and revisions in etcd. */
interface Store {
  readonly keyspace: Keyspace
  readonly base: Base
}

/**
 * What a transaction does to the tip. `delete` is for a full etcd, which refuses every put: until the next put, every
 * revision of etcd counts as written.
 */
export type TipChange = 'put' | 'delete'

/**
 * Encodes a transaction for etcd. One with operations also compares the fence, changes the tip, and reads the fence and
 * the base if it is refused.
 * @throws RangeError if the transaction exceeds `storageLimits` or touches the storage's own keys.
 */
export function encodeTransaction(
  { keyspace, base }: Store,
  transaction: Transaction,
  { id, fence }: { readonly id: Buffer; readonly fence: Revision },
  tip: TipChange,
): ITxnRequest {
  const { compares, onSuccess, onFailure = [] } = transaction
  if (Math.max(compares.length, onSuccess.length) > storageLimits.transactionItems)
    throw new RangeError(`more than ${storageLimits.transactionItems} compares and operations`)
  const compare = compares.map(({ key, modRevision }) =>
    compareOf(keyspace.encode(key), base.raw(modRevision)),
  )
  const success = onSuccess.map(operation => encodeOperation(keyspace, operation))
  const failure = onFailure.map(key => ({ request_range: { key: keyspace.encode(key) } }))
  if (success.length > 0) {
    compare.push(compareOf(keyspace.fence, base.raw(fence)))
    const { tip: key } = keyspace
    success.push(tip === 'put' ? { request_put: { key, value: id } } : { request_delete_range: { key } })
    failure.push({ request_range: { key: keyspace.fence } }, { request_range: { key: keyspace.base } })
  }
  return { compare, success, failure }
}

function compareOf(key: Buffer, modRevision: number): ICompare {
  return { key, target: 'Mod', result: 'Equal', mod_revision: modRevision }
}

function encodeOperation(keyspace: Keyspace, operation: Operation): IRequestOp {
  if (Keyspace.isOwn(operation.key)) throw new RangeError(`the key ${operation.key} is reserved`)
  const key = keyspace.encode(operation.key)
  if (operation.type === 'delete') return { request_delete_range: { key } }
  const { byteLength, byteOffset, buffer } = operation.value
  if (byteLength > storageLimits.storedBytes)
    throw new RangeError(`a value of ${byteLength} bytes, over ${storageLimits.storedBytes}`)
  return { request_put: { key, value: Buffer.from(buffer, byteOffset, byteLength) } }
}

/**
 * Decodes the response. `fence` is present if the transaction was refused, which the fence may have caused. A restore
 * moves the fence when it changes the base, so a server that still uses the former base is refused.
 * @throws WrongStoreError if the base has changed
 */
export function decodeTransaction(
  { base }: Store,
  { onSuccess, onFailure = [] }: Transaction,
  { header, succeeded, responses }: ITxnResponse,
): { readonly result: TransactionResult; readonly fence?: Revision } {
  const revision = base.revision(checkedHeader(header).revision)
  if (succeeded) return { result: { succeeded: true, revision } }
  const read = (at: number): IKeyValue | undefined => responses[at]?.response_range.kvs[0]
  const pairs = onFailure.map((key, at) => {
    const pair = read(at)
    return pair && toKeyValue(base, key, pair)
  })
  const result: TransactionResult = { succeeded: false, revision, pairs }
  if (onSuccess.length === 0) return { result }
  base.see(read(onFailure.length + 1))
  const fence = read(onFailure.length)
  return { result, fence: fence === undefined ? zeroRevision : base.revision(fence.mod_revision) }
}
