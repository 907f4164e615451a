import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runsOf } from '../../../test/support/runs.ts'
import { compareCodePoints } from '../model/index.ts'
import { finish } from '../scheduling/index.ts'
import { CountedTree } from './counted-tree.ts'
import type { CountedTreeView } from './counted-tree-view.ts'
import { createNameTree } from './index-tree.ts'

type Pair = readonly [value: string | undefined, name: string]

function comparePairs([leftValue, leftName]: Pair, [rightValue, rightName]: Pair): number {
  if (leftValue === rightValue) return compareCodePoints(leftName, rightName)
  if (leftValue === undefined) return 1
  if (rightValue === undefined) return -1
  return compareCodePoints(leftValue, rightValue)
}

const createPairTree = () =>
  new CountedTree<string, string>({
    byValue: true,
    comparing: () => (leftValue, leftName, rightValue, rightName) =>
      comparePairs([leftValue, leftName ?? '\u{10ffff}'], [rightValue, rightName ?? '\u{10ffff}']),
  })

/** A slow and simple model of the tree. */
class SortedArray {
  pairs: readonly Pair[] = []

  set(pair: Pair): boolean {
    if (this.pairs.some(other => comparePairs(other, pair) === 0)) return false
    this.pairs = [...this.pairs, pair].sort(comparePairs)
    return true
  }

  delete(pair: Pair): boolean {
    const before = this.pairs.length
    this.pairs = this.pairs.filter(other => comparePairs(other, pair) !== 0)
    return this.pairs.length < before
  }

  rank(pair: Pair): number {
    return this.pairs.filter(other => comparePairs(other, pair) < 0).length
  }
}

function contentOf(view: CountedTreeView<string, string>): Pair[] {
  const pairs: Pair[] = []
  const cursor = view.cursor(0)
  for (let at = 0; at < view.size; at++) {
    pairs.push([cursor.key, cursor.value ?? '?'])
    cursor.next()
  }
  return pairs
}

function backwards(view: CountedTreeView<string, string>): Pair[] {
  const pairs: Pair[] = []
  const cursor = view.cursor(view.size - 1)
  for (let at = 0; at < view.size; at++) {
    pairs.push([cursor.key, cursor.value ?? '?'])
    cursor.previous()
  }
  return pairs.reverse()
}

const value = fc.option(fc.constantFrom('', 'a', 'b', 'c', '\u{ffff}', '\u{1f600}'), { nil: undefined })
const pair = fc.tuple(
  value,
  fc.nat(400).map(n => `n${n}`),
)
const operation = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('set' as const), pair }) },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('delete' as const), pair }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('snapshot' as const), pair }) },
)

describe('a counted tree', () => {
  test('agrees with a sorted array, also in every earlier snapshot', () => {
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 900, size: 'max' }), operations => {
        const tree = createPairTree()
        const model = new SortedArray()
        const snapshots: { view: CountedTreeView<string, string>; pairs: readonly Pair[] }[] = []
        for (const { type, pair } of operations) {
          if (type === 'set') expect(tree.set(pair[0], pair[1])).toBe(model.set(pair))
          else if (type === 'delete') expect(tree.delete(pair[0], pair[1])).toBe(model.delete(pair))
          else snapshots.push({ view: tree.snapshot(), pairs: model.pairs })
          expect(tree.size).toBe(model.pairs.length)
        }
        snapshots.push({ view: tree, pairs: model.pairs })
        for (const { view, pairs } of snapshots) {
          expect(contentOf(view)).toEqual(pairs)
          expect(backwards(view)).toEqual(pairs)
        }
        for (const { pair } of operations.slice(0, 50)) {
          expect(tree.rank(...pair)).toBe(model.rank(pair))
          expect(tree.get(...pair)).toBe(
            model.pairs.some(p => comparePairs(p, pair) === 0) ? pair[1] : undefined,
          )
        }
      }),
      { numRuns: runsOf(40) },
    )
  })

  test('filled at once equals a tree built by insertions, also after further writes', () => {
    const size = fc.oneof(fc.nat(200), fc.nat(6000))
    const writes = fc.array(fc.record({ add: fc.boolean(), at: fc.nat() }), { maxLength: 300 })
    fc.assert(
      fc.property(size, writes, (size, writes) => {
        const pairs = Array.from({ length: size }, (_, n): Pair => [`v${n >> 3}`, `n${n * 2}`]).sort(
          comparePairs,
        )
        const filled = createPairTree()
        finish(
          filled.fill(
            pairs.map(([value]) => value),
            pairs.map(([, name]) => name),
          ),
        )
        const inserted = createPairTree()
        for (const pair of pairs) inserted.set(...pair)
        const before = filled.snapshot()
        for (const { add, at } of writes) {
          const n = at % (size * 2 + 1)
          const pair = [`v${n >> 4}`, `n${n}`] as const
          const [one, other] = add
            ? [filled.set(...pair), inserted.set(...pair)]
            : [filled.delete(...pair), inserted.delete(...pair)]
          expect(one).toBe(other)
        }
        expect(contentOf(before)).toEqual(pairs)
        expect(contentOf(filled)).toEqual(contentOf(inserted))
        expect(backwards(filled)).toEqual(contentOf(filled))
        for (let n = 0; n < size; n += 7) {
          const pair = [`v${n >> 3}`, `n${n}`] as const
          expect(filled.rank(...pair)).toBe(inserted.rank(...pair))
          expect(filled.get(...pair)).toBe(inserted.get(...pair))
        }
      }),
      { numRuns: 40 },
    )
  })

  test('cannot be filled unless it is empty', () => {
    const tree = createNameTree<number>()
    finish(tree.fill([], []))
    finish(tree.fill(['a'], [1]))
    expect(() => finish(tree.fill(['b'], [2]))).toThrow('needs an empty tree')
  })

  test('keeps order, counts and positions through 60,000 random writes and their removal', () => {
    const tree = createPairTree()
    const pairs: Pair[] = []
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 48271) % 2147483647
      return seed % below
    }
    for (let i = 0; i < 30_000; i++) {
      const pair: Pair = [`v${random(50)}`, `n${i * 7919}`]
      pairs.push(pair)
      expect(tree.set(...pair)).toBe(true)
    }
    const sorted = [...pairs].sort(comparePairs)
    expect(contentOf(tree)).toEqual(sorted)
    for (let i = 0; i < 1000; i++) {
      const at = random(sorted.length)
      const [key, name] = sorted[at] ?? ['', '']
      expect([tree.keyAt(at), tree.valueAt(at)]).toEqual([key, name])
      expect(tree.rank(key, name)).toBe(at)
    }
    const full = tree.snapshot()
    while (pairs.length > 0) {
      const [pair] = pairs.splice(random(pairs.length), 1)
      if (pair === undefined) break
      expect(tree.delete(...pair)).toBe(true)
    }
    expect(tree.size).toBe(0)
    expect(contentOf(tree)).toEqual([])
    expect(contentOf(full)).toEqual(sorted)
  })

  test('finds the range of a value, and pairs without a value at the end', () => {
    const tree = createPairTree()
    for (const [key, name] of [
      ['a', '1'],
      ['a', '2'],
      ['b', '1'],
      [undefined, '3'],
      ['', '4'],
    ] as const)
      tree.set(key, name)
    expect([tree.rank('', ''), tree.rank('', undefined)]).toEqual([0, 1])
    expect([tree.rank('a', ''), tree.rank('a', undefined)]).toEqual([1, 3])
    expect([tree.rank('aa', ''), tree.rank('aa', undefined)]).toEqual([3, 3])
    expect([tree.rank(undefined, ''), tree.rank(undefined, undefined)]).toEqual([4, 5])
  })

  test('returns no pair for a position outside of it', () => {
    const tree = createPairTree()
    tree.set('a', '1')
    expect([tree.valueAt(-1), tree.valueAt(0), tree.valueAt(1)]).toEqual([undefined, '1', undefined])
    const cursor = tree.cursor(0)
    expect(cursor.next()).toBe(false)
    expect(cursor.value).toBeUndefined()
    expect(cursor.previous()).toBe(true)
    expect(cursor.value).toBe('1')
  })

  test('returns the same snapshot until the next write', () => {
    const tree = createNameTree<number>()
    tree.set('a', 1)
    const first = tree.snapshot()
    expect(tree.snapshot()).toBe(first)
    tree.set('a', 2)
    expect(tree.snapshot()).not.toBe(first)
    expect([first.get('a'), tree.get('a')]).toEqual([1, 2])
  })

  test('ordered by key alone keeps the last value of a key', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(300), fc.option(fc.nat(), { nil: undefined })), {
          maxLength: 600,
          size: 'max',
        }),
        writes => {
          const tree = createNameTree<number>()
          const model = new Map<string, number>()
          for (const [n, value] of writes) {
            const name = `k${n}`
            if (value === undefined) expect(tree.delete(name)).toBe(model.delete(name))
            else {
              expect(tree.set(name, value)).toBe(!model.has(name))
              model.set(name, value)
            }
          }
          expect(tree.size).toBe(model.size)
          const sorted = [...model].sort(([a], [b]) => compareCodePoints(a, b)).map(([, value]) => value)
          const found: number[] = []
          tree.forEachValue(value => found.push(value))
          expect(found).toEqual(sorted)
          for (const [name, value] of model) expect(tree.get(name)).toBe(value)
        },
      ),
      { numRuns: 100 },
    )
  })
})
