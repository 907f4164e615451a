import { expect, it } from 'vitest'
import { echo, echoedCharacters, echoName, quote } from './echo.ts'

it('a long text is cut to the limit, on one line', () => {
  const shown = echo(`a\r\n\t b${'c'.repeat(1_000_000)}`)
  expect(shown).toMatch(/^a bc+…$/)
  expect(shown.length).toBeLessThanOrEqual(echoedCharacters)
  expect(echo('d'.repeat(echoedCharacters))).toBe('d'.repeat(echoedCharacters))
})

it('a cut text has no half of a surrogate pair', () => {
  expect(echo('😀'.repeat(100))).toMatch(/^(?:😀)+…$/u)
  expect(echo(`a${'😀'.repeat(100)}`)).toMatch(/^a(?:😀)+…$/u)
})

it('a text that can be a name is repeated whole, and a longer one is cut', () => {
  expect(echoName('n'.repeat(253))).toBe('n'.repeat(253))
  expect(echoName('n'.repeat(254))).toHaveLength(echoedCharacters)
})

it('a value is quoted as JSON', () => {
  expect(quote('say "hi"')).toBe('"say \\"hi\\""')
  expect(quote(['a', 1])).toBe('["a",1]')
  expect(quote(undefined)).toBe('undefined')
  expect(quote('q'.repeat(1000))).toHaveLength(echoedCharacters + 2)
})
