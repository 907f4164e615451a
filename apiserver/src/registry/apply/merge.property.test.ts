import { isRecord } from '@setpoint/controller-runtime/api'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { deepEqual } from '../../model/index.ts'
import { compare } from './compare.ts'
import { type FieldSet, firstPaths, noFields } from './field-set.ts'
import { type FieldType, fieldTypeOf, itemElement, typeOfField } from './field-type.ts'
import { merge } from './merge.ts'
import { removeItems, withNamedFields, withoutEmptied } from './remove-items.ts'
import { fieldsOf } from './to-field-set.ts'

const type = fieldTypeOf({
  type: 'object',
  properties: {
    n: { type: 'integer' },
    text: { type: 'string' },
    whole: { type: 'object', 'x-kubernetes-map-type': 'atomic' },
    list: { type: 'array', items: { type: 'integer' } },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
    set: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
    ports: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['port', 'protocol'],
      items: {
        type: 'object',
        required: ['port'],
        properties: {
          port: { type: 'integer' },
          protocol: { type: 'string', default: 'TCP' },
          name: { type: 'string' },
          tags: { type: 'array', items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
        },
      },
    },
    nested: { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'object' } } },
  },
})

const names = fc.constantFrom('a', 'b', 'c')
const set = fc.uniqueArray(names, { maxLength: 3 })
const port = fc.record(
  { port: fc.integer({ min: 1, max: 3 }), protocol: fc.constantFrom('TCP', 'UDP'), name: names, tags: set },
  { requiredKeys: ['port'] },
)
const ports = fc.uniqueArray(port, {
  maxLength: 4,
  selector: ({ port, protocol = 'TCP' }) => `${port}/${protocol}`,
})
const value = fc.record(
  {
    n: fc.integer({ min: 0, max: 2 }),
    text: names,
    whole: fc.dictionary(names, fc.integer({ min: 0, max: 1 }), { maxKeys: 2 }),
    list: fc.array(fc.integer({ min: 0, max: 1 }), { maxLength: 2 }),
    labels: fc.dictionary(names, names, { maxKeys: 3 }),
    set,
    ports,
    nested: fc.record(
      {
        a: fc.integer({ min: 0, max: 1 }),
        b: fc.dictionary(names, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }),
      },
      { requiredKeys: [] },
    ),
    unknown: fc.dictionary(names, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 2 }),
  },
  { requiredKeys: [] },
)

/**
 * Every field of a value by the text of its path: `leaf` for one that is compared as a whole, else `container`.
 * A second way to read a value, without field sets.
 */
function fieldsByPath(of: FieldType, from: unknown, path = '', found = new Map<string, unknown>()) {
  const { map, list } = of
  if (map !== undefined && !map.isAtomic && isRecord(from) && Object.keys(from).length > 0) {
    found.set(path, mapContainer)
    for (const [name, field] of Object.entries(from))
      fieldsByPath(typeOfField(map, name), field, `${path}\nf:${name}`, found)
  } else if (list !== undefined && list.kind !== 'atomic' && Array.isArray(from) && from.length > 0) {
    found.set(path, listContainer)
    for (const item of from) fieldsByPath(list.items, item, `${path}\n${itemElement(list, item)}`, found)
  } else found.set(path, from)
  return found
}

const mapContainer = Symbol('map')
const listContainer = Symbol('list')
const isContainer = (value: unknown) => value === mapContainer || value === listContainer

function pathsIn(fields: FieldSet): string[] {
  return firstPaths(fields, Infinity)
    .map(path => `\n${path.join('\n')}`)
    .sort()
}

const times = { numRuns: 200 }

describe('comparing', () => {
  test('finds what a comparison path by path finds', () => {
    fc.assert(
      fc.property(value, value, (before, after) => {
        const [old, next] = [fieldsByPath(type, before), fieldsByPath(type, after)]
        for (const each of [old, next]) each.delete('')
        const isNew = (path: string) => !old.has(path)
        const differs = (path: string) => {
          const [a, b] = [old.get(path), next.get(path)]
          // An empty map or list, or null, that gets fields gets these, and stays itself.
          const emptied = [a, b].some(
            each => isContainer(each) && [a, b].some(other => isBareOf(each, other)),
          )
          return old.has(path) && next.has(path) && !emptied && a !== b && !deepEqual(a, b)
        }
        const { added, modified, removed } = compare(type, before, after)
        expect(pathsIn(added)).toEqual([...next.keys()].filter(isNew).sort())
        expect(pathsIn(removed)).toEqual([...old.keys()].filter(path => !next.has(path)).sort())
        expect(pathsIn(modified)).toEqual([...next.keys()].filter(differs).sort())
      }),
      times,
    )
  })

  test('equal values do not differ, and a swap exchanges added and removed', () => {
    fc.assert(
      fc.property(value, value, (before, after) => {
        expect(compare(type, before, structuredClone(before))).toEqual({
          added: noFields,
          modified: noFields,
          removed: noFields,
        })
        const there = compare(type, before, after)
        const back = compare(type, after, before)
        expect(there.added).toEqual(back.removed)
        expect(there.modified).toEqual(back.modified)
      }),
      times,
    )
  })
})

describe('merging', () => {
  test('sets every field of the configuration and keeps all others', () => {
    fc.assert(
      fc.property(value, value, (live, config) => {
        const merged = merge(type, live, config)
        const { modified, removed } = compare(type, config, merged)
        expect({ modified: pathsIn(modified), removed: pathsIn(removed) }).toEqual({
          modified: [],
          removed: [],
        })
        const lost = compare(type, live, merged).removed
        // Only what is inside of a value that the configuration replaces as a whole is lost.
        expect(pathsIn(lost).every(path => isReplaced(path, config))).toBe(true)
        const changed = pathsIn(compare(type, live, merged).modified)
        const owned = pathsIn(fieldsOf(type, config))
        expect(changed.every(path => owned.some(own => own.startsWith(path)))).toBe(true)
      }),
      times,
    )
  })

  test('twice is once, and into nothing it is the configuration', () => {
    fc.assert(
      fc.property(value, value, (live, config) => {
        const merged = merge(type, live, config)
        expect(merge(type, merged, config)).toEqual(merged)
        expect(merge(type, undefined, config)).toEqual(config)
        expect(merge(type, live, {})).toEqual(live)
      }),
      times,
    )
  })

  test('items follow the order of the configuration, and the others keep theirs', () => {
    fc.assert(
      fc.property(set, set, (live, config) => {
        const merged: unknown = merge(type, { set: live }, { set: config })
        const items = isRecord(merged) && Array.isArray(merged.set) ? merged.set : []
        expect(items.filter(item => config.includes(item))).toEqual(config)
        expect(items.filter(item => !config.includes(item))).toEqual(
          live.filter(item => !config.includes(item)),
        )
        expect(new Set(items).size).toBe(items.length)
      }),
      times,
    )
  })
})

describe('removing', () => {
  test('takes the fields of the set, and nothing that is not below one', () => {
    fc.assert(
      fc.property(value, value, (present, other) => {
        const fields = fieldsOf(type, other)
        const left = withoutEmptied(removeItems(type, present, fields))
        const taken = pathsIn(compare(type, present, left ?? {}).removed)
        const named = pathsIn(fields)
        const kept = pathsIn(fieldsOf(type, left ?? {}))
        expect(kept.filter(path => named.includes(path))).toEqual([])
        // A container that is emptied goes too.
        const isNamed = (path: string) => named.some(own => path.startsWith(own) || own.startsWith(path))
        expect(taken.every(isNamed)).toBe(true)
      }),
      times,
    )
  })

  test('takes a value apart with all of its fields, and leaves nothing', () => {
    fc.assert(
      fc.property(value, present => {
        const fields = withNamedFields(type, fieldsOf(type, present))
        const left = withoutEmptied(removeItems(type, present, fields))
        // Empty lists of sets and maps are owned by no manager.
        expect(pathsIn(fieldsOf(type, left ?? {}))).toEqual([])
      }),
      times,
    )
  })
})

/** Returns true for null, and for an empty value of the same form. */
function isBareOf(container: unknown, value: unknown): boolean {
  if (value === null) return true
  const isSameForm = container === mapContainer ? isRecord(value) : Array.isArray(value)
  return isSameForm && Object.keys(Object(value)).length === 0
}

/** Returns true if the configuration has a value of another form at the path, or above it. */
function isReplaced(path: string, config: unknown): boolean {
  const wanted = fieldsByPath(type, config)
  return [...wanted].some(
    ([own, each]) => !isContainer(each) && own !== '' && `${path}\n`.startsWith(`${own}\n`),
  )
}
