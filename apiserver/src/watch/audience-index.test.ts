import { objectKey, parseFieldSelector, parseLabelSelector } from '@setpoint/controller-runtime/api'
import { toRevision } from '@setpoint/controller-runtime/internal'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { testModel, thing } from '../../../test/support/rooms.ts'
import { decodeEntry } from '../cache/entry-codec.ts'
import type { CacheEvent, Entry } from '../cache/index.ts'
import { ServedModel } from '../model/served-model.ts'
import { selectNamespace } from '../query/index.ts'
import { Audience, type Interest, interestKey } from './audience.ts'
import { AudienceIndex } from './audience-index.ts'

const served = new ServedModel(testModel)

function interest(key: string | undefined, labels: string, fields: string): Interest {
  return {
    key,
    selector: {
      labels: labels === '' ? [] : parseLabelSelector(labels),
      fields: fields === '' ? [] : parseFieldSelector(fields),
    },
  }
}

function indexOf(interests: readonly Interest[]): AudienceIndex {
  const index = new AudienceIndex(served.indexes)
  for (const each of interests) index.ensure(each, () => new Audience(served, each))
  return index
}

let revision = 0
function entry(name: string, spec: object, labels: Record<string, string>): Entry {
  const value = Buffer.from(`[]\n${JSON.stringify(thing(name, spec, { labels }))}`)
  return decodeEntry(served, name, value, toRevision(++revision)).entry
}

function visited(index: AudienceIndex, change: CacheEvent): string[] {
  const found: string[] = []
  index.visit(change, audience => found.push(interestKey(audience.interest)))
  return found
}

const value = fc.constantFrom('a', 'b', 'c')
const labelValue = fc.oneof(value, fc.constantFrom('7', '10'))
const labelTerm = fc
  .tuple(fc.constantFrom('x', 'y'), value, value)
  .chain(([k, a, b]) =>
    fc.constantFrom(
      ...[`${k}=${a}`, `${k}!=${a}`, `${k} in (${a},${b})`, `${k} notin (${a},${b})`, k, `!${k}`],
      ...[`${k}>8`, `${k}<8`],
    ),
  )
const fieldTerm = fc
  .tuple(fc.constantFrom('spec.tags', 'spec.email', 'metadata.name', 'metadata.labels'), value, value)
  .chain(([f, a, b]) =>
    fc.constantFrom(
      ...[`${f}=${a}`, `${f}!=${a}`, `${f}=(${a},${b})`, `${f} notin (${a},${b})`],
      ...[`${f}<${a}`, `${f}<=${a}`, `${f}>${a}`, `${f}>=${a}`, `${f}>=${a},${f}<${b}`],
    ),
  )
const interests = fc.array(
  fc
    .tuple(
      fc.option(value, { nil: undefined }),
      fc.array(labelTerm, { maxLength: 2 }),
      fc.array(fieldTerm, { maxLength: 2 }),
    )
    .map(([name, labels, fields]) => interest(name, labels.join(','), fields.join(','))),
  { maxLength: 20 },
)
const content = fc.option(
  fc.tuple(
    fc.record({ tags: fc.array(value, { maxLength: 2 }), email: value }, { requiredKeys: [] }),
    fc.record({ x: labelValue, y: labelValue }, { requiredKeys: [] }),
  ),
  { nil: undefined },
)

describe('the audiences of a change', () => {
  it('are all that select it, each once, by any selector', () => {
    fc.assert(
      fc.property(interests, value, content, content, (all, name, before, after) => {
        const index = indexOf(all)
        const change: CacheEvent = {
          revision: toRevision(++revision),
          previous: before && entry(name, ...before),
          next: after && entry(name, ...after),
        }
        const found = visited(index, change)
        expect(new Set(found).size).toBe(found.length)
        const concerned = [...iterate(index)].filter(audience => audience.typeOf(change) !== undefined)
        expect(found).toEqual(
          expect.arrayContaining(concerned.map(audience => interestKey(audience.interest))),
        )
      }),
      { numRuns: 1_000 },
    )
  })

  it('are few among many with other selectors', () => {
    const index = indexOf(
      Array.from({ length: 1_000 }, (_, n) =>
        n % 2 === 0 ? interest(undefined, `owner=o${n}`, '') : interest(undefined, '', `spec.tags=t${n}`),
      ),
    )
    const previous = entry('a', { tags: ['t1', 't3'] }, { owner: 'o2' })
    const next = entry('a', { tags: ['t3'] }, { owner: 'o4' })
    expect(visited(index, { revision: toRevision(++revision), previous, next })).toHaveLength(4)
    expect(visited(index, { revision: toRevision(++revision), previous: undefined, next })).toHaveLength(2)
  })

  it('are few also if all share one term and each has one of its own, in any order', () => {
    const index = indexOf(
      Array.from({ length: 1_000 }, (_, n) =>
        n % 2 === 0
          ? interest(undefined, `owner=o${n}`, 'spec.tags=all')
          : interest(undefined, `tier in (web,db),owner=o${n}`, ''),
      ),
    )
    const labels = { owner: 'o4', tier: 'web' }
    const next = entry('a', { tags: ['all'] }, labels)
    const found = visited(index, { revision: toRevision(++revision), previous: undefined, next })
    expect(found).toContain(interestKey(interest(undefined, 'owner=o4', 'spec.tags=all')))
    expect(found.length).toBeLessThan(5)
  })

  it('are few among many with ranges that do not contain the value, before or after the change', () => {
    const bound = (n: number) => String(n).padStart(4, '0')
    const index = indexOf(
      Array.from({ length: 1_000 }, (_, n) =>
        interest(undefined, '', `spec.email>=${bound(n)},spec.email<${bound(n + 1)},spec.tags!=x`),
      ),
    )
    const previous = entry('a', { email: `${bound(40)}5` }, {})
    const next = entry('a', { email: `${bound(700)}5` }, {})
    expect(visited(index, { revision: toRevision(++revision), previous, next })).toHaveLength(2)
    expect(visited(index, { revision: toRevision(++revision), previous: next, next })).toHaveLength(1)
    const none = entry('a', {}, {})
    expect(visited(index, { revision: toRevision(++revision), previous: undefined, next: none })).toEqual([])
  })

  it('are found by two comparisons that different values of an object satisfy', () => {
    const both = interest(undefined, '', 'spec.tags>=c,spec.tags<b')
    const next = entry('x', { tags: ['a', 'c'] }, {})
    const found = visited(indexOf([both]), { revision: toRevision(++revision), previous: undefined, next })
    expect(found).toEqual([interestKey(both)])
  })

  it('are the same for the same terms in another order, and are removed completely', () => {
    const index = new AudienceIndex(served.indexes)
    const make = (each: Interest) => index.ensure(each, () => new Audience(served, each))
    const one = make(interest(undefined, 'x=a,y in (b,c)', 'spec.tags=a'))
    expect(make(interest(undefined, 'y in (c,b),x=a', 'spec.tags=a'))).toBe(one)
    const other = make(interest('a', 'x=a', ''))
    const ranges = ['spec.email<b', 'spec.email<=b', 'metadata.name>=a'].map(fields =>
      make(interest(undefined, '', fields)),
    )
    for (const each of [one, other, ...ranges]) index.remove(each)
    expect(index.size).toBe(0)
    const next = entry('a', { email: 'a' }, { x: 'a' })
    const change = { revision: toRevision(++revision), previous: undefined, next }
    expect(visited(index, change)).toEqual([])
  })
})

describe('the audiences of a change in a namespace', () => {
  const seats = new ServedModel({ ...testModel, scope: 'Namespaced' })
  const namespace = fc.constantFrom('a', 'a-b', 'b')
  /** A watch of all objects or of a namespace, or of a name in one, perhaps with a label. */
  const watches = fc.uniqueArray(
    fc.record({
      place: fc.option(namespace, { nil: undefined }),
      one: fc.option(value, { nil: undefined }),
      x: fc.option(value, { nil: undefined }),
    }),
    { maxLength: 20, selector: ({ place, one, x }) => `${place} ${place && one} ${x}` },
  )
  const labels = fc.option(fc.record({ x: value }, { requiredKeys: [] }), { nil: undefined })

  function seat(place: string, name: string, labels: Record<string, string>): Entry {
    const object = thing(name, {}, { namespace: place, labels })
    const stored = Buffer.from(`[]\n${JSON.stringify(object)}`)
    return decodeEntry(seats, objectKey({ namespace: place, name }), stored, toRevision(++revision)).entry
  }

  it('are those of its namespace, of its name there, and of all namespaces', () => {
    fc.assert(
      fc.property(watches, namespace, value, labels, labels, (all, place, name, before, after) => {
        const index = new AudienceIndex(seats.indexes)
        const audiences = all.map(watch => {
          const selector = {
            labels: watch.x === undefined ? [] : parseLabelSelector(`x=${watch.x}`),
            fields: [],
          }
          const { place: namespace, one } = watch
          const isOne = namespace !== undefined && one !== undefined
          const interest: Interest = {
            key: isOne ? objectKey({ namespace, name: one }) : undefined,
            selector: isOne || namespace === undefined ? selector : selectNamespace(selector, namespace),
          }
          return { watch, audience: index.ensure(interest, () => new Audience(seats, interest)) }
        })
        const change: CacheEvent = {
          revision: toRevision(++revision),
          previous: before && seat(place, name, before),
          next: after && seat(place, name, after),
        }
        const found = new Set<Audience>()
        index.visit(change, audience => found.add(audience))
        for (const { watch, audience } of audiences) {
          const selects = (labels: { x?: string } | undefined) =>
            labels !== undefined &&
            (watch.place === undefined || watch.place === place) &&
            (watch.place === undefined || watch.one === undefined || watch.one === name) &&
            (watch.x === undefined || watch.x === labels.x)
          const [was, is] = [selects(before), selects(after)]
          const type = is ? (was ? 'MODIFIED' : 'ADDED') : was ? 'DELETED' : undefined
          expect(audience.typeOf(change)).toBe(type)
          if (type !== undefined) expect(found).toContain(audience)
        }
      }),
      { numRuns: 1_000 },
    )
  })

  it('are few among many namespaces', () => {
    const index = new AudienceIndex(seats.indexes)
    for (let n = 0; n < 1_000; n++) {
      const interest = { key: undefined, selector: selectNamespace({ labels: [], fields: [] }, `n${n}`) }
      index.ensure(interest, () => new Audience(seats, interest))
    }
    let found = 0
    const change = { revision: toRevision(++revision), previous: undefined, next: seat('n7', 'a', {}) }
    index.visit(change, () => {
      found++
    })
    expect(found).toBe(1)
  })
})

function* iterate(index: AudienceIndex): Generator<Audience> {
  yield* { [Symbol.iterator]: () => index[Symbol.iterator]() }
}
