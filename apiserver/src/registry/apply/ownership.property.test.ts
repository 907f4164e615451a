import { defineModel, isApiError } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type BareObject, ServedModel } from '../../model/index.ts'
import { Causes } from '../causes.ts'
import { compare } from './compare.ts'
import { applyConfiguration, trackUpdate } from './field-manager.ts'
import { decodeFields, type FieldSet, firstPaths, intersection, isEmpty, noFields } from './field-set.ts'
import { objectTypeOf } from './field-type.ts'

const text = { type: 'string' } as const
const served = new ServedModel(
  defineModel({
    group: 'test.example.com',
    version: 'v1',
    kind: 'Thing',
    singular: 'thing',
    plural: 'things',
    schema: {
      spec: {
        type: 'object',
        properties: {
          n: { type: 'integer' },
          whole: { type: 'object', 'x-kubernetes-map-type': 'atomic', additionalProperties: text },
          set: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
          items: {
            type: 'array',
            'x-kubernetes-list-type': 'map',
            'x-kubernetes-list-map-keys': ['key'],
            items: { type: 'object', required: ['key'], properties: { key: text, value: text } },
          },
          nested: { type: 'object', properties: { a: text, b: text } },
          map: { type: 'object', additionalProperties: text },
        },
      },
    },
  }),
)
const type = objectTypeOf(served.hub)
const write = { served, version: served.hub, scope: 'object', now: 0 } as const

const names = fc.constantFrom('a', 'b', 'c')
const spec = fc.record(
  {
    n: fc.integer({ min: 0, max: 1 }),
    whole: fc.dictionary(names, names, { minKeys: 1, maxKeys: 2 }),
    set: fc.uniqueArray(names, { minLength: 1, maxLength: 3 }),
    items: fc.uniqueArray(fc.record({ key: names, value: names }, { requiredKeys: ['key'] }), {
      minLength: 1,
      maxLength: 3,
      selector: ({ key }) => key,
    }),
    nested: fc.record({ a: names, b: names }),
    map: fc.dictionary(names, names, { minKeys: 1, maxKeys: 3 }),
  },
  { requiredKeys: [] },
)

function bodyOf(content: object): Record<string, unknown> {
  return { apiVersion: served.hub.apiVersion, kind: 'Thing', metadata: { name: 'x' }, spec: content }
}

/** Applies to an object, and returns it as it would be stored. */
function apply(live: BareObject | undefined, manager: string, content: object, force = false): BareObject {
  const causes = new Causes()
  const options = { ...write, manager, name: 'x', force }
  const result = applyConfiguration(options, live && { view: live, hub: live }, bodyOf(content), causes)
  expect(causes.reported).toEqual([])
  const object: BareObject = JSON.parse(JSON.stringify({ spec: {}, ...Object(result?.object) }))
  const { managedFields } = result ?? {}
  return { ...object, metadata: { ...object.metadata, ...(managedFields && { managedFields }) } }
}

function fieldsOwnedBy({ metadata }: BareObject, manager: string): FieldSet {
  const entry = metadata.managedFields?.find(each => each.manager === manager)
  return entry === undefined ? noFields : decodeFields(entry.fieldsV1)
}

function pathsIn(set: FieldSet): string[] {
  return firstPaths(set, Infinity)
    .map(path => path.join('\n'))
    .sort()
}

/** The object without what the order of writes may change: times, and the order of sets and maps. */
function unordered(object: BareObject): unknown {
  const value: unknown = JSON.parse(JSON.stringify(object), (_key, part: unknown) =>
    Array.isArray(part) ? part.map(item => JSON.stringify(item)).sort() : part,
  )
  return value
}

const runs = { numRuns: 200 }

describe('an apply', () => {
  test('of an absent object makes it the configuration, and its manager owns exactly that', () => {
    fc.assert(
      fc.property(spec, content => {
        const made = apply(undefined, 'one', content)
        expect(made.spec).toEqual(content)
        const owned = pathsIn(fieldsOwnedBy(made, 'one'))
        const leaves = pathsIn(compare(type, bodyOf({}), bodyOf(content)).added)
        expect(owned.every(path => leaves.includes(path))).toBe(true)
        expect(isEmpty(fieldsOwnedBy(made, 'one'))).toBe(Object.keys(content).length === 0)
      }),
      runs,
    )
  })

  test('of the same configuration changes nothing', () => {
    fc.assert(
      fc.property(spec, spec, (first, second) => {
        const live = apply(apply(undefined, 'one', first), 'two', second, true)
        expect(apply(live, 'two', second)).toEqual(live)
      }),
      runs,
    )
  })

  test('with force sets every field, whatever others own, and takes what differs from them', () => {
    fc.assert(
      fc.property(spec, spec, (first, second) => {
        const live = apply(undefined, 'one', first)
        const next = apply(live, 'two', second, true)
        const { modified, removed } = compare(type, bodyOf(second), bodyOf(Object(next.spec)))
        expect([pathsIn(modified), pathsIn(removed)]).toEqual([[], []])
        const changed = compare(type, live, { ...next, metadata: live.metadata })
        const left = fieldsOwnedBy(next, 'one')
        expect(pathsIn(intersection(left, changed.modified))).toEqual([])
      }),
      runs,
    )
  })

  test('without force fails exactly if force would take a field from another manager', () => {
    fc.assert(
      fc.property(spec, spec, (first, second) => {
        const live = apply(undefined, 'one', first)
        const taken = pathsIn(fieldsOwnedBy(live, 'one'))
        const left = pathsIn(fieldsOwnedBy(apply(live, 'two', second, true), 'one'))
        const conflicts = conflictsOf(() => apply(live, 'two', second))
        expect(conflicts).toBe(taken.length - left.length)
      }),
      runs,
    )
  })

  test('of nothing removes what only its manager owns, and leaves what others own', () => {
    fc.assert(
      fc.property(spec, spec, (first, second) => {
        const one = apply(undefined, 'one', first)
        const both = apply(one, 'two', second, true)
        const without = apply(both, 'two', {})
        expect(pathsIn(fieldsOwnedBy(without, 'two'))).toEqual(['f:spec'])
        const left = pathsIn(fieldsOwnedBy(both, 'one'))
        const present = pathsIn(compare(type, bodyOf({}), bodyOf(Object(without.spec))).added)
        expect(left.every(path => present.includes(path))).toBe(true)
        if (left.length === 0) expect(without.spec).toEqual({})
      }),
      runs,
    )
  })

  test('commutes with that of another manager, if neither changes a field of the other', () => {
    fc.assert(
      fc.property(spec, spec, (first, second) => {
        const run = (order: readonly (readonly [string, object])[]) =>
          order.reduce<BareObject | undefined>(
            (live, [manager, content]) => apply(live, manager, content),
            undefined,
          )
        const there = [['one', first] as const, ['two', second] as const]
        fc.pre(conflictsOf(() => run(there)) === 0)
        const [ab, ba] = [run(there), run([...there].reverse())]
        expect(ab && unordered(ab)).toEqual(ba && unordered(ba))
      }),
      { numRuns: 50 },
    )
  })
})

describe('an update', () => {
  test('gives its writer what it changes, and takes it from all others', () => {
    fc.assert(
      fc.property(spec, spec, (first, second) => {
        const live = apply(undefined, 'one', first)
        fc.pre(live.metadata.managedFields !== undefined)
        const after: BareObject = { ...live, spec: second }
        const managedFields = trackUpdate({ ...write, manager: 'person' }, live, after, { kind: 'absent' })
        const next = { ...after, metadata: { ...live.metadata, ...(managedFields && { managedFields }) } }
        const bare = ({ spec: content }: BareObject) => bodyOf(Object(content))
        const { added, modified, removed } = compare(type, bare(live), bare(after))
        expect(pathsIn(fieldsOwnedBy(next, 'person'))).toEqual(
          [...pathsIn(added), ...pathsIn(modified)].sort(),
        )
        const left = fieldsOwnedBy(next, 'one')
        expect([...pathsIn(intersection(left, modified)), ...pathsIn(intersection(left, removed))]).toEqual(
          [],
        )
      }),
      runs,
    )
  })
})

/** Returns the number of conflicts that an apply fails with. */
function conflictsOf(run: () => unknown): number {
  try {
    run()
    return 0
  } catch (error) {
    if (!isApiError(error, 'Conflict')) throw error
    return error.details?.causes?.length ?? 0
  }
}
