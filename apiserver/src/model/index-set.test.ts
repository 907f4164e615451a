import {
  defineModel,
  type IndexDeclaration,
  multiValueIndex,
  singleValueIndex,
} from '@setpoint/controller-runtime/api'
import { expect, test } from 'vitest'
import { type IndexedObject, IndexFunctionError, IndexSet, indexSetDefaults } from './index-set.ts'

function indexSet(...indexes: IndexDeclaration<IndexedObject>[]): IndexSet {
  return new IndexSet({ indexes: indexes.map(declare => declare()) })
}

function object(
  name: string,
  spec: Record<string, unknown> = {},
  labels?: Record<string, string>,
): IndexedObject {
  return {
    apiVersion: 'demo.example.com/v1',
    kind: 'Gadget',
    metadata: {
      name,
      uid: 'u',
      generation: 1,
      creationTimestamp: '2024-01-01T00:00:00.000Z',
      ...(labels && { labels }),
    },
    spec,
  }
}

test('every model has the default indexes, then its own', () => {
  const model = defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Gadget',
    singular: 'gadget',
    plural: 'gadgets',
    schema: { spec: { type: 'object' } },
    indexes: [singleValueIndex({ name: 'spec.n', indexFunc: () => undefined })],
  })
  const indexes = new IndexSet(model)
  expect(indexes.names).toEqual([
    'metadata.name',
    'metadata.creationTimestamp',
    'metadata.deletionTimestamp',
    'metadata.labels',
    'spec.n',
  ])
  expect(indexes.specs[IndexSet.name]?.unique).toBe(true)
  expect([indexes.indexOf('spec.n'), indexes.positionOf('spec.n'), indexes.indexOf('spec.m')]).toEqual([
    4,
    4,
    undefined,
  ])
  expect(() => indexes.positionOf('spec.m')).toThrow(RangeError)
  expect(indexes.indexOf('constructor')).toBeUndefined()
})

test('values are ordered by position, labels are key=value, and a missing value is an empty list', () => {
  const indexes = indexSet(
    singleValueIndex({ name: 'spec.n', indexFunc: () => undefined }),
    multiValueIndex({ name: 'spec.tags', indexFunc: () => ['b', 'a', 'b', ''] }),
  )
  expect(indexes.valuesOf(object('g1', {}, { app: 'web', 'example.com/x': '' }))).toEqual([
    ['g1'],
    ['2024-01-01T00:00:00.000Z'],
    [],
    ['app=web', 'example.com/x='],
    [],
    ['b', 'a', ''],
  ])
})

test('objects with equal content share their values and labels', () => {
  const indexes = indexSet(multiValueIndex({ name: 'spec.tags', indexFunc: () => ['x', 'y'] }))
  const [left, right] = ['g1', 'g2'].map(name => object(name, {}, { app: 'web', tier: 'db' }))
  if (left === undefined || right === undefined) throw new Error('unexpected')
  const [a, b] = [indexes.valuesOf(left), indexes.valuesOf(right)]
  for (const position of [1, 2, 3, 4]) expect(a[position]).toBe(b[position])
  expect(indexes.labelsOf(left)).toBe(indexes.labelsOf(right))
  expect(indexes.labelsOf(object('g3'))).toBe(indexes.labelsOf(object('g4', {}, {})))
})

test('sharing never confuses different values, and is bounded', () => {
  let tags: string[] = []
  const indexes = indexSet(multiValueIndex({ name: 'spec.tags', indexFunc: () => tags }))
  const lists = [
    ['a', 'b'],
    ['a\u0000b'],
    ['\u0000a', 'b'],
    ['a', '\u0000b'],
    ['\u0000a\u0000b'],
    ['ab'],
    ['', 'ab'],
  ]
  for (let round = 0; round < 3; round++) {
    for (const list of lists) {
      tags = [...list]
      expect(indexes.valuesOf(object('g1'))[4]).toEqual(list)
    }
    for (let i = 0; i <= indexSetDefaults.sharedValues; i++) {
      tags = [`t${i}`]
      expect(indexes.valuesOf(object('g1'))[4]).toEqual([`t${i}`])
    }
  }
})

test('changing an object later does not change its labels and values', () => {
  const tags = ['a']
  const labels = { app: 'web' }
  const indexes = indexSet(multiValueIndex({ name: 'spec.tags', indexFunc: () => tags }))
  const gadget = object('g1', {}, labels)
  const [values, kept] = [indexes.valuesOf(gadget), indexes.labelsOf(gadget)]
  tags[0] = 'b'
  labels.app = 'db'
  expect([values[3], values[4], kept]).toEqual([['app=web'], ['a'], { app: 'web' }])
})

test('large label sets are not shared, so that the cache does not keep those of old changes', () => {
  const indexes = indexSet()
  const labelled = (length: number) =>
    indexes.labelsOf(object('g1', {}, { app: 'x'.repeat(length), tier: 'db' }))
  const short = indexSetDefaults.sharedLength / 2
  expect(labelled(short)).toBe(labelled(short))
  const long = indexSetDefaults.sharedLength
  expect(labelled(long)).toEqual(labelled(long))
  expect(labelled(long)).not.toBe(labelled(long))
})

test('a failing index function is reported with its index and message', () => {
  const fails = (thrown: unknown) => () => {
    throw thrown
  }
  const indexes = indexSet(
    singleValueIndex({ name: 'spec.ok', indexFunc: () => 'v' }),
    singleValueIndex({ name: 'spec.throws', indexFunc: fails(new TypeError('no spec')) }),
    singleValueIndex({ name: 'spec.throwsText', indexFunc: fails('text') }),
    singleValueIndex({ name: 'spec.throwsOddly', indexFunc: fails(Object.create(null)) }),
    multiValueIndex({ name: 'spec.answersOddly', indexFunc: () => JSON.parse('[1]') }),
  )
  expect(() => indexes.valuesOf(object('g1'))).toThrow(IndexFunctionError)
  expect(() => indexes.valuesOf(object('g1'))).toThrow('index spec.throws: no spec')
  const { values, problems } = indexes.tryValuesOf(object('g1'))
  expect(values.slice(4)).toEqual([['v'], [], [], [], []])
  expect(problems).toEqual([
    { index: 'spec.throws', message: 'no spec' },
    { index: 'spec.throwsText', message: 'text' },
    { index: 'spec.throwsOddly', message: 'a value that has no text' },
    {
      index: 'spec.answersOddly',
      message: 'indexFunc must return an array of strings, one element is a value of type number',
    },
  ])
})

test('sharing pauses while few lists repeat, and resumes later', () => {
  let tag = ''
  const indexes = indexSet(multiValueIndex({ name: 'spec.tags', indexFunc: () => [tag] }))
  const valuesOf = (text: string) => {
    tag = text
    return indexes.valuesOf(object('g1'))[4]
  }
  expect(valuesOf('a')).toBe(valuesOf('a'))
  for (let n = 0; n <= indexSetDefaults.sharedValues; n++) valuesOf(`t${n}`)
  expect(valuesOf('a')).toEqual(['a'])
  expect(valuesOf('a')).not.toBe(valuesOf('a'))
  for (let n = 0; n < indexSetDefaults.unsharedRun; n++) valuesOf('a')
  expect(valuesOf('a')).toBe(valuesOf('a'))
})
