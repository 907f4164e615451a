import { type Work, workDefaults } from '../scheduling/index.ts'
import { CountedTreeView } from './counted-tree-view.ts'
import {
  childAt,
  childFor,
  leaf,
  lowerBound,
  noCounts,
  type PairComparator,
  type PairOrder,
  sizeOf,
  type TreeNode,
} from './tree-node.ts'

export const treeDefaults = Object.freeze({
  /** Most pairs of a leaf and children of a branch. Measured: wider nodes copy more, narrower ones search deeper. */
  width: 64,
})

const width = treeDefaults.width
/** A node below this size is joined with its neighbour, or refilled from it. */
const minFill = width >> 2
/** The largest size of a joined or filled node. It leaves room, so that the next insertion does not split the node. */
const goodFill = width - minFill

let lastGeneration = 0

/**
 * A B+ tree of pairs, ordered and with positions: each branch counts the pairs of its children. It has one writer and
 * any number of snapshots, which take O(1).
 *
 *                       ┌ least pair and count of each child ┐
 *     branch            │ (a,1) 3   (d,4) 2   (f,6) 3         │
 *                       └───┬─────────┬─────────┬─────────────┘
 *     leaves      (a,1)(b,2)(c,3)  (d,4)(e,5)  (f,6)(g,7)(h,8)
 *
 * Every node belongs to a generation of its tree. `snapshot` shares the root and begins a new generation. The writer
 * changes nodes of its own generation in place, and copies others before it changes them. So a snapshot never changes,
 * and each node is copied at most once per snapshot.
 *
 * Invariants (counted-tree.test.ts compares with a sorted array):
 * - Pairs ascend strictly.
 * - A branch's count of a child is the child's number of pairs.
 * - Every pair of child i is at or above separator i (if i > 0) and below separator i + 1. After deletions, separator i
 *   may be below the least pair of child i.
 * - The first separator of a branch is never compared. In every child but the first, it equals the parent's separator
 *   for the branch, so neighbours can be joined as they are.
 */
export class CountedTree<K, V extends S, S = V> extends CountedTreeView<K, V, S> {
  #generation: number
  /** The snapshot of the present state, until the next change. */
  #view: CountedTreeView<K, V, S> | undefined

  /** @param from a snapshot whose pairs the tree has at first. They share its nodes. Default: none */
  constructor(order: PairOrder<K, S>, from?: CountedTreeView<K, V, S>) {
    lastGeneration++
    super(order, leaf(lastGeneration, [], []), 0)
    this.#generation = lastGeneration
    if (from !== undefined) this.share(from)
  }

  /** Returns an immutable view of the present state, in O(1). */
  snapshot(): CountedTreeView<K, V, S> {
    if (this.#view === undefined) {
      this.#view = new CountedTreeView(this.order, this.root, this.pairs)
      this.#generation = ++lastGeneration
    }
    return this.#view
  }

  /**
   * Fills the tree with pairs, which must ascend strictly. Faster than `set`, since it creates each node once and does
   * not search. The tree must not change in the meantime.
   * @throws Error if the tree is not empty
   */
  *fill(keys: readonly (K | undefined)[], values: readonly V[]): Work<void> {
    if (this.pairs > 0) throw new Error('counted tree: fill needs an empty tree')
    this.#view = undefined
    const leaves = evenRanges(keys.length)
    let nodes = yield* mapRanges(leaves, ([from, to]) =>
      leaf<K, V>(this.#generation, keys.slice(from, to), values.slice(from, to)),
    )
    while (nodes.length > 1) {
      const children = nodes
      nodes = yield* mapRanges(evenRanges(children.length), ([from, to]) =>
        this.#branch(children.slice(from, to)),
      )
    }
    this.root = nodes[0] ?? leaf(this.#generation, [], [])
    this.pairs = keys.length
  }

  /** Adds a pair, or replaces the one that compares equal. Returns true if it was added. */
  set(key: K | undefined, value: V): boolean {
    this.#view = undefined
    const root = this.#own(this.root)
    this.root = root
    const added = this.#set(root, this.order.comparing(key, value), key, value, true)
    if (!added) return false
    this.pairs++
    if (root.keys.length > width) {
      const left = root
      const right = this.#split(left, splitPoint(left, this.#appended))
      this.root = this.#branch([left, right])
    }
    return true
  }

  /** Removes the pair that compares equal. Returns false if it does not exist. */
  delete(key: K | undefined, value?: S): boolean {
    this.#view = undefined
    const root = this.#own(this.root)
    this.root = root
    if (!this.#delete(root, this.order.comparing(key, value), key, value)) return false
    this.pairs--
    if (root.children?.length === 1) this.root = childAt(root.children, 0)
    return true
  }

  /** True if the last insertion was at the end of the tree. Then a split leaves the left node full. */
  #appended = false

  #set(
    node: TreeNode<K, V>,
    compare: PairComparator<K, S>,
    key: K | undefined,
    value: V,
    rightmost: boolean,
  ): boolean {
    if (node.children === undefined) {
      const at = lowerBound(node, compare, key, value)
      if (at < node.keys.length && compare(key, value, node.keys[at], node.values[at]) === 0) {
        node.keys[at] = key
        node.values[at] = value
        return false
      }
      this.#appended = rightmost && at === node.keys.length
      node.keys.splice(at, 0, key)
      node.values.splice(at, 0, value)
      return true
    }
    const at = childFor(node, compare, key, value)
    const child = this.#own(childAt(node.children, at))
    node.children[at] = child
    const added = this.#set(child, compare, key, value, rightmost && at === node.children.length - 1)
    if (!added) return false
    if (child.keys.length <= width) {
      node.counts[at] = (node.counts[at] ?? 0) + 1
      return true
    }
    const right = this.#split(child, splitPoint(child, this.#appended))
    node.children.splice(at + 1, 0, right)
    node.keys.splice(at + 1, 0, right.keys[0])
    if (this.order.byValue) node.values.splice(at + 1, 0, right.values[0])
    node.counts[at] = sizeOf(child)
    node.counts.splice(at + 1, 0, sizeOf(right))
    return true
  }

  #delete(node: TreeNode<K, V>, compare: PairComparator<K, S>, key: K | undefined, value?: S): boolean {
    if (node.children === undefined) {
      const at = lowerBound(node, compare, key, value)
      if (at === node.keys.length || compare(key, value, node.keys[at], node.values[at]) !== 0) return false
      node.keys.splice(at, 1)
      node.values.splice(at, 1)
      return true
    }
    const at = childFor(node, compare, key, value)
    const child = this.#own(childAt(node.children, at))
    node.children[at] = child
    if (!this.#delete(child, compare, key, value)) return false
    node.counts[at] = (node.counts[at] ?? 0) - 1
    if (child.keys.length < minFill && node.children.length > 1)
      this.#refill(node, node.children, Math.max(0, at - 1))
    return true
  }

  /** Joins the children `at` and `at + 1`, or distributes their content evenly if it is too much for one node. */
  #refill(node: TreeNode<K, V>, children: TreeNode<K, V>[], at: number): void {
    const left = this.#own(childAt(children, at))
    const right = this.#own(childAt(children, at + 1))
    left.keys = left.keys.concat(right.keys)
    left.values = left.values.concat(right.values)
    if (left.children !== undefined && right.children !== undefined) {
      left.children = left.children.concat(right.children)
      left.counts = left.counts.concat(right.counts)
    }
    children[at] = left
    if (left.keys.length <= goodFill) {
      children.splice(at + 1, 1)
      node.keys.splice(at + 1, 1)
      if (this.order.byValue) node.values.splice(at + 1, 1)
      node.counts.splice(at + 1, 1)
      node.counts[at] = sizeOf(left)
      return
    }
    const half = this.#split(left, left.keys.length >> 1)
    children[at + 1] = half
    node.keys[at + 1] = half.keys[0]
    if (this.order.byValue) node.values[at + 1] = half.values[0]
    node.counts[at] = sizeOf(left)
    node.counts[at + 1] = sizeOf(half)
  }

  /** Moves the content from `at` on to a new node, which it returns. */
  #split(node: TreeNode<K, V>, at: number): TreeNode<K, V> {
    const right: TreeNode<K, V> = {
      generation: this.#generation,
      keys: node.keys.slice(at),
      values: node.values.slice(at),
      children: node.children?.slice(at),
      counts: node.children === undefined ? noCounts : node.counts.slice(at),
    }
    // slice frees the memory, unlike a shorter length.
    node.keys = node.keys.slice(0, at)
    node.values = node.values.slice(0, at)
    if (node.children !== undefined) {
      node.children = node.children.slice(0, at)
      node.counts = node.counts.slice(0, at)
    }
    return right
  }

  #branch(children: TreeNode<K, V>[]): TreeNode<K, V> {
    return {
      generation: this.#generation,
      keys: children.map(child => child.keys[0]),
      values: this.order.byValue ? children.map(child => child.values[0]) : [],
      children,
      counts: children.map(sizeOf),
    }
  }

  /** Returns the node itself if no snapshot shares it, otherwise a copy. */
  #own(node: TreeNode<K, V>): TreeNode<K, V> {
    if (node.generation === this.#generation) return node
    return {
      generation: this.#generation,
      keys: node.keys.slice(),
      values: node.values.slice(),
      children: node.children?.slice(),
      counts: node.children === undefined ? noCounts : node.counts.slice(),
    }
  }
}

/** Distributes items evenly over nodes with room for insertions. Only a single node may be sparse. */
function evenRanges(count: number): [from: number, to: number][] {
  const nodes = Math.ceil(count / goodFill)
  return Array.from({ length: nodes }, (_, at) => [
    Math.floor((at * count) / nodes),
    Math.floor(((at + 1) * count) / nodes),
  ])
}

/** Maps each range to a node. The length of a range counts as work. */
function* mapRanges<T>(
  ranges: readonly [from: number, to: number][],
  make: (range: [from: number, to: number]) => T,
): Work<T[]> {
  const made: T[] = []
  let handled = 0
  for (const range of ranges) {
    made.push(make(range))
    handled += range[1] - range[0]
    if (handled < workDefaults.stride) continue
    yield handled
    handled = 0
  }
  yield handled
  return made
}

/** Returns the middle; or the last position if the tree grows at its end, so that full nodes stay behind. */
function splitPoint<K, V>(node: TreeNode<K, V>, appended: boolean): number {
  return appended ? node.keys.length - 1 : node.keys.length >> 1
}
