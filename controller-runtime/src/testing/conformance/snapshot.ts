import { groupResource } from '../../api/group-resource.ts'
import { isRecord } from '../../api/is-record.ts'
import type { Model } from '../../api/model.ts'
import type { ApiObject, OwnerReference } from '../../api/object.ts'
import { groupOf } from '../../api/owners.ts'
import type { Client } from '../../client/client.ts'
import { withArticle } from './call-action.ts'
import { Finding } from './finding.ts'

/** What is compared between lifecycles: JSON without random parts. */
export interface Snapshot {
  /**
   * The objects by kind (`<plural>.<group>`, or `<plural>` of the core group), in an order that does not depend on
   * their names.
   */
  readonly objects: Readonly<Record<string, readonly unknown[]>>
  /** The result of the author's `world` function. */
  readonly world: unknown
}

/** Lists the objects of all kinds without names, which may be random, and without times and status. */
export async function observeObjects(
  client: Client,
  models: readonly Model[],
  uids: Set<string>,
): Promise<Snapshot['objects']> {
  const objects: Record<string, readonly unknown[]> = {}
  for (const model of models) {
    const { items } = await client.list(model)
    for (const { metadata } of items) uids.add(metadata.uid)
    objects[groupResource(model)] = items.map(essence)
  }
  return objects
}

/**
 * Returns true if the garbage collector has something to delete: an object whose owners were of these kinds and are all
 * gone. It does so at a time of its own, so what is left meanwhile says nothing about the reconciler.
 */
export async function hasGarbage(client: Client, models: readonly Model[]): Promise<boolean> {
  const lists = await Promise.all(models.map(model => client.list(model)))
  const objects = lists.flatMap(({ items }) => items.map(({ metadata }) => metadata))
  const live = new Set(objects.map(({ uid }) => uid))
  const isGone = ({ apiVersion, kind, uid }: OwnerReference) =>
    !live.has(uid) && models.some(model => model.kind === kind && groupOf(apiVersion) === model.group)
  return objects.some(
    ({ ownerReferences = [] }) => ownerReferences.length > 0 && ownerReferences.every(isGone),
  )
}

function essence({ metadata, spec }: ApiObject): object {
  const { labels = {}, annotations = {}, finalizers = [] } = metadata
  return { labels, annotations, finalizers: [...finalizers].sort(), spec }
}

function key(value: unknown): string {
  return JSON.stringify(sorted(value)) ?? ''
}

/** What is replaced before a comparison. */
export interface Replacements {
  /** Texts and their placeholders. */
  readonly texts: ReadonlyMap<string, string>
  /** Wall-clock times in ms, replaced as numbers and in RFC 3339. */
  readonly times: ReadonlySet<number>
  readonly normalize: ((value: unknown, path: readonly string[]) => unknown) | undefined
}

/** Returns a comparable snapshot: without random parts, and sorted. */
export function comparable(snapshot: Snapshot, replacements: Replacements): Snapshot {
  const texts = new Map(replacements.texts)
  for (const time of replacements.times) {
    const iso = new Date(time).toISOString()
    texts.set(iso, '<time>').set(iso.replace(/\.\d{3}Z$/, 'Z'), '<time>')
  }
  const replace = (value: unknown, path: readonly string[]): unknown => {
    const given = replacements.normalize === undefined ? value : replacements.normalize(value, path)
    if (Array.isArray(given)) return given.map((each, at) => replace(each, [...path, `${at}`]))
    if (isRecord(given)) {
      return Object.fromEntries(
        Object.entries(given).map(([name, each]) => [masked(name, texts), replace(each, [...path, name])]),
      )
    }
    if (typeof given === 'string') return masked(given, texts)
    return typeof given === 'number' && replacements.times.has(given) ? '<time>' : given
  }
  const json: Snapshot = JSON.parse(JSON.stringify(snapshot))
  const objects = Object.entries(json.objects).map(([kind, items]) => {
    const replaced = items
      .map((item, at) => replace(item, ['objects', kind, `${at}`]))
      .filter(item => item !== undefined)
    return [kind, replaced.sort((a, b) => (key(a) < key(b) ? -1 : 1))]
  })
  return { objects: Object.fromEntries(objects), world: replace(json.world, ['world']) ?? null }
}

function masked(text: string, texts: ReadonlyMap<string, string>): string {
  let result = text
  for (const [secret, placeholder] of texts) result = result.replaceAll(secret, placeholder)
  return result
}

/** Returns what the reconciler did wrong if the snapshots differ. */
export function compareSnapshots(
  expected: Snapshot,
  actual: Snapshot,
  models: readonly Model[],
): Finding | undefined {
  const found = difference(expected, actual)
  if (found === undefined) return undefined
  const details = `the result differs from an undisturbed lifecycle: ${found}`
  for (const model of models) {
    const kind = groupResource(model)
    const [wanted = [], left = []] = [expected.objects[kind], actual.objects[kind]]
    const changed = difference(wanted, left, withArticle(model.singular))
    if (changed !== undefined) return new Finding(deedOn(model, wanted.length, left.length, changed), details)
  }
  return new Finding(outsideDeed(expected.world, actual.world), details)
}

function deedOn({ singular, plural }: Model, wanted: number, left: number, changed: string): string {
  if (left === wanted) return `it left a different state: ${changed.replace(/\[\d+\]/, '')}`
  if (left < wanted) return `it left ${left} ${plural} instead of ${wanted}`
  if (wanted === 0) return `it left ${left === 1 ? withArticle(singular) : `${left} ${plural}`} behind`
  return wanted === 1 && left === 2
    ? `it created a second ${singular}`
    : `it created ${left} ${plural} instead of ${wanted}`
}

function outsideDeed(expected: unknown, actual: unknown): string {
  if (Array.isArray(expected) && Array.isArray(actual) && expected.length !== actual.length) {
    const [wanted, left] = [expected.length, actual.length]
    if (wanted === 0) return `it left ${left} ${left === 1 ? 'item' : 'items'} behind outside of the API`
    if (wanted === 1 && left === 2) return 'it made a second item outside of the API'
    return `it left ${left} items outside of the API instead of ${wanted}`
  }
  return `it left a different state outside of the API: ${difference(expected, actual, 'world')}`
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
