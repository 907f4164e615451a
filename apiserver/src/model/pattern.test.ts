import fc from 'fast-check'
import { RE2JS } from 're2js'
import { describe, expect, it } from 'vitest'
import { Pattern, PatternError, patternDefaults } from './pattern.ts'

class Spent extends Error {}

/** Counts steps up to a limit. */
function counter(limit = Number.POSITIVE_INFINITY) {
  return {
    spent: 0,
    spend(steps: number) {
      this.spent += steps
      if (this.spent > limit) throw new Spent()
    },
  }
}

function test(source: string, text: string): boolean {
  return new Pattern(source).test(text, counter())
}

/** A text on which the pattern leads to a new state at nearly every character. */
function noise(length: number): string {
  let seed = 12345
  const next = () => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return (seed >> 8) % 2 === 0 ? 'a' : 'b'
  }
  return Array.from({ length }, next).join('')
}

describe('a pattern', () => {
  it.each<[string, string[], string[]]>([
    ['a', ['a', 'xay'], ['', 'b']],
    ['', ['', 'a'], []],
    ['^$', [''], ['a', '\n']],
    ['^a+$', ['a', 'aaa'], ['', 'ab', 'a\n']],
    ['^a|b$', ['ax', 'xb'], ['xa', 'bx']],
    ['(?m)^a$', ['a', 'b\na\nb'], ['ba', 'ab']],
    ['(?i)^straße$', ['STRAßE', 'straße'], ['strasse']],
    ['\\bb\\b', ['b', 'a b c'], ['ab', 'bc']],
    ['\\Bb', ['ab'], ['b', 'a b']],
    ['^.$', ['a', '😀'], ['', '\n', 'ab']],
    ['^[[:alpha:]]\\d{2,3}$', ['a12', 'Z123'], ['a1', 'a1234', 'ä12']],
    ['^\\pL\\p{Greek}$', ['äΩ'], ['äa']],
    ['^\\x{1F600}$', ['😀'], ['😁']],
  ])('%s matches as in RE2', (source, good, bad) => {
    for (const text of good) expect([text, test(source, text)]).toEqual([text, true])
    for (const text of bad) expect([text, test(source, text)]).toEqual([text, false])
  })

  it.each(['^[a-z0-9]+$', '[0-9]$', '^$|a'])('%s takes few steps for each of many short texts', source => {
    const pattern = new Pattern(source)
    const steps = counter(patternDefaults.steps)
    for (let n = 0; n < 100_000; n++) pattern.test('a', steps)
    expect(steps.spent).toBeLessThan(5 * 100_000)
  })

  it('matches the same texts as re2js', () => {
    const atom = fc.constantFrom(
      'a',
      'b',
      '.',
      '[ab]',
      '[^a]',
      '\\w',
      '\\b',
      '\\B',
      '^',
      '$',
      '\\n',
      'ä',
      '😀',
    )
    const { source } = fc.letrec<{ source: string }>(tie => ({
      source: fc.oneof(
        { depthSize: 'small' },
        atom,
        fc.tuple(tie('source'), tie('source')).map(([a, b]) => a + b),
        fc.tuple(tie('source'), tie('source')).map(([a, b]) => `(${a}|${b})`),
        fc
          .tuple(tie('source'), fc.constantFrom('*', '+', '?', '*?', '{0,3}', '{2}'))
          .map(([a, times]) => `(?:${a})${times}`),
      ),
    }))
    const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '\n', 'ä', '😀', '\ud800') })
    fc.assert(
      fc.property(source, fc.array(text), (pattern, values) => {
        const [ours, theirs] = [new Pattern(pattern), RE2JS.compile(pattern)]
        for (const value of values) expect(ours.test(value, counter())).toBe(theirs.test(value))
      }),
      { numRuns: 500 },
    )
  })

  it.each([
    ['(?=a)b', 'invalid or unsupported Perl syntax: `(?=`'],
    ['(?<!a)b', 'invalid named capture: `(?<!a)b`'],
    ['(a)\\1', 'invalid escape sequence: `\\1`'],
    ['[', 'missing closing ]: `[`'],
    ['a{1001}', 'invalid repeat count: `{1001}`'],
    ['((a{1000}){1000})', 'invalid repeat count: `{1000}`'],
    ['([a-z]?[a-z]?[a-z]?){1000}', 'it compiles to 8002 instructions, at most 5000 are allowed'],
  ])('%s is refused with the reason: %s', (source, why) => {
    expect(() => new Pattern(source)).toThrow(PatternError)
    expect(() => new Pattern(source)).toThrow(why)
  })

  it.each([
    ['^(([a-z0-9]+-?)+\\.?)+$', `${'a'.repeat(1_000_000)}!`],
    ['(x+x+)+y', 'x'.repeat(1_000_000)],
    ['^(a|a)*$', `${'a'.repeat(1_000_000)}b`],
    ['^https?://[^\\s?#]+$', `https://${'a'.repeat(1_000_000)} `],
    ['^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$', 'a-b.'.repeat(250_000)],
  ])('%s takes about one step for each character', (source, text) => {
    const steps = counter()
    expect(new Pattern(source).test(text, steps)).toBe(false)
    expect(steps.spent).toBeLessThan(1.05 * text.length)
  })

  it('takes no steps for what comes after a match', () => {
    const steps = counter()
    expect(new Pattern('^https?://').test(`https://${'a'.repeat(1_000_000)}`, steps)).toBe(true)
    expect(steps.spent).toBeLessThan(10_000)
  })

  it.each(['(a|b)*a(a|b){90}[cd]$', '.{0,900}[ac].{0,90}[cd]$', '(?:a?){900}a{900}[cd]$'])(
    '%s, which leads to ever new states, ends when its steps are spent',
    source => {
      const text = `${noise(100_000)}!`
      const limit = patternDefaults.steps
      const steps = counter(limit)
      expect(() => new Pattern(source).test(text, steps)).toThrow(Spent)
      expect(steps.spent).toBeLessThan(1.1 * limit)
    },
  )

  it('matches correctly when its states need more room than they may take', () => {
    const pattern = new Pattern('(a|b)*a(a|b){14}$')
    const text = noise(20_000)
    for (const end of [`a${noise(14)}`, `b${noise(14)}`])
      expect(pattern.test(text + end, counter())).toBe(end.startsWith('a'))
  })
})
