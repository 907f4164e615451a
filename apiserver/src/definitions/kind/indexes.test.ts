import { describe, expect, test } from 'vitest'
import { definitionWith, refusals, withAnnotations, withSpec } from '../../testing/test-definition.ts'
import { indexDefaults, parseIndexes } from './indexes.ts'

const namespaced = { isNamespaced: true, selectable: ['.spec.color'] }

function problemsOf(value: unknown, kind = namespaced): readonly string[] {
  const read = parseIndexes(typeof value === 'string' ? value : JSON.stringify(value), kind)
  return 'problems' in read ? read.problems : []
}

test('a definition without the annotation has no further indexes', () => {
  expect(parseIndexes(undefined, namespaced)).toEqual({ indexes: [] })
})

test('an index has its path as its name, one value and the order ASC unless it says otherwise', () => {
  const text = JSON.stringify([
    { path: '.spec.schedule' },
    { name: 'hosts', path: '.spec.rules[*].host', multi: true, order: 'DESC' },
    { path: '.spec.mail', unique: true, uniqueWithin: 'namespace' },
  ])
  const plain = { multi: false, unique: false, uniqueWithin: undefined, order: 'ASC' }
  expect(parseIndexes(text, namespaced)).toEqual({
    indexes: [
      { ...plain, name: 'spec.schedule', path: '.spec.schedule' },
      { ...plain, name: 'hosts', path: '.spec.rules[*].host', multi: true, order: 'DESC' },
      { ...plain, name: 'spec.mail', path: '.spec.mail', unique: true, uniqueWithin: 'namespace' },
    ],
  })
})

test.each<[string, unknown, string]>([
  ['that is no JSON', '[{', 'must be a JSON list of indexes'],
  ['that is no list', { path: '.a' }, 'must be a JSON list of indexes, such as'],
  ['with an entry that is no object', [1], 'entry 0: an index must be an object with a path'],
  ['with an unknown key', [{ path: '.a', uniq: true }], 'did you mean unique?'],
  ['without a path', [{ name: 'a' }], 'entry 0: path must be a JSONPath such as .spec.color'],
  [
    'with a path that cannot be indexed',
    [{ path: '.spec..color' }],
    'entry 0: path ".spec..color" is not a JSONPath',
  ],
  ['with a path that makes no name', [{ path: '.spec.rules[*].host' }], 'it needs a name'],
  ['with a name that is none', [{ path: '.a', name: 'a b' }], 'must consist of letters, digits'],
  [
    'with a name of a default index',
    [{ path: '.a', name: 'metadata.name' }],
    'name "metadata.name" is already in use',
  ],
  ['with the name of a selectable field', [{ path: '.spec.color' }], 'name "spec.color" is already in use'],
  ['with a name twice', [{ path: '.a' }, { path: '.b', name: 'a' }], 'entry 1: name "a" is already in use'],
  ['with another order', [{ path: '.a', order: 'asc' }], 'order must be ASC or DESC'],
  ['with a flag that is none', [{ path: '.a', multi: 1 }], 'multi must be true or false'],
  [
    'unique within something else',
    [{ path: '.a', unique: true, uniqueWithin: 'zone' }],
    "uniqueWithin must be 'namespace'",
  ],
  [
    'unique within a namespace, but not unique',
    [{ path: '.a', uniqueWithin: 'namespace' }],
    'uniqueWithin needs unique: true',
  ],
])('a list %s is refused', (_what, value, problem) => {
  expect(problemsOf(value).join('\n')).toContain(problem)
})

test('values are unique within namespaces only where there are any', () => {
  const index = { path: '.a', unique: true, uniqueWithin: 'namespace' }
  expect(problemsOf([index])).toEqual([])
  expect(problemsOf([index], { ...namespaced, isNamespaced: false })).toEqual([
    'entry 0: uniqueWithin needs a kind of the scope Namespaced',
  ])
})

test('a name of the default index of namespaces is free for a kind without namespaces', () => {
  const index = { path: '.a', name: 'metadata.namespace' }
  expect(problemsOf([index])).toHaveLength(1)
  expect(problemsOf([index], { ...namespaced, isNamespaced: false })).toEqual([])
})

test('all problems are told at once, and the number of indexes is bounded', () => {
  expect(problemsOf([{ path: '.a', order: 1, multi: 1 }, {}])).toHaveLength(3)
  const { maxIndexes } = indexDefaults
  const many = Array.from({ length: maxIndexes + 1 }, (_, n) => ({ path: `.f${n}` }))
  expect(problemsOf(many)).toEqual([`must have at most ${maxIndexes} indexes, has ${maxIndexes + 1}`])
  expect(problemsOf(many.slice(1))).toEqual([])
})

describe('a definition', () => {
  const annotated = (indexes: object[]) =>
    withAnnotations({ 'setpoint.dev/indexes': JSON.stringify(indexes) })
  const place = 'metadata.annotations[setpoint.dev/indexes]'

  test('with a malformed list is refused at the annotation', async () => {
    expect(await refusals(definitionWith(annotated([{ path: '.a', order: 1 }])))).toEqual([
      `Invalid ${place}`,
    ])
  })

  test('has indexes that fit its scope', async () => {
    const change = annotated([{ path: '.a', unique: true, uniqueWithin: 'namespace' }])
    expect(await refusals(definitionWith(change))).toEqual([])
    expect(await refusals(definitionWith(change, withSpec({ scope: 'Cluster' })))).toEqual([
      `Invalid ${place}`,
    ])
  })
})
