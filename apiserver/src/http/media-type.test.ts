import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseMediaType } from './media-type.ts'

describe('a media type', () => {
  it.each([
    ['application/json', 'application/json', {}],
    [' Application/JSON ; Charset="UTF-8" ', 'application/json', { charset: 'UTF-8' }],
    ['application/yaml;', 'application/yaml', {}],
    ['application/com.example@v1+protobuf', 'application/com.example@v1+protobuf', {}],
    ['application/merge-patch+json;;x=1', 'application/merge-patch+json', { x: '1' }],
    [
      'application/json;as=Table;v=v1;g=meta.k8s.io',
      'application/json',
      { as: 'Table', v: 'v1', g: 'meta.k8s.io' },
    ],
  ])('%j is parsed whatever its case and spaces', (header, type, parameters) => {
    const mediaType = parseMediaType(header)
    expect(mediaType?.type).toBe(type)
    expect(Object.fromEntries(mediaType?.parameters ?? [])).toEqual(parameters)
  })

  it.each([
    ['a quoted value with escapes', 'a/b;x="1\\"\\\\;";y=2', { x: '1"\\;', y: '2' }],
    ['a value that ends with blanks', 'a/b;x=1 \t ;y=2', { x: '1', y: '2' }],
    ['an empty value', 'a/b;x=;y=""', { y: '' }],
    ['the first of equal names', 'a/b;x=1;X=2', { x: '1' }],
    ['text after a quoted value', 'a/b;x="1"2;y=3', { x: '1', y: '3' }],
    ['a name that is not a token', 'a/b;x y=1;z=2', { z: '2' }],
  ])('the parameters of a media type may have %s', (_what, header, parameters) => {
    expect(Object.fromEntries(parseMediaType(header)?.parameters ?? [])).toEqual(parameters)
  })

  it.each([undefined, '', 'json', '/', 'a/', 'a b/c', 'é/x'])('%j is undefined', header => {
    expect(parseMediaType(header)).toBeUndefined()
  })

  it('never throws', () => {
    const header = fc.string({ unit: fc.constantFrom(...'ab/*;,=q0.1" \\\t'), maxLength: 40 })
    fc.assert(fc.property(header, text => void parseMediaType(text)))
  })
})
