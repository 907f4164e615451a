import { describe, expect, test } from 'vitest'
import { definitionWith, refusals, withField, withRoot } from '../../../testing/test-definition.ts'

const at = 'spec.validation.openAPIV3Schema'
const field = `${at}.properties[spec].properties[field]`

/** Returns a schema of an object with rules. */
const ruled = (...rules: object[]) => ({
  type: 'object',
  properties: {
    text: { type: 'string', maxLength: 10 },
    size: { type: 'integer' },
    names: { type: 'array', maxItems: 3, items: { type: 'string', maxLength: 10 } },
    counts: { type: 'object', maxProperties: 3, additionalProperties: { type: 'integer' } },
    since: { type: 'string', format: 'date-time' },
    wait: { type: 'string', format: 'duration' },
    port: { 'x-kubernetes-int-or-string': true },
    namespace: { type: 'string' },
    'a.b': { type: 'string' },
  },
  'x-kubernetes-validations': rules,
})
const refusalsOf = (...rules: object[]) => refusals(definitionWith(withField(ruled(...rules))))

test.each([
  'self.size > 0',
  'self.size >= oldSelf.size',
  'has(self.text) && self.text != ""',
  'self.names.all(x, x.startsWith("a"))',
  'self.counts.all(k, self.counts[k] > 0)',
  'self.since > timestamp("2025-01-01T00:00:00Z")',
  'self.wait <= duration("1h")',
  'type(self.port) == int ? self.port > 0 : self.port != ""',
  'self.__namespace__ == self.a__dot__b',
  'isIP(self.text) || cidr("10.0.0.0/8").containsIP(self.text)',
])('the rule %s is accepted', async rule => {
  expect(await refusalsOf({ rule })).toEqual([])
})

test.each<[string, string]>([
  ['that is empty', ' '],
  ['that is incomplete', 'self.size >'],
  ['with a field that is not declared', 'self.length > 0'],
  ['that compares values of different types', 'self.size == "a"'],
  ['that is no condition', 'self.size'],
  ['with a function that does not exist', 'even(self.size)'],
  ['with a pattern that does not compile', 'self.text.matches("(")'],
  ['with a field of the metadata that rules do not see', 'self.metadata.name != ""'],
])('a rule %s is refused', async (_what, rule) => {
  const reason = rule.trim() === '' ? 'Required' : 'Invalid'
  expect(await refusalsOf({ rule })).toEqual([`${reason} ${field}.x-kubernetes-validations[0].rule`])
})

test('each rule has its place', async () => {
  expect(await refusalsOf({ rule: 'true' }, { rule: 'no' }, { rule: 'true' }, { rule: 'nor' })).toEqual([
    `Invalid ${field}.x-kubernetes-validations[1].rule`,
    `Invalid ${field}.x-kubernetes-validations[3].rule`,
  ])
})

describe('the message of a rule', () => {
  const place = `${field}.x-kubernetes-validations[0]`

  test.each<[string, object, string[]]>([
    ['is not blank', { message: ' ' }, [`Invalid ${place}.message`]],
    ['is one line', { message: 'a\nb' }, [`Invalid ${place}.message`]],
    ['may be an expression of a text', { messageExpression: '"size is " + string(self.size)' }, []],
    [
      'is no expression of a number',
      { messageExpression: 'self.size' },
      [`Invalid ${place}.messageExpression`],
    ],
    [
      'is no expression that does not compile',
      { messageExpression: 'self.' },
      [`Invalid ${place}.messageExpression`],
    ],
  ])('%s', async (_what, parts, causes) => {
    expect(await refusalsOf({ rule: 'self.size > 0', ...parts })).toEqual(causes)
  })

  test('is there for a rule of several lines', async () => {
    const rule = 'self.size > 0\n && self.size < 9'
    expect(await refusalsOf({ rule })).toEqual([`Required ${place}.message`])
    expect(await refusalsOf({ rule, message: 'must be between' })).toEqual([])
  })
})

test.each<[string, object, string[]]>([
  ['one of the four reasons', { reason: 'FieldValueForbidden' }, []],
  [
    'no other reason',
    { reason: 'FieldValueTooLong' },
    [`NotSupported ${field}.x-kubernetes-validations[0].reason`],
  ],
  ['the path of a field', { fieldPath: '.size' }, []],
  ['the path of a value of a map', { fieldPath: '.counts.a' }, []],
  [
    'no path of a field that is not declared',
    { fieldPath: '.length' },
    [`Invalid ${field}.x-kubernetes-validations[0].fieldPath`],
  ],
  [
    'no path of an item of a list',
    { fieldPath: '.names[0]' },
    [`Invalid ${field}.x-kubernetes-validations[0].fieldPath`],
  ],
])('a rule may have %s', async (_what, parts, causes) => {
  expect(await refusalsOf({ rule: 'self.size > 0', ...parts })).toEqual(causes)
})

describe('the old value', () => {
  const rule = 'self == oldSelf'
  const items = {
    type: 'object',
    required: ['a'],
    properties: { a: { type: 'integer' } },
    'x-kubernetes-validations': [{ rule }],
  }

  test('exists for items with keys, and not for those of other lists', async () => {
    const list = { type: 'array', maxItems: 5, items }
    const keyed = { ...list, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['a'] }
    expect(await refusals(definitionWith(withField(keyed)))).toEqual([])
    expect(await refusals(definitionWith(withField(list)))).toEqual([
      `Invalid ${field}.items.x-kubernetes-validations[0].rule`,
    ])
  })

  test('is optional for a rule that says so, and only for one that uses it', async () => {
    expect(await refusalsOf({ rule: '!oldSelf.hasValue() || self.size > 1', optionalOldSelf: true })).toEqual(
      [],
    )
    expect(await refusalsOf({ rule: 'self.size > 1', optionalOldSelf: true })).toEqual([
      `Invalid ${field}.x-kubernetes-validations[0].optionalOldSelf`,
    ])
  })
})

test('rules of whole objects see the name, the kind and the version', async () => {
  const rule = 'self.metadata.name != "" && self.kind != "" && self.apiVersion != ""'
  expect(await refusals(definitionWith(withRoot({ 'x-kubernetes-validations': [{ rule }] })))).toEqual([])
  const labels = { rule: 'self.metadata.labels.size() > 0' }
  expect(await refusals(definitionWith(withRoot({ 'x-kubernetes-validations': [labels] })))).toEqual([
    `Invalid ${at}.x-kubernetes-validations[0].rule`,
  ])
})

test('rules are not compiled for a schema with other faults', async () => {
  const schema = { ...ruled({ rule: 'no' }), uniqueItems: true }
  expect(await refusals(definitionWith(withField(schema)))).toEqual([`Forbidden ${field}.uniqueItems`])
})
