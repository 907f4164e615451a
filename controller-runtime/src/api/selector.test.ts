import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { expectLinear } from '../../../test/support/growth.ts'
import {
  type ComparisonOperator,
  escapeSelectorValue,
  formatRequirements,
  matches,
  matchesAll,
  parseFieldSelector,
  parseLabelSelector,
  type Requirement,
  SelectorError,
  selectorLimits,
} from './selector.ts'

const is = (key: string, ...values: string[]): Requirement => ({ key, operator: 'in', values })
const isNot = (key: string, ...values: string[]): Requirement => ({ key, operator: 'notin', values })
const compare = (key: string, operator: ComparisonOperator, bound: string): Requirement => ({
  key,
  operator,
  values: [bound],
})
const above = (key: string, bound: string): Requirement => ({ key, operator: 'gt', values: [bound] })
const below = (key: string, bound: string): Requirement => ({ key, operator: 'lt', values: [bound] })
const has = (key: string): Requirement => ({ key, operator: 'exists', values: [] })
const hasNot = (key: string): Requirement => ({ key, operator: 'absent', values: [] })

/** Parses a text that may be refused. */
function tried(parse: (text: string) => unknown, text: string): void {
  try {
    parse(text)
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error
  }
}

/** The error message. */
function refusal(parse: (...texts: string[]) => unknown, ...texts: string[]): string {
  try {
    parse(...texts)
  } catch (error) {
    if (error instanceof SelectorError) return error.message
    throw error
  }
  throw new Error(`not refused: ${texts.join(' & ').slice(0, 100)}`)
}

describe('a label selector', () => {
  test.each<[string, Requirement[]]>([
    ['', []],
    ['  ', []],
    ['k=v', [is('k', 'v')]],
    ['k==v', [is('k', 'v')]],
    ['k!=v', [isNot('k', 'v')]],
    ['k', [has('k')]],
    ['!k', [hasNot('k')]],
    ['! k', [hasNot('k')]],
    ['k in (a,b)', [is('k', 'a', 'b')]],
    ['k in(a)', [is('k', 'a')]],
    ['k notin (a,b)', [isNot('k', 'a', 'b')]],
    ['k in (a,b,a)', [is('k', 'a', 'b')]],
    ['k in ()', [is('k', '')]],
    ['k notin ( )', [isNot('k', '')]],
    ['k in (a,)', [is('k', 'a', '')]],
    ['k in (,a)', [is('k', '', 'a')]],
    ['k in (a,,b, )', [is('k', 'a', '', 'b')]],
    [' k  =  v , m ', [is('k', 'v'), has('m')]],
    ['k in ( a , b ),m=n', [is('k', 'a', 'b'), is('m', 'n')]],
    ['k=', [is('k', '')]],
    ['k!=', [isNot('k', '')]],
    ['example.com/app.kind_x=A-b.c_9', [is('example.com/app.kind_x', 'A-b.c_9')]],
    ['in in (in)', [is('in', 'in')]],
    ['in', [has('in')]],
    ['notin notin (a)', [isNot('notin', 'a')]],
    ['inn', [has('inn')]],
    ['k=in', [is('k', 'in')]],
    ['a=1,a=2', [is('a', '1'), is('a', '2')]],
  ])('%j is read as it is meant', (text, requirements) => {
    expect(parseLabelSelector(text)).toEqual(requirements)
  })

  test('repeated parameters are joined by AND', () => {
    expect(parseLabelSelector('a=1,b', '', '!c')).toEqual([is('a', '1'), has('b'), hasNot('c')])
  })

  test.each([
    [',', '"": empty term, is there an extra comma?'],
    ['k=v,', '"": empty term, is there an extra comma?'],
    [',k=v', '"": empty term, is there an extra comma?'],
    ['k=v,,m', '"": empty term, is there an extra comma?'],
    ['=v', '"=v": the key is empty'],
    ['!', '"!": the key is empty'],
    ['!!k', '"!!k": the key is empty'],
    ['!=v', '"!=v": the key is empty'],
    ['()', '"()": the key is empty'],
    ['in (a)', '"in (a)": expected an operator after "in"'],
    ['!k=v', '"!k=v": unexpected text after the key in \'!key\''],
    ['!k in (a)', '"!k in (a)": unexpected text after the key in \'!key\''],
    ['!k v', '"!k v": unexpected text after the key in \'!key\''],
    ['k v', '"k v": expected an operator after "k"'],
    ['k in a', '"k in a": in needs a list in brackets, such as (a,b)'],
    ['k not in (a)', '"k not in (a)": expected an operator after "k"'],
    ['k IN (a)', '"k IN (a)": expected an operator after "k"'],
    ['kin (a)', '"kin (a)": expected an operator after "kin"'],
    ['k in', '"k in": in needs a list in brackets, such as (a,b)'],
    ['k in (a', '"k in (a": missing closing bracket'],
    ['k in (a,b', '"k in (a,b": missing closing bracket'],
    ['k in a)', '"k in a)": unexpected closing bracket'],
    ['k in ((a))', '"k in ((a))": brackets cannot be nested'],
    ['k in (a) b', '"k in (a) b": expected exactly one list in brackets, such as (a,b)'],
    ['k in (a)\\)', '"k in (a)\\\\)": a label value cannot have ")"'],
    ['k in (a,b)\\)', '"k in (a,b)\\\\)": a label value cannot have ")"'],
    ['k in (a)(b)', '"k in (a)(b)": a label value cannot have ")"'],
    ['k=(a)', '"k=(a)": a list of label values needs in or notin, such as key in (a,b)'],
    ['k=(a,b)', '"k=(a,b)": a list of label values needs in or notin, such as key in (a,b)'],
    ['k===v', '"k===v": a label value cannot have "="'],
    ['k=!v', '"k=!v": a label value cannot have "!"'],
    ['k=a=b', '"k=a=b": a label value cannot have "="'],
    ['k <= 1', '"k <= 1": labels compare with < and > only'],
    ['a,k>=1', '"k>=1": labels compare with < and > only'],
    ['k<', '"k<": labels compare with an integer only'],
    ['k<1.0', '"k<1.0": labels compare with an integer only'],
    ['k>-1', '"k>-1": labels compare with an integer only'],
    ['a,k>b', '"k>b": labels compare with an integer only'],
    ['k>9223372036854775808', '"k>9223372036854775808": labels compare with an integer only'],
    ['k<(1)', '"k<(1)": a list of label values needs in or notin, such as key in (a,b)'],
    ['!k<1', '"!k<1": unexpected text after the key in \'!key\''],
    ['k=\u00a0v', '"k=\u00a0v": white space must be spaces, tabs or line breaks'],
    ['\u2003', '"\u2003": white space must be spaces, tabs or line breaks'],
    ['k=\\', '"k=\\\\": unexpected backslash at the end'],
    ['k=a\\b', '"k=a\\\\b": "b" cannot be escaped'],
  ])('%j is rejected with the term and the reason', (text, message) => {
    expect(refusal(parseLabelSelector, text)).toBe(message)
  })

  test.each([
    'k=>1',
    'k=a<1',
    '-k<1',
    '-k=v',
    'k-=v',
    'a/b/c=v',
    '/k=v',
    'a/=v',
    'UPPER.com/k=v',
    'k=-v',
    'k=v w',
    'k=ä',
    'ä=v',
    'k=a\\,b',
    'k=\\ v',
    '%j violates the rules of label keys and values',
    `k=${'v'.repeat(64)}`,
    `${'k'.repeat(64)}=v`,
    `${'p'.repeat(254)}/k=v`,
    '__proto__=x',
  ])('%j breaks the rules of label keys and values', text => {
    expect(refusal(parseLabelSelector, text)).toMatch(/label|slash/)
  })
})

describe('a field selector', () => {
  test.each<[string, Requirement[]]>([
    ['f=v', [is('f', 'v')]],
    ['f==v', [is('f', 'v')]],
    ['f!=v', [isNot('f', 'v')]],
    ['f=(a,b)', [is('f', 'a', 'b')]],
    ['f==(a,b)', [is('f', 'a', 'b')]],
    ['f=(a)', [is('f', 'a')]],
    ['f!=(a,b)', [isNot('f', 'a', 'b')]],
    ['f in (a,b)', [is('f', 'a', 'b')]],
    ['f notin (a)', [isNot('f', 'a')]],
    ['f=', [is('f', '')]],
    ['f!=', [isNot('f', '')]],
    ['metadata.labels=app\\=web', [is('metadata.labels', 'app=web')]],
    ['f=a\\,b', [is('f', 'a,b')]],
    ['f=\\(a\\)', [is('f', '(a)')]],
    ['f=\\!\\\\', [is('f', '!\\')]],
    ['f=(a\\,b,c\\)d)', [is('f', 'a,b', 'c)d')]],
    ['f=\\ v\\ ', [is('f', ' v ')]],
    ['f=  v w  ', [is('f', 'v w')]],
    ['f=01', [is('f', '01')]],
    ['f=ä😀', [is('f', 'ä😀')]],
    ['f in (in)', [is('f', 'in')]],
    ['f<v', [compare('f', '<', 'v')]],
    ['f<=v', [compare('f', '<=', 'v')]],
    ['f>v', [compare('f', '>', 'v')]],
    ['f>=v', [compare('f', '>=', 'v')]],
    [' f  <  v w , f >= \\ v', [compare('f', '<', 'v w'), compare('f', '>=', ' v')]],
    ['f<', [compare('f', '<', '')]],
    ['f>=a,f<b', [compare('f', '>=', 'a'), compare('f', '<', 'b')]],
    ['f<\\=v', [compare('f', '<', '=v')]],
    ['f<<v', [compare('f', '<', '<v')]],
    ['f<>v', [compare('f', '<', '>v')]],
    ['f>=\\(a\\,b\\)', [compare('f', '>=', '(a,b)')]],
    ['f<a<b', [compare('f', '<', 'a<b')]],
    // In a value, `<` and `>` stand for themselves, escaped or not.
    ['f=<v', [is('f', '<v')]],
    ['f=>v', [is('f', '>v')]],
    ['f=a<b', [is('f', 'a<b')]],
    ['f!=a>b', [isNot('f', 'a>b')]],
    ['f in (a<b,>)', [is('f', 'a<b', '>')]],
    ['f=\\<\\>', [is('f', '<>')]],
    [',', []],
    ['f=v,', [is('f', 'v')]],
    [', ,f=v,,g=w', [is('f', 'v'), is('g', 'w')]],
    ['f<\\<v', [compare('f', '<', '<v')]],
  ])('%j is read as it is meant', (text, requirements) => {
    expect(parseFieldSelector(text)).toEqual(requirements)
  })

  test.each([
    ['f', '"f": a field selector needs an operator and a value'],
    ['!f', '"!f": a field selector needs an operator and a value'],
    ['f=(a', '"f=(a": missing closing bracket'],
    ['f=a)', '"f=a)": unexpected closing bracket'],
    ['f=()', '"f=()": the list has an empty element'],
    ['f=(a,)', '"f=(a,)": the list has an empty element'],
    ['f in (,a)', '"f in (,a)": the list has an empty element'],
    ['f in (a,b)\\)', '"f in (a,b)\\\\)": ")" in a value must be escaped with a backslash'],
    ['f=(a)b', '"f=(a)b": expected exactly one list in brackets, such as (a,b)'],
    ['f=a(b)', '"f=a(b)": "(" in a value must be escaped with a backslash'],
    ['f=a=b', '"f=a=b": "=" in a value must be escaped with a backslash'],
    ['f=a!', '"f=a!": "!" in a value must be escaped with a backslash'],
    ['f<==v', '"f<==v": "=" in a value must be escaped with a backslash'],
    ['f<!v', '"f<!v": "!" in a value must be escaped with a backslash'],
    ['f<(a,b)', '"f<(a,b)": "(" in a value must be escaped with a backslash'],
    // The name of a field ends at the first `<` or `>`.
    ['a<b=c', '"a<b=c": "=" in a value must be escaped with a backslash'],
    ['f notin', '"f notin": notin needs a list in brackets, such as (a,b)'],
    ['f!<v', '"f!<v": expected an operator after "f"'],
    ['!f<v', '"!f<v": unexpected text after the key in \'!key\''],
    ['<v', '"<v": the key is empty'],
    ['f=a\\', '"f=a\\\\": unexpected backslash at the end'],
    ['=v', '"=v": the key is empty'],
  ])('%j is rejected with the term and the reason', (text, message) => {
    expect(refusal(parseFieldSelector, text)).toBe(message)
  })
})

describe('a selector is read in linear time', () => {
  test.each(['k=v,', 'k,', '(', '()', '\\', ',', '!', 'a-', 'a.', ' '])('that consists of many %j', part => {
    for (const [before, after] of [
      ['', ''],
      ['k=', ''],
      ['k', '=('],
      ['', '/k=v'],
    ]) {
      expectLinear(length => {
        const text = before + part.repeat((length - 6) / part.length) + after
        for (const parse of [parseLabelSelector, parseFieldSelector]) tried(parse, text)
      }, selectorLimits.bytes)
    }
  })
})

describe('a selector over the limits is rejected', () => {
  test.each([
    ['10,000 terms', Array.from({ length: 10_000 }, (_, i) => `k${i}=v`).join(',')],
    ['100 KiB', 'k'.repeat(100 * 1024)],
    ['60,000 spaces before nothing', `k${' '.repeat(60_000)}`.concat('=(')],
    ['60,000 opened brackets', '('.repeat(60_000)],
    ['60,000 backslashes', `k=${'\\'.repeat(60_001)}`],
    ['60,000 commas', ','.repeat(60_000)],
    ['60,000 exclamation marks', '!'.repeat(60_000)],
    ['a key of 60,000 characters', `${'a-'.repeat(30_000)}=v`],
    ['a value of 60,000 characters', `k=${'a-'.repeat(30_000)}`],
    ['a prefix of 60,000 characters', `${'a.'.repeat(30_000)}/k=v`],
  ])('%s', (_, text) => {
    expect(refusal(parseLabelSelector, text)).not.toBe('')
    expect(refusal(parseLabelSelector, text).length).toBeLessThan(400)
  })

  test('repetitions count together', () => {
    const texts = Array.from({ length: selectorLimits.terms + 1 }, (_, i) => `k${i}`)
    expect(parseLabelSelector(...texts.slice(1))).toHaveLength(selectorLimits.terms)
    expect(refusal(parseLabelSelector, ...texts)).toContain(`more than ${selectorLimits.terms} terms`)
  })

  test('a list of 2,500 values is parsed and matches like a short one', () => {
    const values = Array.from({ length: 2_500 }, (_, i) => `v${i}`)
    const [requirement] = parseFieldSelector(`f in (${values.join(',')})`)
    if (requirement === undefined) throw new Error('unexpected')
    expect(requirement.values).toEqual(values)
    let reads = 0
    const counted = new Proxy(requirement.values, {
      get(target, key) {
        reads++
        return Reflect.get(target, key)
      },
    })
    const tested = { ...requirement, values: counted }
    for (let i = 0; i < 1_000; i++) expect(matches(tested, [`w${i}`])).toBe(false)
    expect(matches(tested, ['x', 'v2499'])).toBe(true)
    expect(reads).toBeLessThan(10_000)
  })
})

describe('matching', () => {
  test.each<[Requirement, readonly string[], boolean]>([
    [is('k', 'a'), ['a'], true],
    [is('k', 'a'), ['b', 'a'], true],
    [is('k', 'a', 'b'), ['b'], true],
    [is('k', 'a'), ['b'], false],
    [is('k', 'a'), [], false],
    [is('k', ''), [], false],
    [is('k', ''), [''], true],
    [is('k', '1'), ['01'], false],
    [isNot('k', 'a'), [], true],
    [isNot('k', 'a'), ['b'], true],
    [isNot('k', 'a'), ['b', 'a'], false],
    [has('k'), [''], true],
    [has('k'), [], false],
    [hasNot('k'), [], true],
    [hasNot('k'), [''], false],
    [compare('k', '<', 'b'), ['a'], true],
    [compare('k', '<', 'b'), ['b'], false],
    [compare('k', '<=', 'b'), ['b'], true],
    [compare('k', '>', 'b'), ['b'], false],
    [compare('k', '>', 'b'), ['ba'], true],
    [compare('k', '>=', 'b'), ['b'], true],
    [compare('k', '<', '9'), ['10'], true],
    [compare('k', '<', 'b'), ['c', 'a'], true],
    [compare('k', '>', ''), [''], false],
    [compare('k', '>=', ''), [''], true],
    [compare('k', '>=', ''), [], false],
    [compare('k', '<=', 'z'), [], false],
    [below('k', '10'), ['9'], true],
    [below('k', '10'), ['10'], false],
    [above('k', '9'), ['010'], true],
    [above('k', '9'), ['9'], false],
    [above('k', '9'), [], false],
    [above('k', '9'), ['x'], false],
    [above('k', '9'), ['1e3'], false],
    [above('k', '9'), ['9223372036854775807'], true],
    [above('k', '9'), ['9223372036854775808'], false],
    // By code point, not by UTF-16 unit.
    [compare('k', '<', '\u{1f600}'), ['\u{ffff}'], true],
    [compare('k', '>', '\u{ffff}'), ['\u{1f600}'], true],
  ])('%j of %j is %s', (requirement, values, expected) => {
    expect(matches(requirement, values)).toBe(expected)
  })

  test('requires every requirement; an empty list matches everything', () => {
    const labels: Record<string, string[]> = { a: ['1'], b: ['2'] }
    const valuesOf = (key: string) => labels[key] ?? []
    expect(matchesAll([], valuesOf)).toBe(true)
    expect(matchesAll([is('a', '1'), is('b', '2')], valuesOf)).toBe(true)
    expect(matchesAll([is('a', '1'), is('b', '3')], valuesOf)).toBe(false)
  })

  test('labels compare as integers, whatever their zeros', () => {
    const integer = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n })
    const pair = fc.oneof(fc.tuple(integer, integer), fc.tuple(fc.bigInt(0n, 20n), fc.bigInt(0n, 20n)))
    fc.assert(
      fc.property(pair, fc.nat(3), ([value, bound], zeros) => {
        const label = ['0'.repeat(zeros) + value]
        expect(matches(above('k', String(bound)), label)).toBe(value > bound)
        expect(matches(below('k', String(bound)), label)).toBe(value < bound)
      }),
    )
  })

  test('notin is the exact negation of in', () => {
    const value = fc.nat(30).map(n => `v${n}`)
    fc.assert(
      fc.property(fc.uniqueArray(value, { minLength: 1 }), fc.array(value), (wanted, values) => {
        const expected = values.some(value => wanted.includes(value))
        expect(matches(is('k', ...wanted), values)).toBe(expected)
        expect(matches(isNot('k', ...wanted), values)).toBe(!expected)
      }),
    )
  })
})

describe('formatRequirements', () => {
  const anyValue = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc
      .array(fc.constantFrom(',', '(', ')', '=', '!', '<', '>', '\\', ' ', '\t', '\n', 'a', 'in'))
      .map(parts => parts.join('')),
  )
  /** An empty value cannot be an element of a field's list. */
  const fieldValues = fc.oneof(
    fc.uniqueArray(
      anyValue.filter(text => text !== ''),
      { minLength: 1, maxLength: 4 },
    ),
    fc.constant(['']),
  )
  const labelValue = fc.oneof(
    fc.stringMatching(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?$/),
    fc.constant(''),
  )
  const inOrNot = fc.constantFrom('in' as const, 'notin' as const)

  test('a field selector parses to the same requirements', () => {
    const key = fc.constantFrom('metadata.name', 'spec.n', 'in', 'notin')
    const requirement = fc.oneof(
      fc.record({ key, operator: inOrNot, values: fieldValues }),
      fc.record({
        key,
        operator: fc.constantFrom<ComparisonOperator[]>('<', '<=', '>', '>='),
        values: fc.tuple(anyValue),
      }),
    )
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 5 }), requirements => {
        expect(parseFieldSelector(formatRequirements(requirements))).toEqual(requirements)
      }),
      { numRuns: 2000 },
    )
  })

  test('a label selector parses to the same requirements', () => {
    const key = fc.constantFrom('app', 'in', 'notin', 'example.com/tier', 'a.b_c-d')
    const requirement = fc.oneof(
      fc.record({
        key,
        operator: inOrNot,
        values: fc.uniqueArray(labelValue, { minLength: 1, maxLength: 4 }),
      }),
      fc.record({
        key,
        operator: fc.constantFrom('exists' as const, 'absent' as const),
        values: fc.constant([]),
      }),
      fc.record({
        key,
        operator: fc.constantFrom('gt' as const, 'lt' as const),
        values: fc.tuple(fc.maxSafeNat().map(String)),
      }),
    )
    fc.assert(
      fc.property(fc.array(requirement, { maxLength: 5 }), requirements => {
        expect(parseLabelSelector(formatRequirements(requirements))).toEqual(requirements)
      }),
      { numRuns: 2000 },
    )
  })

  test('an escaped value parses as one value', () => {
    fc.assert(
      fc.property(anyValue, value => {
        expect(parseFieldSelector(`f=${escapeSelectorValue(value)}`)).toEqual([is('f', value)])
      }),
      { numRuns: 2000 },
    )
  })

  test('any text either parses or throws a SelectorError', () => {
    const text = fc.array(
      fc.constantFrom(
        'a',
        'k',
        ' ',
        ',',
        '(',
        ')',
        '=',
        '!',
        '<',
        '>',
        '\\',
        'in',
        'notin',
        ' in (',
        'é',
        '/',
      ),
      { maxLength: 12 },
    )
    fc.assert(
      fc.property(text, parts => {
        for (const parse of [parseLabelSelector, parseFieldSelector]) {
          try {
            const requirements = parse(parts.join(''))
            expect(parse(formatRequirements(requirements))).toEqual(requirements)
          } catch (error) {
            expect(error).toBeInstanceOf(SelectorError)
          }
        }
      }),
      { numRuns: 5000 },
    )
  })
})
