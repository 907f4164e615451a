import { childAt, childFor, lowerBound, noCounts, type PairOrder, type TreeNode } from './tree-node.ts'

/** An immutable state of a tree. Positions count from 0. */
export class CountedTreeView<K, V extends S, S = V> {
  protected root: TreeNode<K, V>
  protected pairs: number
  protected readonly order: PairOrder<K, S>

  constructor(order: PairOrder<K, S>, root: TreeNode<K, V>, pairs: number) {
    this.order = order
    this.root = root
    this.pairs = pairs
  }

  get size(): number {
    return this.pairs
  }

  /** Takes over the pairs of another view. */
  protected share(view: CountedTreeView<K, V, S>): void {
    this.root = view.root
    this.pairs = view.pairs
  }

  /** Returns the number of pairs before this one, which need not be in the tree. */
  rank(key: K | undefined, value?: S): number {
    const compare = this.order.comparing(key, value)
    let node = this.root
    let rank = 0
    while (node.children !== undefined) {
      const at = childFor(node, compare, key, value)
      for (let i = 0; i < at; i++) rank += node.counts[i] ?? 0
      node = childAt(node.children, at)
    }
    return rank + lowerBound(node, compare, key, value)
  }

  /** Returns the value of the pair that compares equal, or undefined. */
  get(key: K | undefined, value?: S): V | undefined {
    const compare = this.order.comparing(key, value)
    let node = this.root
    while (node.children !== undefined) {
      node = childAt(node.children, childFor(node, compare, key, value))
    }
    const at = lowerBound(node, compare, key, value)
    if (at === node.keys.length) return undefined
    const found = node.values[at]
    return compare(key, value, node.keys[at], found) === 0 ? found : undefined
  }

  /** Returns the key at a position, or undefined outside the tree. */
  keyAt(position: number): K | undefined {
    return this.cursor(position).key
  }

  /** Returns the value at a position, or undefined outside the tree. */
  valueAt(position: number): V | undefined {
    return this.cursor(position).value
  }

  /** Returns a cursor on the pair at a position. Outside the tree it is on no pair. */
  cursor(position: number): Cursor<K, V> {
    return new Cursor(this.root, this.pairs, position)
  }

  /** Calls `visit` with the values of the positions from `from` to `to` (exclusive), ascending. */
  forEachValue(visit: (value: V) => void, from = 0, to = this.pairs): void {
    const cursor = this.cursor(Math.max(0, from))
    for (let left = Math.min(to, this.pairs) - Math.max(0, from); left > 0; left--) {
      const value = cursor.value
      if (value !== undefined) visit(value)
      cursor.next()
    }
  }
}

/** Iterates over the pairs of a view in either direction. A step takes O(1), a jump O(log n). */
export class Cursor<K, V> {
  readonly #root: TreeNode<K, V>
  readonly #size: number
  #leaf: TreeNode<K, V>
  /** Position of the leaf's first pair. */
  #leafStart = 0
  #at = 0

  constructor(root: TreeNode<K, V>, size: number, position: number) {
    this.#root = root
    this.#size = size
    this.#leaf = root
    this.moveTo(position)
  }

  get position(): number {
    return this.#leafStart + this.#at
  }

  get key(): K | undefined {
    return this.#leaf.keys[this.#at]
  }

  get value(): V | undefined {
    return this.#leaf.values[this.#at]
  }

  /** The key of the previous pair; undefined at the first. */
  get keyBefore(): K | undefined {
    return this.#at > 0 ? this.#leaf.keys[this.#at - 1] : this.#peek(this.position - 1)
  }

  /** The key of the next pair; undefined at the last. */
  get keyAfter(): K | undefined {
    return this.#at + 1 < this.#leaf.keys.length
      ? this.#leaf.keys[this.#at + 1]
      : this.#peek(this.position + 1)
  }

  #peek(position: number): K | undefined {
    return new Cursor(this.#root, this.#size, position).key
  }

  /** Moves to the next pair. Returns false after the last pair; the cursor is then on no pair. */
  next(): boolean {
    this.#at++
    if (this.#at < this.#leaf.keys.length) return true
    return this.moveTo(this.#leafStart + this.#at)
  }

  /** Moves to the previous pair. Returns false before the first pair; the cursor is then on no pair. */
  previous(): boolean {
    this.#at--
    if (this.#at >= 0) return true
    return this.moveTo(this.#leafStart + this.#at)
  }

  moveTo(position: number): boolean {
    if (position < 0 || position >= this.#size) {
      this.#leaf = outside
      this.#leafStart = position
      this.#at = 0
      return false
    }
    let node = this.#root
    let start = 0
    while (node.children !== undefined) {
      let at = 0
      for (;;) {
        const count = node.counts[at]
        if (count === undefined) throw new Error('counted tree: counts do not add up')
        if (position < start + count) break
        start += count
        at++
      }
      node = childAt(node.children, at)
    }
    this.#leaf = node
    this.#leafStart = start
    this.#at = position - start
    return true
  }
}

const outside: TreeNode<never, never> = {
  generation: 0,
  keys: [],
  values: [],
  children: undefined,
  counts: noCounts,
}
