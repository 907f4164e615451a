import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseMediaType } from './media-type.ts'

describe('a media type', () => {
  it.each([
    ['application/json', 'application/json', {}],
    [' Application/JSON ; Charset="UTF-8" ', 'application/json', { charset: 'UTF-8' }],
    ['application/yaml;', 'application/yaml', {}],
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

  it.each([undefined, '', 'json', '/', 'a/', 'a b/c', 'é/x'])('%j is undefined', header => {
    expect(parseMediaType(header)).toBeUndefined()
  })

  it('never throws', () => {
    const header = fc.string({ unit: fc.constantFrom(...'ab/*;,=q0.1" \\\t'), maxLength: 40 })
    fc.assert(fc.property(header, text => void parseMediaType(text)))
  })
})
