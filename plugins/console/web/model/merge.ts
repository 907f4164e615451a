import { type Fields, isFields, listOf } from '../api/json.ts'

/** A field, or an element of a list, that both have changed, in different ways. */
export interface FieldConflict {
  /** An element of a list has the name '-'. */
  readonly path: readonly string[]
  /** Undefined: taken away. */
  readonly mine: unknown
  readonly theirs: unknown
}

export interface Merged {
  readonly value: unknown
  readonly conflicts: readonly FieldConflict[]
}

/** Stands in the merged value where a conflict is. */
export class Conflicted {
  readonly conflict: FieldConflict

  constructor(conflict: FieldConflict) {
    this.conflict = conflict
  }
}

/** Which elements of a list are the same: those with the same keys, equal ones, or nobody knows. */
export type ListType = { readonly keys: readonly string[] } | 'set' | 'atomic'

/**
 * Merges two changes of one value: fields that only one has changed get that change, and fields that both have changed are
 * conflicts unless both made the same change. Lists are merged by their elements if their type says which of them are the same.
 */
export function mergeChanges(
  base: unknown,
  mine: unknown,
  theirs: unknown,
  listTypeAt: (path: readonly string[]) => ListType = () => 'atomic',
): Merged {
  const conflicts: FieldConflict[] = []
  const merge = (path: readonly string[], before: unknown, own: unknown, other: unknown): unknown => {
    if (isEqual(own, other)) return own
    if (isEqual(before, own)) return other
    if (isEqual(before, other)) return own
    if (isFields(own) && isFields(other)) {
      const old = isFields(before) ? before : {}
      const names = [...new Set([...Object.keys(own), ...Object.keys(other)])]
      const entries = names.map(
        name => [name, merge([...path, name], at(old, name), at(own, name), at(other, name))] as const,
      )
      return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
    }
    if (Array.isArray(own) && Array.isArray(other)) {
      const type = listTypeAt(path)
      const old = listOf(before)
      if (type === 'set') return mergeSets(old, own, other)
      const [from, left, right] = type === 'atomic' ? [] : [old, own, other].map(byKeys(type.keys))
      if (type !== 'atomic' && from !== undefined && left !== undefined && right !== undefined) {
        const ids = [...new Set([...left.keys(), ...right.keys()])]
        return ids.flatMap(id => {
          const merged = merge([...path, '-'], from.get(id), left.get(id), right.get(id))
          return merged === undefined ? [] : [withFirst(type.keys, merged)]
        })
      }
    }
    const conflict = { path, mine: own, theirs: other }
    conflicts.push(conflict)
    return new Conflicted(conflict)
  }
  return { value: merge([], base, mine, theirs), conflicts }
}

function mergeSets(
  before: readonly unknown[],
  own: readonly unknown[],
  other: readonly unknown[],
): unknown[] {
  const has = (list: readonly unknown[], value: unknown) => list.some(each => isEqual(each, value))
  const kept = own.filter(each => has(other, each) || !has(before, each))
  return [...kept, ...other.filter(each => !has(own, each) && !has(before, each))]
}

/** Returns a function that finds the elements of a list by their keys, or undefined for a list whose elements lack them. */
function byKeys(keys: readonly string[]) {
  return (list: readonly unknown[]): ReadonlyMap<string, Fields> | undefined => {
    const fields = list.filter(isFields)
    const found = new Map(fields.map(each => [JSON.stringify(keys.map(key => at(each, key))), each]))
    return found.size === list.length ? found : undefined
  }
}

/** The line of an element begins with its keys, so that a conflict never stands in the line of its dash. */
function withFirst(keys: readonly string[], element: unknown): unknown {
  if (element instanceof Conflicted || !isFields(element)) return element
  const first = keys.filter(key => Object.hasOwn(element, key)).map(key => [key, element[key]] as const)
  return { ...Object.fromEntries(first), ...element }
}

function at(fields: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

export function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((each, index) => isEqual(each, b[index]))
  if (!isFields(a) || !isFields(b)) return false
  const names = Object.keys(a)
  return (
    names.length === Object.keys(b).length &&
    names.every(name => Object.hasOwn(b, name) && isEqual(a[name], b[name]))
  )
}
