import { systemClock } from '@setpoint/controller-runtime'
import { multiValueIndex, singleValueIndex, toRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countReads } from '../../../test/support/rooms.ts'
import { runsOf } from '../../../test/support/runs.ts'
import { contentOf } from '../../../test/support/snapshot-content.ts'
import { compareCodePoints } from '../model/index.ts'
import { IndexSet } from '../model/index-set.ts'
import type { Entry } from './entry.ts'
import { ModelStore } from './model-store.ts'

const indexes = new IndexSet({
  indexes: [
    singleValueIndex({ name: 'spec.n', indexFunc: () => undefined })(),
    multiValueIndex({ name: 'spec.tags', indexFunc: () => [] })(),
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
  test('returns the last applied entry by name', () => {
    const store = new ModelStore(indexes)
    const [first, second] = [entry('a', '1'), entry('a', '2')]
    store.apply(first, undefined)
    store.apply(second, first)
    expect([store.size, store.get('a'), store.get('b')]).toEqual([1, second, undefined])
    store.apply(undefined, second)
    expect([store.size, store.get('a')]).toEqual([0, undefined])
    expect(store.snapshot().view(n).values.size).toBe(0)
  })

  test('applies an object with many values in linear time', async () => {
    const size = 3000
    const names = (prefix: string) => Array.from({ length: size }, (_, at) => `${prefix}${at}`)
    const before = countReads(names('a'))
    const after = countReads([...names('a').slice(1), 'new'])
    const withTags = (tags: string[]): Entry => {
      const { values, ...rest } = entry('x')
      return { ...rest, values: [...values.slice(0, -1), tags] }
    }
    const [first, second] = [withTags(before.list), withTags(after.list)]
    const store = await ModelStore.from(indexes, [first], new Yielder(systemClock))
    store.apply(second, first)
    const tags = store.snapshot().view(indexes.positionOf('spec.tags')).values
    expect(tags.size).toBe(size)
    expect(before.reads() + after.reads()).toBeLessThan(20 * size)
  })

  test('rejects a change of an entry that is not the stored one, and stays unchanged', () => {
    const store = new ModelStore(indexes)
    const [first, other] = [entry('a', '1'), entry('a', '2')]
    store.apply(first, undefined)
    expect(() => store.apply(other, undefined)).toThrow('is not what it is said to have been')
    expect(() => store.apply(undefined, other)).toThrow('is not what it is said to have been')
    expect(() => store.apply(entry('b'), first)).toThrow('a cannot become b')
    expect(store.get('a')).toBe(first)
    expect(store.snapshot().view(n).values.keyAt(0)).toBe('1')
  })

  test('returns the same snapshot until the next write', () => {
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

  test('does not touch an index whose values are unchanged', () => {
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

describe('a model store built from many entries', () => {
  const yielder = () => new Yielder(systemClock)
  const text = fc.constantFrom('', 'a', 'b', 'ab', '\u{ffff}', '\u{1f600}')
  const drawn = fc.record({
    name: fc.oneof(
      fc.nat(500).map(n => `n${n}`),
      text.map(end => `x${end}`),
    ),
    value: fc.option(fc.oneof(text, fc.nat(500).map(String)), { nil: undefined }),
    tags: fc.array(text, { maxLength: 3 }),
    labels: fc.dictionary(fc.constantFrom('app', 'tier', '__proto__'), text),
  })
  type Drawn = typeof drawn extends fc.Arbitrary<infer T> ? T : never
  const entryOf = ({ name, value, tags, labels }: Drawn) => entry(name, value, tags, labels)
  const byName = (left: { name: string }, right: { name: string }) => compareCodePoints(left.name, right.name)

  test('equals a store built by writes, also after further writes', async () => {
    const objects = fc.uniqueArray(drawn, { selector: ({ name }) => name, maxLength: 250, size: 'max' })
    await fc.assert(
      fc.asyncProperty(
        objects,
        fc.array(fc.tuple(drawn, fc.boolean()), { maxLength: 60 }),
        async (objects, writes) => {
          const entries = objects.map(entryOf).sort(byName)
          const filled = await ModelStore.from(indexes, entries, yielder())
          const written = new ModelStore(indexes)
          for (const one of entries) written.apply(one, undefined)
          const before = filled.snapshot()
          const content = contentOf(before)
          expect(content).toEqual(contentOf(written.snapshot()))
          for (const [change, remove] of writes) {
            const previous = written.get(change.name)
            const next = remove ? undefined : entryOf(change)
            for (const store of [filled, written]) store.apply(next, previous)
          }
          expect(contentOf(filled.snapshot())).toEqual(contentOf(written.snapshot()))
          expect(contentOf(before)).toEqual(content)
        },
      ),
      { numRuns: runsOf(25) },
    )
  })

  test('counts the objects and bytes of each namespace, also after further writes', async () => {
    const namespaced = new IndexSet({ indexes: [], scope: 'Namespaced' })
    const place = fc.record({ namespace: fc.constantFrom('x', 'y'), name: fc.constantFrom('a', 'b', 'c') })
    const entryIn = ({ namespace, name }: { namespace: string; name: string }, size: number): Entry => {
      const bare = entry(name)
      const version = `,"version":"${bare.revision}","resourceVersion":"${bare.revision}"`
      return {
        ...bare,
        namespace,
        bytes: Buffer.alloc(version.length + size),
        values: [[name], [], [], [], []],
      }
    }
    const sizes = fc.array(fc.tuple(place, fc.option(fc.integer({ min: 1, max: 9 }))), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(30), async (writes, loaded) => {
        const present = new Map<string, { entry: Entry; size: number }>()
        let store = new ModelStore(namespaced)
        for (const [at, [place, size]] of writes.entries()) {
          const key = `${place.namespace}/${place.name}`
          if (at === loaded) {
            const entries = [...present].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, { entry }]) => entry)
            store = await ModelStore.from(namespaced, entries, yielder())
          }
          const next = size === null ? undefined : entryIn(place, size)
          store.apply(next, present.get(key)?.entry)
          if (next === undefined || size === null) present.delete(key)
          else present.set(key, { entry: next, size })
        }
        for (const namespace of ['x', 'y', 'z']) {
          const held = [...present.values()].filter(({ entry }) => entry.namespace === namespace)
          const bytes = held.reduce((sum, { size }) => sum + size, 0)
          expect(store.usages.of(namespace)).toEqual({ objects: held.length, bytes })
        }
      }),
    )
  })

  test('equals a store whose values were changed by writes', async () => {
    const name = fc.constantFrom('a', 'b', 'c')
    const tags = fc.uniqueArray(fc.constantFrom('t', 'u', 'v', 'w', 'x'))
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(name, tags), { minLength: 1 }), async writes => {
        const store = new ModelStore(indexes)
        const present = new Map<string, Entry>()
        for (const [name, tags] of writes) {
          const labels = Object.fromEntries(tags.map(tag => [tag, '']))
          const next = entry(name, undefined, tags, labels)
          store.apply(next, present.get(name))
          present.set(name, next)
        }
        const entries = [...present.values()].sort(byName)
        const built = await ModelStore.from(indexes, entries, yielder())
        expect(contentOf(store.snapshot())).toEqual(contentOf(built.snapshot()))
      }),
    )
  })

  test('sorts more distinct values than fit into one step', async () => {
    const count = 70_000
    const entries = Array.from({ length: count }, (_, n) =>
      entry(`n${String(n).padStart(6, '0')}`, `${(n * 7919) % count}`.padStart(6, '0')),
    )
    const { values } = (await ModelStore.from(indexes, entries, yielder())).snapshot().view(n)
    expect(values.size).toBe(count)
    for (let at = 0; at < count; at += 101) expect(values.keyAt(at)).toBe(String(at).padStart(6, '0'))
  })

  test('keeps sorted values, and sorts those that ascend only by UTF-16 unit', async () => {
    const byUnits = ['a', '\u{1f600}', '\u{ffff}']
    const entries = byUnits.map((value, at) => entry(`n${at}`, value))
    const { values } = (await ModelStore.from(indexes, entries, yielder())).snapshot().view(n)
    expect([0, 1, 2].map(at => values.keyAt(at))).toEqual(['a', '\u{ffff}', '\u{1f600}'])
    const gaps = [entry('n0', 'a'), entry('n1', 'a'), entry('n2', 'b'), entry('n3')]
    const again = (await ModelStore.from(indexes, gaps, yielder())).snapshot().view(n).values
    expect([0, 1, 2, 3].map(at => again.valueAt(at)?.name)).toEqual(['n0', 'n1', 'n2', 'n3'])
    const early = [entry('n0'), entry('n1', 'a')]
    const moved = (await ModelStore.from(indexes, early, yielder())).snapshot().view(n).values
    expect([0, 1].map(at => moved.valueAt(at)?.name)).toEqual(['n1', 'n0'])
  })

  test('rejects names that do not ascend', async () => {
    const twice = [entry('a'), entry('a')]
    await expect(ModelStore.from(indexes, twice, yielder())).rejects.toThrow('a comes after a')
  })
})
