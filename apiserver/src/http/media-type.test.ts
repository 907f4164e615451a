import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { negotiates, parseAccept, parseMediaType, preferredType } from './media-type.ts'

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
  ])('%j is read whatever its case and spaces', (header, type, parameters) => {
    const mediaType = parseMediaType(header)
    expect(mediaType?.type).toBe(type)
    expect(Object.fromEntries(mediaType?.parameters ?? [])).toEqual(parameters)
  })

  it.each([undefined, '', 'json', '/', 'a/', 'a b/c', 'é/x'])('%j is none', header => {
    expect(parseMediaType(header)).toBeUndefined()
  })
})

describe('what an Accept header takes', () => {
  it.each([
    [undefined, true],
    ['*/*', true],
    ['application/json', true],
    ['APPLICATION/JSON; charset=utf-8', true],
    ['application/*', true],
    ['text/html, application/xhtml+xml, */*;q=0.8', true],
    ['application/json;as=Table;v=v1;g=meta.k8s.io, application/json', true],
    ['application/json;as=Table;v=v1;g=meta.k8s.io;q=0, */*', true],
    ['text/html;x="a,application/json"', false],
    ['application/json;as=Table;v=v1;g=meta.k8s.io', false],
    ['application/json;q=0', false],
    ['application/json;q=0, */*', false],
    ['application/*;q=0, */*;q=1', false],
    ['application/json;q=0.001, */*;q=0', true],
    ['application/json;q=nonsense', false],
    ['application/json;q=1.1', false],
    ['text/html', false],
    ['application/vnd.kubernetes.protobuf', false],
    ['', false],
    [',;,', false],
  ])('%j: plain JSON %j', (header, taken) => {
    expect(negotiates(header, 'application/json')).toBe(taken)
  })

  it.each([
    [undefined, 'application/json'],
    ['*/*', 'application/json'],
    ['text/event-stream', 'text/event-stream'],
    ['text/event-stream, */*', 'text/event-stream'],
    ['*/*;q=0.5, text/event-stream;q=0.4', 'application/json'],
    ['application/json, text/event-stream', 'application/json'],
    ['application/json;q=0.9, text/event-stream', 'text/event-stream'],
    ['text/*', 'text/event-stream'],
    ['text/html', undefined],
  ])('%j: of JSON and an event stream best %j', (header, best) => {
    expect(preferredType(header, ['application/json', 'text/event-stream'])).toBe(best)
  })

  it('is ordered by quality, then as given, parameters kept', () => {
    const ranges = parseAccept('a/b;q=0.3, c/d;as="x,y", broken, e/*, f/g;q=0')
    expect(ranges.map(({ type, quality }) => [type, quality])).toEqual([
      ['c/d', 1],
      ['e/*', 1],
      ['a/b', 0.3],
      ['f/g', 0],
    ])
    expect(ranges[0]?.parameters.get('as')).toBe('x,y')
  })

  it('never fails, whatever is sent', () => {
    const header = fc.string({ unit: fc.constantFrom(...'ab/*;,=q0.1" \\\t'), maxLength: 40 })
    fc.assert(
      fc.property(header, text => {
        expect(negotiates(text, 'application/json')).toBeTypeOf('boolean')
        parseMediaType(text)
      }),
    )
  })
})
