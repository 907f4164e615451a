import { describe, expect, test } from 'vitest'
import { expectLinear } from '../../../test/support/growth.ts'
import {
  checkDnsLabel,
  checkLabelKey,
  checkLabelValue,
  checkName,
  checkSubdomain,
  isReservedDomain,
  labelPrefix,
} from './names.ts'

const table = [
  {
    what: 'a name',
    check: checkName,
    good: ['a', '0', 'a-b', 'a--b', '9z', 'a'.repeat(253)],
    bad: ['', '-a', 'a-', 'A', 'a.b', 'a_b', 'a b', 'ä', 'a/b', 'a\n', '\na', 'a'.repeat(254), '..', '😀'],
  },
  {
    what: 'a sub-domain',
    check: checkSubdomain,
    good: ['a', 'a.b', 'demo.example.com', 'a-b.c', 'a'.repeat(253)],
    bad: ['', '.', 'a.', '.a', 'a..b', '-a.b', 'a-.b', 'A.b', 'a_b', 'a/b', 'a b', 'a.b\n', 'a'.repeat(254)],
  },
  {
    what: 'a DNS label',
    check: checkDnsLabel,
    good: ['v1', 'gadgets', 'a-b', 'a'.repeat(63)],
    bad: ['', 'V1', 'a.b', '-a', 'a-', 'a'.repeat(64)],
  },
  {
    what: 'a label key',
    check: checkLabelKey,
    good: [
      'app',
      'App',
      'a.b',
      'a_b',
      'a-b',
      '1',
      'example.com/app',
      'a/b',
      'k'.repeat(63),
      `${'p'.repeat(253)}/k`,
    ],
    bad: [
      '',
      '/',
      'a/',
      '/a',
      'a/b/c',
      '-a',
      'a-',
      '.a',
      'a.',
      '_a',
      'a b',
      'ä',
      'A.com/k',
      'a..b/k',
      'k\n',
      'k'.repeat(64),
      `${'p'.repeat(254)}/k`,
    ],
  },
  {
    what: 'a label value',
    check: checkLabelValue,
    good: ['', 'a', 'A', '1', 'a.b', 'a_b', 'a-b', 'v'.repeat(63)],
    bad: ['-a', 'a-', '.', '_', ' ', 'a b', 'a/b', 'ä', 'a\n', 'v'.repeat(64)],
  },
]

describe.each(table)('$what', ({ check, good, bad }) => {
  test.each(good)('may be %j', text => {
    expect(check(text)).toBeUndefined()
  })

  test.each(bad)('may not be %j, and the sentence says why', text => {
    expect(check(text)).toMatch(/must|at most/)
  })

  test.each(['a', '-', 'a.', 'a/', 'a-'])('of many %j is rejected in linear time', part => {
    for (const end of ['', '/k']) {
      expectLinear(length => expect(check(part.repeat(length / part.length) + end)).toBeDefined())
    }
  })
})

test('the prefix of a label key is the part before the slash', () => {
  expect([labelPrefix('app'), labelPrefix('example.com/app'), labelPrefix('/app')]).toEqual([
    undefined,
    'example.com',
    '',
  ])
})

test.each([
  ['', true],
  ['setpoint.dev', true],
  ['rbac.setpoint.dev', true],
  ['a.b.setpoint.dev', true],
  ['notsetpoint.dev', false],
  ['setpoint.dev.example.com', false],
  ['example.com', false],
])('the domain %j is reserved: %s', (domain, reserved) => {
  expect(isReservedDomain(domain, 'setpoint.dev')).toBe(reserved)
})
