import { multiValueIndex, singleValueIndex, toRevision } from '@setpoint/controller-runtime/api'
import { describe, expect, test } from 'vitest'
import type { Entry } from './entry.ts'
import { IndexSet } from './index-set.ts'
import { ModelStore } from './model-store.ts'

const indexes = new IndexSet({
  indexes: [
    singleValueIndex({ name: 'spec.n', indexFunc: () => undefined }),
    multiValueIndex({ name: 'spec.tags', indexFunc: () => [] }),
  ],
})
const n = indexes.positionOf('spec.n')

let revision = 0
function entry(
  name: string,
  value?: string,
  tags: string[] = [],
  labels: Record<string, string> = {},
): Entry {
  return {
    name,
    revision: toRevision(++revision),
    bytes: Buffer.alloc(0),
    labels,
    values: [
      [name],
      ['2024'],
      [],
      Object.entries(labels).map(([key, value]) => `${key}=${value}`),
      value === undefined ? [] : [value],
      tags,
    ],
  }
}

describe('a model store', () => {
  test('has what was applied last, under its name', () => {
    const store = new ModelStore(indexes)
    const [first, second] = [entry('a', '1'), entry('a', '2')]
    store.apply(first, undefined)
    store.apply(second, first)
    expect([store.size, store.get('a'), store.get('b')]).toEqual([1, second, undefined])
    store.apply(undefined, second)
    expect([store.size, store.get('a')]).toEqual([0, undefined])
    expect(store.snapshot().view(n).values.size).toBe(0)
  })

  test('refuses a change of something else than it has, and stays as it was', () => {
    const store = new ModelStore(indexes)
    const [first, other] = [entry('a', '1'), entry('a', '2')]
    store.apply(first, undefined)
    expect(() => store.apply(other, undefined)).toThrow('is not what it is said to have been')
    expect(() => store.apply(undefined, other)).toThrow('is not what it is said to have been')
    expect(() => store.apply(entry('b'), first)).toThrow('a cannot become b')
    expect(store.get('a')).toBe(first)
    expect(store.snapshot().view(n).values.keyAt(0)).toBe('1')
  })

  test('answers the same snapshot until something is written, and another one after', () => {
    const store = new ModelStore(indexes)
    const first = entry('a', '1')
    store.apply(first, undefined)
    const snapshot = store.snapshot()
    expect(store.snapshot()).toBe(snapshot)
    const second = entry('a', '1')
    store.apply(second, first)
    expect(store.snapshot()).not.toBe(snapshot)
    expect([snapshot.get('a'), store.snapshot().get('a')]).toEqual([first, second])
  })

  test('leaves an index alone in which the values are the same', () => {
    const store = new ModelStore(indexes)
    const first = entry('a', '1', ['x', 'y'], { app: 'web' })
    store.apply(first, undefined)
    const before = store.snapshot()
    store.apply(entry('a', '2', ['x', 'y'], { app: 'web' }), first)
    const after = store.snapshot()
    const changed = indexes.names.filter(
      (_, position) => before.view(position).values !== after.view(position).values,
    )
    expect(changed).toEqual(['spec.n'])
    expect(after.labelKeys).toBe(before.labelKeys)
  })
})
