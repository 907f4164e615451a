import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  covers,
  decodeFields,
  difference,
  encodeFields,
  type FieldSet,
  firstPaths,
  intersection,
  isEmpty,
  noFields,
  readFieldSet,
  union,
} from './field-set.ts'
import { formatElements, PathElementError } from './path-element.ts'

const element = fc.constantFrom('f:a', 'f:b', 'f:', 'f:.', 'k:{"name":"x"}', 'v:1', 'v:"b"')
const paths = fc.array(fc.array(element, { minLength: 1, maxLength: 4 }), { maxLength: 12 })

/** The set of paths, built path by path. */
function setOf(list: readonly (readonly string[])[]): FieldSet {
  return list.reduce<FieldSet>(
    (set, path) =>
      union(
        set,
        path.reduceRight<FieldSet>((below, each) => new Map([[each, below]]), noFields),
      ),
    noFields,
  )
}

function textsOf(set: FieldSet): string[] {
  return firstPaths(set, Infinity)
    .map(path => path.join('\n'))
    .sort()
}

const text = (path: readonly string[]) => path.join('\n')
const unique = (texts: readonly string[]) => [...new Set(texts)].sort()

describe('operations on sets are those on the lists of their paths', () => {
  test('union, intersection and difference', () => {
    fc.assert(
      fc.property(paths, paths, (left, right) => {
        const [a, b] = [setOf(left), setOf(right)]
        const [as, bs] = [left.map(text), right.map(text)]
        expect(textsOf(a)).toEqual(unique(as))
        expect(textsOf(union(a, b))).toEqual(unique([...as, ...bs]))
        expect(textsOf(intersection(a, b))).toEqual(unique(as.filter(path => bs.includes(path))))
        expect(textsOf(difference(a, b))).toEqual(unique(as.filter(path => !bs.includes(path))))
        expect(covers(a, b)).toBe(bs.every(path => as.includes(path)))
      }),
    )
  })

  test('no operation changes its arguments or leaves an empty node', () => {
    const textOf = (set: FieldSet) => JSON.stringify(encodeFields(set))
    fc.assert(
      fc.property(paths, paths, (left, right) => {
        const [a, b] = [setOf(left), setOf(right)]
        const before = [textOf(a), textOf(b)]
        for (const result of [union(a, b), intersection(a, b), difference(a, b)])
          expect(textOf(result)).not.toContain('{".":{}}')
        expect([textOf(a), textOf(b)]).toEqual(before)
      }),
    )
  })

  test('a difference that takes nothing is the same set', () => {
    const set = setOf([['f:a', 'f:b'], ['f:a']])
    expect(difference(set, setOf([['f:a', 'f:c'], ['f:b']]))).toBe(set)
    expect(isEmpty(difference(set, set))).toBe(true)
  })
})

describe('FieldsV1', () => {
  test('an object of Kubernetes keeps its meaning and its text', () => {
    const fields = {
      'f:metadata': { 'f:labels': { '.': {}, 'f:app': {} } },
      'f:spec': {
        'f:containers': { 'k:{"name":"web"}': { '.': {}, 'f:image': {}, 'f:name': {} } },
        'f:finalizers': { 'v:"a/b"': {} },
      },
    }
    const set = readFieldSet(fields)
    expect(JSON.stringify(encodeFields(set))).toBe(JSON.stringify(fields))
    expect(firstPaths(set, Infinity).map(formatElements)).toEqual([
      '.metadata.labels',
      '.metadata.labels.app',
      '.spec.containers[name="web"]',
      '.spec.containers[name="web"].image',
      '.spec.containers[name="web"].name',
      '.spec.finalizers[="a/b"]',
    ])
  })

  test('elements with the same meaning are one', () => {
    const set = readFieldSet({ 'k:{"b":1.0,"a":"x"}': { 'f:c': {} }, 'k:{ "a":"x", "b":1 }': { 'f:d': {} } })
    expect(encodeFields(set)).toEqual({ 'k:{"a":"x","b":1}': { 'f:c': {}, 'f:d': {} } })
  })

  test('elements of unknown kinds are left out', () => {
    const set = readFieldSet({ 'x:1': {}, 'f:a': { 'x:2': {} }, 'i:3': {} })
    expect(encodeFields(set)).toEqual({ 'f:a': {}, 'i:3': {} })
  })

  test.each(['f', 'fa', 'v:', 'v:{', 'k:1', 'k:x', 'i:x'])('the element %j is refused', each => {
    expect(() => readFieldSet({ [each]: {} })).toThrow(PathElementError)
  })

  test('reading what was written gives the same set', () => {
    fc.assert(
      fc.property(paths, list => {
        const set = setOf(list)
        const fields = JSON.parse(JSON.stringify(encodeFields(set)))
        expect(readFieldSet(fields)).toEqual(set)
        expect(decodeFields(fields)).toEqual(set)
        expect(encodeFields(decodeFields(fields))).toBe(fields)
      }),
    )
  })
})
