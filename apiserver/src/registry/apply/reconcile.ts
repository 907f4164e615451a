import {
  type FieldSet,
  hasFieldsBelow,
  isOwned,
  type NewFieldSet,
  nodesOf,
  noFields,
  withItself,
} from './field-set.ts'
import { deduced, type FieldType, typeOfField } from './field-type.ts'

/**
 * Returns the set for the present type: where it has fields below a map or list that is atomic now, it has the map or
 * list instead. A map or list that is granular now needs no change: the next apply replaces the set of its owner.
 * Returns the same set if nothing changes. From `typed/reconcile_schema.go` of structured-merge-diff.
 */
export function reconcile(type: FieldType, set: FieldSet): FieldSet {
  const { map, list } = type
  if (map === undefined && list === undefined) return set
  let result: NewFieldSet | undefined
  for (const [element, node] of nodesOf(set)) {
    if (!hasFieldsBelow(node)) continue
    const below = element.startsWith('f:') ? map && typeOfField(map, element.slice(2)) : list?.items
    // Nothing below a field without a declaration can be atomic.
    if (below === undefined || below === deduced) continue
    const next = isAtomic(below) ? noFields : reconciledNode(below, node)
    if (next === node) continue
    result ??= new Map(set)
    result.set(element, next)
  }
  return result ?? set
}

function reconciledNode(type: FieldType, node: FieldSet): FieldSet {
  const below = reconcile(type, node)
  if (below === node) return node
  return isOwned(node) ? withItself(below) : below
}

/** If several forms are possible, the first one decides, as in Kubernetes. */
function isAtomic({ map, list, isScalar }: FieldType): boolean {
  if (map !== undefined) return map.isAtomic
  return !isScalar && list?.kind === 'atomic'
}
