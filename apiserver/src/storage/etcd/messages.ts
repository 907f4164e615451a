import type { IKeyValue, IResponseHeader } from 'etcd3'
import type { KeyValue } from '../contract.ts'
import type { Base } from './base.ts'

/** Checks that a response has a header, as every response of etcd does; etcd3 decodes an absent one to null. */
export function checkedHeader(header: IResponseHeader | null): IResponseHeader {
  if (header === null) throw new Error('the response has no header')
  return header
}

/** Converts a pair as etcd3 decodes it, with 64-bit integers as strings. `key` is without the storage's prefix. */
export function toKeyValue(base: Base, key: string, pair: IKeyValue): KeyValue {
  return {
    key,
    value: pair.value,
    modRevision: base.revision(pair.mod_revision),
    createRevision: base.revision(pair.create_revision),
  }
}
