import { deepEqual } from '../model/deep-equal.ts'

/**
 * What an object becomes when a newer file is applied to it: fields in which `shipped` differs from `last` (what the
 * file said when it was applied before) are as shipped, lists whole; all other fields are as people left them in
 * `live`. A field that the file no longer has is taken away, but not what people added below it.
 *
 *     last      shipped    live                   result
 *     {a: 1}    {a: 2}     {a: 1, b: 5}           {a: 2, b: 5}
 *     {a: 1}    {a: 1}     {a: 7}                 {a: 7}
 *     {a: 1}    {a: 2}     {a: 7}                 {a: 2}
 *     {a: 1}    {}         {a: 7, b: 5}           {b: 5}
 *
 * Arguments and result are JSON values, where undefined stands for an absent one. No argument is changed; the result
 * shares parts with them.
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

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function own(record: Record<string, unknown>, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined
}
