import { isRecord } from '../../api/is-record.ts'
import type { Model } from '../../api/model.ts'
import type { ApiObject } from '../../api/object.ts'
import type { Client } from '../../client/client.ts'

/** What is compared between lives: JSON, without what differs from one life to the next. */
export interface World {
  /** Of each kind, by `<plural>.<group>`: the objects, in an order that does not depend on their names. */
  readonly objects: Readonly<Record<string, readonly unknown[]>>
  /** What the author wants compared. */
  readonly outside: unknown
}

/** Names of objects of kinds that the reconciler makes are left out: they may be random. So are times and status. */
export async function observeObjects(
  client: Client,
  models: readonly Model[],
  uids: Set<string>,
): Promise<World['objects']> {
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

/** Makes two worlds comparable: uids, wherever they stand, are all alike. */
export function withoutUids(world: World, uids: Iterable<string>): World {
  let text = JSON.stringify(world)
  for (const uid of uids) text = text.replaceAll(uid, '<uid>')
  return JSON.parse(text)
}

/** Where two values differ, the first place of it; undefined where they are the same. */
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

/** The same value with the keys of its objects in order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isRecord(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map(name => [name, sorted(value[name])]),
  )
}
