import { fullFormats } from 'ajv-formats/dist/formats.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isUrl } from './url-format.ts'

describe('the format url', () => {
  it.each([
    ['http://example.com', true],
    ['https://a:b@c@example.com:8080/x@y?z#d', true],
    ['ftp://203.0.113.7/', true],
    ['http://ex-ample.ümläut.example/ä', true],
    ['http://localhost', false],
    ['http://10.0.0.1', false],
    ['http://192.168.1.1/', false],
    ['http://a@', false],
    ['http://@example.com', false],
    ['http://example.com/a b', false],
    ['http://example.com/a\u2028', false],
    ['mailto:a@example.com', false],
  ])('of %j is %j', (text, expected) => {
    expect(isUrl(text)).toBe(expected)
  })

  it('accepts what ajv-formats accepts, except hosts with blanks', () => {
    const { url } = fullFormats
    if (!(url instanceof RegExp)) throw new Error('ajv-formats defines the format in another way')
    const part = fc.constantFrom(
      ...'a1.:@/-? ü\u2028'.split(''),
      '10.0.0.1',
      '8.8.8.8',
      'example.com',
      ':80',
      '😀',
    )
    const text = fc.tuple(fc.constantFrom('http://', 'ftp://', ''), fc.array(part, { maxLength: 12 }))
    fc.assert(
      fc.property(text, ([scheme, parts]) => {
        const value = scheme + parts.join('')
        expect([value, isUrl(value)]).toEqual([value, url.test(value) && !/\s/u.test(value)])
      }),
      { numRuns: 3000 },
    )
  })

  it.each([
    [`http://${':@'.repeat(500_000)}`],
    [`http://${'a@'.repeat(500_000)}`],
    [`http://${'::'.repeat(500_000)}a`],
    [`http://${'a.bc/@'.repeat(200_000)} `],
    [`http://${'a-'.repeat(500_000)}`],
    [`http://${'a.'.repeat(500_000)}`],
    [`http://${'1.1.1.1@'.repeat(150_000)}`],
  ])('takes linear time for hostile texts', text => {
    expect(isUrl(text)).toBe(false)
  })
})
