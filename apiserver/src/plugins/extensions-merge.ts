import { isRecord } from '@setpoint/controller-runtime/api'
import { deepEqual } from '../model/index.ts'

/**
 * Merges a shipped document into the live object. A field that differs between `shipped` and `last`, the document as it
 * was applied before, gets the shipped value, arrays whole. All other fields keep their live value. A field that the
 * document no longer has is removed, except for fields that people have added below it.
 *
 *     last      shipped    live                   result
 *     {a: 1}    {a: 2}     {a: 1, b: 5}           {a: 2, b: 5}
 *     {a: 1}    {a: 1}     {a: 7}                 {a: 7}
 *     {a: 1}    {a: 2}     {a: 7}                 {a: 2}
 *     {a: 1}    {}         {a: 7, b: 5}           {b: 5}
 *
 * Arguments and result are JSON values; undefined means absent. The arguments are not changed, and the result shares
 * parts with them.
 */
export function mergeShipped(last: unknown, shipped: unknown, live: unknown): unknown {
  if (deepEqual(last, shipped)) return live
  const removed = shipped === undefined && isRecord(last) && isRecord(live)
  if (!removed && !isRecord(shipped)) return shipped
  const before = isRecord(last) ? last : {}
  const after = isRecord(shipped) ? shipped : {}
  const now = isRecord(live) ? live : {}
  const merged = new Map(Object.entries(now))
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const value = mergeShipped(own(before, key), own(after, key), own(now, key))
    if (value === undefined) merged.delete(key)
    else merged.set(key, value)
  }
  return removed && merged.size === 0 ? undefined : Object.fromEntries(merged)
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined
}
