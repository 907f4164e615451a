import { describe, expect, test } from 'vitest'
import { compileJsonPath } from './json-path.ts'

const object = {
  metadata: { name: 'a', annotations: { 'example.com/note': 'noted' } },
  spec: {
    email: 'a@example.com',
    'full-name': 'Ada',
    nothing: null,
    ports: [
      { name: 'http', port: 80, open: true },
      { name: 'https', port: 443 },
    ],
    limits: { cpu: '2', memory: '1Gi' },
    names: ['x', 'y'],
  },
  status: {
    conditions: [
      { type: 'Synced', status: 'False' },
      { type: 'Ready', status: 'True', reason: 'Done' },
    ],
  },
}

describe('a path', () => {
  test.each<[string, unknown]>([
    ['.spec.email', 'a@example.com'],
    ['.spec.full-name', 'Ada'],
    [".spec['email']", 'a@example.com'],
    ['.metadata.annotations.example\\.com/note', 'noted'],
    [".metadata.annotations['example\\.com/note']", 'noted'],
    ['.spec.ports[0].name', 'http'],
    ['.spec.ports[-1].name', 'https'],
    ['.spec.ports[2].name', undefined],
    ['.spec.ports[-3].name', undefined],
    ['.spec.ports[*].port', 80],
    ['.spec.ports[*].open', true],
    ['.spec.limits.*', '2'],
    ['.status.conditions[?(@.type=="Ready")].status', 'True'],
    [".status.conditions[?(@.type=='Ready')].status", 'True'],
    ['.status.conditions[?( @.type == "Ready" )].status', 'True'],
    ['.status.conditions[?(@.type!="Synced")].type', 'Ready'],
    ['.status.conditions[?(@.reason)].type', 'Ready'],
    ['.status.conditions[?(@.type==@.status)].type', undefined],
    ['.spec.ports[?(@.port>80)].name', 'https'],
    ['.spec.ports[?(@.port>=80)].name', 'http'],
    ['.spec.ports[?(@.port<443)].name', 'http'],
    ['.spec.ports[?(@.port<=79)].name', undefined],
    ['.spec.ports[?(@.open==true)].name', 'http'],
    ['.spec.ports[?(@.port=="80")].name', undefined],
    ['.spec.ports[?(@.name>"http")].name', 'https'],
    ['.spec.names[?(@=="y")]', 'y'],
    ['.spec.nothing', null],
    ['.spec.nothing.more', undefined],
    ['.spec.missing.more', undefined],
    ['.spec.email.more', undefined],
    ['.spec.limits[0]', undefined],
    ['.spec.constructor', undefined],
  ])('%s leads to %j', (path, value) => {
    expect(compileJsonPath(path)(object)).toEqual(value)
  })

  test.each<[string, string]>([
    ['', 'it must start with a dot'],
    ['spec.email', 'it must start with a dot'],
    ['.', 'unexpected "."'],
    ['.spec..email', 'recursive descent (..) is not supported'],
    ['..email', 'recursive descent (..) is not supported'],
    ['.spec.ports[0:2]', 'slices are not supported'],
    ['.spec.ports[0,1]', 'unions are not supported'],
    [".spec['a','b']", 'unions are not supported'],
    [".metadata.annotations['example.com/note']", 'must be written as \\.'],
    ['.spec["email"]', 'unexpected "[\\"email\\"]"'],
    ['.spec.ports[', 'unexpected "["'],
    ['.spec.ports[?(@.port==)]', 'a filter compares @ with'],
    ['.spec.ports[?(@.port==80]', 'a filter must end with )]'],
    ['.spec.ports[?(@.name=~"h.*")]', 'a filter must end with )]'],
    ['.spec.{email}', 'unexpected ".{email}"'],
    ['.spec.email extra', 'unexpected " extra"'],
  ])('%j is refused: %s', (path, problem) => {
    expect(() => compileJsonPath(path)).toThrow(SyntaxError)
    expect(() => compileJsonPath(path)).toThrow(problem)
  })
})
