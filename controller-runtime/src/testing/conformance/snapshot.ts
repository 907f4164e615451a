import { isRecord } from '../../api/is-record.ts'
import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import type { Client } from '../../client/client.ts'

/** What is compared between lifecycles: JSON without random parts. */
export interface Snapshot {
  /** The objects by kind (`<plural>.<group>`), in an order that does not depend on their names. */
  readonly objects: Readonly<Record<string, readonly unknown[]>>
  /** The result of the author's `world` function. */
  readonly outside: unknown
}

/** Lists the objects of all kinds, without names, which may be random, and without times and status. */
export async function observeObjects(
  client: Client,
  models: readonly Model[],
  uids: Set<string>,
): Promise<Snapshot['objects']> {
  const objects: Record<string, readonly unknown[]> = {}
  for (const model of models) {
    const { items } = await client.list(model)
    for (const { metadata } of items) uids.add(metadata.uid)
    objects[`${model.plural}.${model.group}`] = items.map(essence).sort((a, b) => (key(a) < key(b) ? -1 : 1))
  }
  return objects
}

function essence({ metadata, spec }: ApiObject): object {
  const { labels = {}, annotations = {}, finalizers = [] } = metadata
  return { labels, annotations, finalizers: [...finalizers].sort(), spec }
}

function key(value: unknown): string {
  return JSON.stringify(sorted(value)) ?? ''
}

/** Replaces all uids, wherever they appear. */
export function withoutUids(snapshot: Snapshot, uids: Iterable<string>): Snapshot {
  let text = JSON.stringify(snapshot)
  for (const uid of uids) text = text.replaceAll(uid, '<uid>')
  return JSON.parse(text)
}

/** Describes the first difference between two values; undefined if they are equal. */
export function difference(expected: unknown, actual: unknown, path = ''): string | undefined {
  if (key(expected) === key(actual)) return undefined
  if (Array.isArray(expected) && Array.isArray(actual)) {
    if (expected.length !== actual.length) {
      return `${path || 'it'} has ${actual.length} items instead of ${expected.length}: ${show(actual)} instead of ${show(expected)}`
    }
    for (const [at, each] of expected.entries()) {
      const found = difference(each, actual[at], `${path}[${at}]`)
      if (found !== undefined) return found
    }
  }
  if (isRecord(expected) && isRecord(actual)) {
    for (const name of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const found = difference(expected[name], actual[name], path === '' ? name : `${path}.${name}`)
      if (found !== undefined) return found
    }
  }
  return `${path || 'it'} is ${show(actual)} instead of ${show(expected)}`
}

function show(value: unknown): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value)
  return text.length > 300 ? `${text.slice(0, 300)}...` : text
}

/** Returns the value with sorted object keys. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map(name => [name, sorted(value[name])]),
  )
}
