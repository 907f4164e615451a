/** Compares two pairs. Returns a negative number, zero or a positive number. */
export type PairComparator<K, S> = (
  leftKey: K | undefined,
  leftValue: S | undefined,
  rightKey: K | undefined,
  rightValue: S | undefined,
) => number

/** The order of pairs. `S` is the part of a value that takes part in the order, and all that a search needs. */
export interface PairOrder<K, S> {
  /** Returns a comparator that is correct if its left pair is this one. */
  comparing(key: K | undefined, value: S | undefined): PairComparator<K, S>
  /** Whether values take part in the order. If not, keys are unique, and branches keep no references to values. */
  readonly byValue: boolean
}

/**
 * A node of a counted tree. Its tree changes it in place while it belongs to the present generation, and copies it
 * otherwise.
 */
export interface TreeNode<K, V> {
  generation: number
  /** The keys of a leaf, or of a branch's separators. */
  keys: (K | undefined)[]
  /** The values of a leaf, or of a branch's separators if the order is by value. */
  values: (V | undefined)[]
  /** Absent in leaves. */
  children: TreeNode<K, V>[] | undefined
  counts: number[]
}

export const noCounts: number[] = []

export function leaf<K, V>(
  generation: number,
  keys: (K | undefined)[],
  values: (V | undefined)[],
): TreeNode<K, V> {
  return { generation, keys, values, children: undefined, counts: noCounts }
}

export function sizeOf<K, V>(node: TreeNode<K, V>): number {
  if (node.children === undefined) return node.keys.length
  let size = 0
  for (const count of node.counts) size += count
  return size
}

export function childAt<K, V>(children: readonly TreeNode<K, V>[], at: number): TreeNode<K, V> {
  const child = children[at]
  if (child === undefined) throw new Error('counted tree: no such child')
  return child
}

/** Returns the first position in a leaf whose pair is not before the given one. */
export function lowerBound<K, V extends S, S>(
  node: TreeNode<K, V>,
  compare: PairComparator<K, S>,
  key: K | undefined,
  value: S | undefined,
): number {
  const { keys, values } = node
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(key, value, keys[middle], values[middle]) > 0) low = middle + 1
    else high = middle
  }
  return low
}

/** Returns the child whose range contains the pair: the last one whose separator is not after it. */
export function childFor<K, V extends S, S>(
  node: TreeNode<K, V>,
  compare: PairComparator<K, S>,
  key: K | undefined,
  value: S | undefined,
): number {
  const { keys, values } = node
  let low = 1
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (compare(key, value, keys[middle], values[middle]) >= 0) low = middle + 1
    else high = middle
  }
  return low - 1
}
