import { defineModel, isApiError, selectorLimits, singleValueIndex } from '@setpoint/controller-runtime/api'
import { describe, expect, test } from 'vitest'
import { expectLinear } from '../../../test/support/growth.ts'
import { IndexSet } from '../model/index-set.ts'
import { decodeContinue, encodeContinue } from './continue-token.ts'
import { type ListQuery, listQueryLimits, parseListQuery } from './list-query.ts'

const indexes = new IndexSet(
  defineModel({
    group: 'demo.example.com',
    version: 'v1',
    kind: 'Gadget',
    singular: 'gadget',
    plural: 'gadgets',
    schema: { spec: { type: 'object' } },
    indexes: [
      singleValueIndex({ name: 'spec.email', indexFunc: () => undefined }),
      singleValueIndex({ name: 'spec.n', order: 'DESC', indexFunc: () => undefined }),
    ],
  }),
)
const email = indexes.positionOf('spec.email')
const n = indexes.positionOf('spec.n')

const parse = (text: string): ListQuery => parseListQuery(new URLSearchParams(text), indexes)

function refusal(text: string): string {
  try {
    parse(text)
  } catch (error) {
    if (isApiError(error, 'BadRequest')) return error.message
    throw error
  }
  throw new Error(`${text.slice(0, 80)} is not refused`)
}

const token = encodeContinue({ version: decodeVersion(7), after: 'g1' })
function decodeVersion(revision: number) {
  const { at } = parse(`resourceVersion=${revision}`)
  if (at.kind !== 'notOlderThan') throw new Error('unexpected')
  return at.revision
}

const registered =
  'metadata.name, metadata.creationTimestamp, metadata.deletionTimestamp, metadata.labels, spec.email, spec.n'

describe('a list request is refused, with parameter, term and reason, for', () => {
  test.each([
    ['page=0', 'page: "0": counts from 1'],
    ['page=-1', 'page: "-1": must be a whole number in decimal digits'],
    ['page=1.5', 'page: "1.5": must be a whole number in decimal digits'],
    ['page=1e3', 'page: "1e3": must be a whole number in decimal digits'],
    ['page=abc', 'page: "abc": must be a whole number in decimal digits'],
    ['page=', 'page: "": must be a whole number in decimal digits'],
    ['page=%202', 'page: " 2": must be a whole number in decimal digits'],
    ['page=0x10', 'page: "0x10": must be a whole number in decimal digits'],
    ['page=%D9%A1', 'page: "١": must be a whole number in decimal digits'],
    ['page=9007199254740992', 'page: "9007199254740992": is too large'],
    ['page=1&page=2', 'page: is given 2 times, expected once'],
    ['page=1&page=1', 'page: is given 2 times, expected once'],
    ['size=0', 'size: "0": counts from 1'],
    ['size=abc', 'size: "abc": must be a whole number in decimal digits'],
    ['size=+5', 'size: " 5": must be a whole number in decimal digits'],
    [`size=${'9'.repeat(200)}`, `size: "${'9'.repeat(99)}…": is too large`],
    ['size=', 'size: "": must be a whole number in decimal digits'],
    ['sort=', 'sort: is empty, expected <field>[,asc|desc]'],
    ['sort=,asc', 'sort: ",asc": the field is empty, expected <field>[,asc|desc]'],
    ['sort=metadata.name,', 'sort: "metadata.name,": the direction is empty, expected asc or desc'],
    ['sort=metadata.name,up', 'sort: "metadata.name,up": unknown direction "up", expected asc or desc'],
    ['sort=metadata.name,DESC', 'sort: "metadata.name,DESC": unknown direction "DESC", expected asc or desc'],
    [
      'sort=metadata.name, desc',
      'sort: "metadata.name, desc": unknown direction " desc", expected asc or desc',
    ],
    [
      'sort=metadata.name,asc,spec.n',
      'sort: "metadata.name,asc,spec.n": one field and one direction a sort, repeat the parameter for more',
    ],
    [
      'sort=spec.nope,asc',
      `sort: "spec.nope,asc": "spec.nope" is not an index of this kind; the indexes are ${registered}`,
    ],
    [
      'sort=__proto__',
      `sort: "__proto__": "__proto__" is not an index of this kind; the indexes are ${registered}`,
    ],
    [
      'sort=constructor',
      `sort: "constructor": "constructor" is not an index of this kind; the indexes are ${registered}`,
    ],
    [
      Array.from({ length: listQueryLimits.sortKeys + 1 }, () => 'sort=spec.n').join('&'),
      'sort: has 5 keys, at most 4 are allowed',
    ],
    [
      'fieldSelector=spec.nope=1',
      `fieldSelector: "spec.nope" is not an index of this kind; the indexes are ${registered}`,
    ],
    [
      'fieldSelector=toString=1',
      `fieldSelector: "toString" is not an index of this kind; the indexes are ${registered}`,
    ],
    ['fieldSelector=spec.n=(a', 'fieldSelector: "spec.n=(a": missing closing bracket'],
    ['fieldSelector=spec.n', 'fieldSelector: "spec.n": a field selector needs an operator and a value'],
    [
      'fieldSelector=spec.nope<1',
      `fieldSelector: "spec.nope" is not an index of this kind; the indexes are ${registered}`,
    ],
    ['labelSelector=app<web', 'labelSelector: "app<web": labels compare with an integer only'],
    ['labelSelector==v', 'labelSelector: "=v": the key is empty'],
    ['labelSelector=app=web,', 'labelSelector: "": empty term, is there an extra comma?'],
    ['labelSelector=app=a)', 'labelSelector: "app=a)": unexpected closing bracket'],
    ['labelSelector=app=a=b', 'labelSelector: "app=a=b": a label value cannot have "="'],
    [
      `labelSelector=${Array.from({ length: 2_000 }, (_, i) => `k${i}`).join(',')}`,
      `labelSelector: "k100": label selector has more than ${selectorLimits.terms} terms`,
    ],
    [
      `labelSelector=${'a'.repeat(100 * 1024)}`,
      `labelSelector: "${'a'.repeat(99)}…": label selector is longer than ${selectorLimits.bytes} bytes`,
    ],
    [
      `labelSelector=${terms(51, i => `k${i}`)}&fieldSelector=${terms(50, i => `spec.n!=${i}`)}`,
      'selectors: have 101 terms together, at most 100 are allowed',
    ],
    [
      `labelSelector=k%20in%20(${terms(3_000, i => `${i}`)})&fieldSelector=spec.n=${'é'.repeat(1_500)}`,
      'selectors: have 16903 bytes together, at most 16384 are allowed',
    ],
    ['limit=-1', 'limit: "-1": must be a whole number in decimal digits'],
    ['limit=abc', 'limit: "abc": must be a whole number in decimal digits'],
    ['limit=1.5', 'limit: "1.5": must be a whole number in decimal digits'],
    ['limit=5&limit=6', 'limit: is given 2 times, expected once'],
    ['limit=5&page=1', 'limit: cannot be used together with page'],
    ['limit=5&size=5', 'limit: cannot be used together with size'],
    ['limit=5&sort=spec.n', 'limit: cannot be used together with sort'],
    [`continue=${token}&page=2`, 'continue: cannot be used together with page'],
    [`continue=${token}&sort=spec.n`, 'continue: cannot be used together with sort'],
    [
      `continue=${token}&resourceVersion=5`,
      'continue: cannot be used together with resourceVersion: the token has it',
    ],
    [
      `continue=${token}&resourceVersionMatch=Exact`,
      'continue: cannot be used together with resourceVersionMatch',
    ],
    ['continue=abc', 'continue: the token is not valid'],
    ['continue=%2B%2F%3D', 'continue: the token is not valid'],
    [`continue=${'A'.repeat(5000)}`, 'continue: the token is not valid'],
    ['resourceVersion=abc', 'resourceVersion: "abc": must be a decimal number'],
    ['resourceVersion=-1', 'resourceVersion: "-1": must be a decimal number'],
    ['version=1.5', 'version: "1.5": must be a decimal number'],
    ['version=5&resourceVersion=6', 'resourceVersion: "6": version and resourceVersion must be equal'],
    ['resourceVersionMatch=Exact', 'resourceVersionMatch: needs a resourceVersion'],
    [
      'resourceVersion=5&resourceVersionMatch=exact',
      'resourceVersionMatch: "exact": expected Exact or NotOlderThan',
    ],
    [
      'resourceVersion=0&resourceVersionMatch=Exact',
      'resourceVersionMatch: Exact needs a resourceVersion above 0',
    ],
    ['sendInitialEvents=true', 'sendInitialEvents: is for watches only'],
  ])('%.80s', (text, message) => {
    expect(refusal(text)).toBe(message)
  })
})

/** Returns this many terms or values, joined by commas. */
function terms(count: number, term: (i: number) => string): string {
  return Array.from({ length: count }, (_, i) => term(i)).join(',')
}

describe('a list request', () => {
  test('without parameters selects all objects, newest first, at the latest version', () => {
    expect(parse('')).toEqual({
      selector: { labels: [], fields: [] },
      sort: [{ index: IndexSet.creationTimestamp, descending: true }],
      paging: { kind: 'page', page: 1, size: undefined },
      at: { kind: 'latest' },
    })
  })

  test('sorts by each key in the given direction, or in that of the index', () => {
    expect(parse('sort=spec.email&sort=spec.n&sort=spec.n,asc&sort=metadata.name,desc').sort).toEqual([
      { index: email, descending: false },
      { index: n, descending: true },
      { index: n, descending: false },
      { index: IndexSet.name, descending: true },
    ])
  })

  test('joins repeated selectors by AND', () => {
    const { selector } = parse(
      'labelSelector=a=1,b&labelSelector=!c&fieldSelector=spec.n=1&fieldSelector=spec.n!=2',
    )
    expect(selector.labels.map(({ key, operator }) => [key, operator])).toEqual([
      ['a', 'in'],
      ['b', 'exists'],
      ['c', 'absent'],
    ])
    expect(selector.fields.map(({ operator, values }) => [operator, ...values])).toEqual([
      ['in', '1'],
      ['notin', '2'],
    ])
  })

  test.each([
    ['limit=5', { kind: 'chunk', limit: 5, after: undefined }],
    [`limit=5&continue=${token}`, { kind: 'chunk', limit: 5, after: 'g1' }],
    [`continue=${token}`, { kind: 'chunk', limit: undefined, after: 'g1' }],
    ['limit=0', { kind: 'page', page: 1, size: undefined }],
    ['limit=', { kind: 'page', page: 1, size: undefined }],
    ['limit=0&page=2&size=5', { kind: 'page', page: 2, size: 5 }],
    ['continue=', { kind: 'page', page: 1, size: undefined }],
    ['page=3', { kind: 'page', page: 3, size: undefined }],
    ['page=9007199254740991&size=007', { kind: 'page', page: 9007199254740991, size: 7 }],
  ])('%s is paged as it says', (text, paging) => {
    expect(parse(text).paging).toEqual(paging)
  })

  test.each([
    ['', { kind: 'latest' }],
    ['resourceVersion=', { kind: 'latest' }],
    ['resourceVersion=0', { kind: 'any' }],
    ['version=000', { kind: 'any' }],
    ['resourceVersion=0&resourceVersionMatch=NotOlderThan', { kind: 'any' }],
    ['resourceVersion=7', { kind: 'notOlderThan', revision: 7 }],
    ['version=7&resourceVersion=07', { kind: 'notOlderThan', revision: 7 }],
    ['resourceVersion=7&limit=5', { kind: 'exact', revision: 7 }],
    ['resourceVersion=7&limit=0', { kind: 'notOlderThan', revision: 7 }],
    ['resourceVersion=7&limit=5&resourceVersionMatch=NotOlderThan', { kind: 'notOlderThan', revision: 7 }],
    ['resourceVersion=7&resourceVersionMatch=Exact', { kind: 'exact', revision: 7 }],
    [`resourceVersion=${'9'.repeat(30)}`, { kind: 'notOlderThan', revision: Number.MAX_SAFE_INTEGER }],
    [`continue=${token}`, { kind: 'exact', revision: 7 }],
    [`continue=${token}&resourceVersion=0`, { kind: 'exact', revision: 7 }],
  ])('%.60s reads the state that Kubernetes would', (text, at) => {
    expect(parse(text).at).toEqual(at)
  })
})

test.each(['page=1&', 'sort=spec.n&', 'fieldSelector=spec.n=1&', 'labelSelector=k%2C&'])(
  'the parameters of a list are read in linear time, also many of %s',
  part => {
    expectLinear(length => refusal(part.repeat(length / part.length)))
  },
)

test('a continue token is decoded unchanged, and any other text is refused', () => {
  const version = decodeVersion(12)
  expect(decodeContinue(encodeContinue({ version, after: 'ünï-😀' }))).toEqual({ version, after: 'ünï-😀' })
  const forged = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  for (const text of [
    forged(null),
    forged([]),
    forged({ v: 2, version: '1', after: 'a' }),
    forged({ v: 1, version: 1, after: 'a' }),
    forged({ v: 1, version: '-1', after: 'a' }),
    forged({ v: 1, version: '9'.repeat(17), after: 'a' }),
    forged({ v: 1, version: '1' }),
    forged({ v: 1, version: '1', after: 7 }),
    forged({ v: 1, version: '1', after: 'a' }).slice(0, -3),
  ]) {
    expect(() => decodeContinue(text)).toThrow('the token is not valid')
  }
})
