import { isRecord } from '@setpoint/controller-runtime/api'
import { deepEqual } from '../../model/index.ts'
import { type FieldSet, type NewFieldSet, noFields, unionOfNodes, withItself } from './field-set.ts'
import {
  type FieldType,
  formOf,
  itemElement,
  type ListType,
  type MapType,
  typeOfField,
} from './field-type.ts'
import { fieldElement, type PathElement } from './path-element.ts'
import { isEmptyMap } from './to-field-set.ts'

/** The differences of two values. The sets are disjoint. */
interface Comparison {
  readonly added: FieldSet
  readonly modified: FieldSet
  readonly removed: FieldSet
}

/** Compares two values of one type. From `typed/compare.go` of structured-merge-diff. */
export function compare(type: FieldType, before: unknown, after: unknown): Comparison {
  const { added = noFields, modified = noFields, removed = noFields } = changeOf(type, before, after) ?? {}
  return { added, modified, removed }
}

/** The nodes of one value that has changed. */
interface Change {
  added?: FieldSet
  modified?: FieldSet
  removed?: FieldSet
}

const kinds = ['added', 'modified', 'removed'] as const

/** @returns undefined if nothing differs. An absent value is undefined. */
function changeOf(type: FieldType, before: unknown, after: unknown): Change | undefined {
  if (before === after) return undefined
  const form = formOf(type, after === undefined ? before : after)
  if (before === undefined || after === undefined) return changeAs(form, type, before, after)
  const formBefore = formOf(type, before)
  const change = changeAs(form, type, before, after)
  return formBefore === form ? change : joined(changeAs(formBefore, type, before, after), change)
}

function changeAs(
  form: 'map' | 'list' | 'single',
  type: FieldType,
  before: unknown,
  after: unknown,
): Change | undefined {
  if (form === 'map' && type.map !== undefined) return changeOfMap(type.map, before, after)
  if (form === 'list' && type.list !== undefined) return changeOfList(type.list, before, after)
  return changeOfSingle(before, after)
}

function changeOfSingle(before: unknown, after: unknown): Change | undefined {
  if (before === undefined) return { added: noFields }
  if (after === undefined) return { removed: noFields }
  return deepEqual(before, after) ? undefined : { modified: noFields }
}

function changeOfMap(type: MapType, before: unknown, after: unknown): Change | undefined {
  const old = isRecord(before) ? before : {}
  const next = isRecord(after) ? after : {}
  if (type.isAtomic || (isEmptyMap(old) && isEmptyMap(next))) return changeOfSingle(before, after)
  const change: MutableChange = {}
  for (const name in old) {
    const value = old[name]
    const other = Object.hasOwn(next, name) ? next[name] : undefined
    if (value !== other) add(change, fieldElement(name), changeOf(typeOfField(type, name), value, other))
  }
  for (const name in next) {
    const value = next[name]
    if (value !== undefined && (!Object.hasOwn(old, name) || old[name] === undefined))
      add(change, fieldElement(name), changeOf(typeOfField(type, name), undefined, value))
  }
  return withContainer(change, before, after)
}

function changeOfList(type: ListType, before: unknown, after: unknown): Change | undefined {
  const old: readonly unknown[] = Array.isArray(before) ? before : []
  const next: readonly unknown[] = Array.isArray(after) ? after : []
  if (type.kind === 'atomic' || (old.length === 0 && next.length === 0)) return changeOfSingle(before, after)
  // Most lists of an update are equal, and the elements of their items are expensive.
  if (deepEqual(before, after)) return undefined
  const olds = itemsByElement(type, old)
  const nexts = itemsByElement(type, next)
  const change: MutableChange = {}
  for (const [element, items] of olds)
    add(change, element, changeOfItems(type, items, nexts.get(element) ?? []))
  for (const [element, items] of nexts) {
    if (!olds.has(element)) add(change, element, changeOfItems(type, [], items))
  }
  return withContainer(change, before, after)
}

function itemsByElement(type: ListType, list: readonly unknown[]): Map<PathElement, unknown[]> {
  const items = new Map<PathElement, unknown[]>()
  for (const item of list) {
    const element = itemElement(type, item)
    const same = items.get(element)
    if (same === undefined) items.set(element, [item])
    else same.push(item)
  }
  return items
}

/** Duplicates of an item are compared as one field. */
function changeOfItems(
  type: ListType,
  old: readonly unknown[],
  next: readonly unknown[],
): Change | undefined {
  if (old.length < 2 && next.length < 2) return changeOf(type.items, old[0], next[0])
  if (old.length >= 2 && next.length >= 2) return deepEqual(old, next) ? undefined : { modified: noFields }
  if (old.length >= 2) return joined(changeOf(type.items, undefined, next[0]), { removed: noFields })
  return joined(changeOf(type.items, old[0], undefined), { added: noFields })
}

type MutableChange = { [Kind in (typeof kinds)[number]]?: NewFieldSet }

function add(to: MutableChange, element: PathElement, change: Change | undefined): void {
  if (change === undefined) return
  for (const kind of kinds) {
    const node = change[kind]
    if (node === undefined) continue
    to[kind] ??= new Map()
    to[kind].set(element, node)
  }
}

/** A map or list that comes or goes is itself in the set, with its fields. */
function withContainer(change: MutableChange, before: unknown, after: unknown): Change | undefined {
  if (before === undefined) return { ...change, added: withItself(change.added) }
  if (after === undefined) return { ...change, removed: withItself(change.removed) }
  return kinds.some(kind => change[kind] !== undefined) ? change : undefined
}

function joined(a: Change | undefined, b: Change | undefined): Change | undefined {
  if (a === undefined || b === undefined) return a ?? b
  const change: Change = {}
  for (const kind of kinds) {
    const [left, right] = [a[kind], b[kind]]
    const node = left === undefined || right === undefined ? (left ?? right) : unionOfNodes(left, right)
    if (node !== undefined) change[kind] = node
  }
  return change
}
