import { describe, expect, test } from 'vitest'
import { encodeFields, readFieldSet } from './field-set.ts'
import { fieldTypeOf } from './field-type.ts'
import {
  capUpdates,
  managedFieldsDefaults,
  managerOfUserAgent,
  ownedBy,
  problemOfManager,
  readManagedFields,
  toStored,
} from './managed-fields.ts'
import { reconcile } from './reconcile.ts'

const updater = (manager: string, second: number, apiVersion = 'v1', subresource?: string) => ({
  ...ownedBy(
    { manager, operation: 'Update', apiVersion, ...(subresource && { subresource }) },
    readFieldSet({ [`f:${manager}`]: {} }),
  ),
  time: new Date(second * 1000).toISOString(),
})
const storedUpdater = (manager: string, second: number) => {
  const { fields, ...entry } = updater(manager, second)
  return { ...entry, fieldsType: 'FieldsV1' as const, fieldsV1: encodeFields(fields) }
}

describe('the entries of updates', () => {
  const many = Array.from({ length: managedFieldsDefaults.updateManagers + 2 }, (_, n) => updater(`m${n}`, n))

  test('are kept up to the bound', () => {
    const some = many.slice(2)
    expect(capUpdates(some)).toBe(some)
  })

  test('beyond it, the oldest are merged into one with the time of the newest of them', () => {
    const capped = capUpdates([...many].reverse())
    expect(capped).toHaveLength(managedFieldsDefaults.updateManagers)
    const merged = capped.find(({ manager }) => manager === 'ancient-changes')
    expect([...(merged?.fields.keys() ?? [])]).toEqual(['f:m0', 'f:m1', 'f:m2'])
    expect(merged?.time).toBe(many[2]?.time)
    // The merged entry takes part in the next merge, although it is not the oldest.
    const next = capUpdates([...capped, updater('late', 0)])
    expect(next.filter(({ manager }) => manager === 'ancient-changes')).toHaveLength(1)
    expect(next.find(({ manager }) => manager === 'ancient-changes')?.fields.has('f:late')).toBe(true)
  })

  test('are merged with those of their own version only, and applies are left alone', () => {
    const applier = ownedBy(
      { manager: 'a', operation: 'Apply', apiVersion: 'v1' },
      readFieldSet({ 'f:a': {} }),
    )
    const mixed = [applier, ...many.map((entry, n) => updater(entry.manager, n, n < 2 ? 'v2' : 'v1'))]
    const versions = capUpdates(mixed).filter(({ manager }) => manager === 'ancient-changes')
    expect(versions.map(({ apiVersion }) => apiVersion).sort()).toEqual(['v1', 'v2'])
    expect(capUpdates(mixed)).toContain(applier)
  })
})

describe('reading what a client sends', () => {
  test.each([[[{}]], [[{ manager: '', operation: '' }]]])('%j resets the entries', value => {
    expect(readManagedFields(value, [])).toEqual({ kind: 'reset' })
    expect(readManagedFields(value, [storedUpdater('a', 1)])).toEqual({ kind: 'reset' })
  })

  test.each([
    undefined,
    null,
    'x',
    {},
    [],
    [{ operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV2' }],
    [{ operation: 'Update', fieldsType: 'FieldsV1' }],
    [{ operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { 'v:{': {} } }],
    [{ operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1', fieldsV1: { 'f:a': 1 } }],
    Array.from({ length: 100 }, (_, n) => storedUpdater(`m${n}`, n)),
  ])('malformed ones count as absent', value => {
    expect(readManagedFields(value, [storedUpdater('a', 1)])).toEqual({ kind: 'absent' })
  })

  test('the stored entries count as absent, others are given, with their fields in one form', () => {
    const stored = [storedUpdater('a', 1)]
    expect(readManagedFields(structuredClone(stored), stored)).toEqual({ kind: 'absent' })
    const other = { ...storedUpdater('a', 1), fieldsV1: { 'k:{"b":1,"a":2}': { '.': {}, 'x:': {} } } }
    expect(readManagedFields([other], stored)).toEqual({
      kind: 'given',
      entries: [{ ...updater('a', 1), fields: readFieldSet({ 'k:{"a":2,"b":1}': {} }) }],
    })
  })
})

test('entries are stored in the order of Kubernetes, without empty ones', () => {
  const applier = (manager: string, fields: object) =>
    ownedBy({ manager, operation: 'Apply', apiVersion: 'v1' }, readFieldSet(fields))
  const apply = applier('z', { 'f:b': {}, 'f:a': {} })
  const empty = applier('y', {})
  const stored = toStored([updater('b', 2), updater('c', 1), updater('a', 2), empty, apply])
  expect(stored?.map(({ manager }) => manager)).toEqual(['z', 'c', 'a', 'b'])
  expect(Object.keys(stored?.[0]?.fieldsV1 ?? {})).toEqual(['f:a', 'f:b'])
  expect(toStored([empty])).toBeUndefined()
})

test('the manager of a User-Agent is what is printable before the slash, within the bound', () => {
  expect(managerOfUserAgent('kubectl/v1.34.0 (linux/amd64)')).toBe('kubectl')
  expect(managerOfUserAgent('a\u0007b\tc')).toBe('abc')
  expect(managerOfUserAgent('é'.repeat(100))).toBe('é'.repeat(64))
  expect(problemOfManager('é'.repeat(65))?.message).toContain('128 bytes')
  expect(problemOfManager('a b-ü')).toBeUndefined()
})

describe('after a change of the schema', () => {
  const set = readFieldSet({
    'f:map': { '.': {}, 'f:a': { 'f:b': {} } },
    'f:list': { 'v:1': {} },
    'f:free': { 'f:x': {} },
  })

  test('the owner of fields in what is atomic now owns the whole', () => {
    const type = fieldTypeOf({
      type: 'object',
      properties: {
        map: { type: 'object', 'x-kubernetes-map-type': 'atomic', properties: { a: { type: 'object' } } },
        list: { type: 'array', items: { type: 'integer' } },
      },
    })
    const whole = reconcile(type, set)
    expect(encodeFields(whole)).toEqual({ 'f:map': {}, 'f:list': {}, 'f:free': { 'f:x': {} } })
    expect(reconcile(type, whole)).toBe(whole)
  })

  test('a set that fits stays the same', () => {
    const type = fieldTypeOf({
      type: 'object',
      properties: {
        map: { type: 'object', properties: { a: { type: 'object' } } },
        list: { type: 'array', items: { type: 'integer' }, 'x-kubernetes-list-type': 'set' },
      },
    })
    expect(reconcile(type, set)).toBe(set)
  })
})
