import { isFields } from '../api/json.ts'

/** A field that both have changed, in different ways. */
export interface FieldConflict {
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

/**
 * Merges two changes of one value: fields that only one has changed get that change, and fields that both have changed are
 * conflicts unless both made the same change. Lists are one value, since nothing says which of their elements are the same.
 */
export function mergeChanges(base: unknown, mine: unknown, theirs: unknown): Merged {
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
    const conflict = { path, mine: own, theirs: other }
    conflicts.push(conflict)
    return new Conflicted(conflict)
  }
  return { value: merge([], base, mine, theirs), conflicts }
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
