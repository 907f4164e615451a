import { expect, test } from 'vitest'
import { followPath } from './schema-path.ts'

const schema = {
  type: 'object',
  properties: {
    limits: { type: 'object', properties: { 'max.size': { type: 'integer' }, "it's": { type: 'string' } } },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
    any: { type: 'object', additionalProperties: true },
    list: { type: 'array', items: { type: 'string' } },
  },
}

test.each<[string, string[]]>([
  ['.limits', ['limits']],
  ["['limits']", ['limits']],
  [".limits['max.size']", ['limits', 'max.size']],
  [".limits['it\\'s']", ['limits', "it's"]],
  ['.labels.color', ['labels', 'color']],
  ['.any.other', ['any', 'other']],
])('the path %s leads to a field', (path, steps) => {
  expect(followPath(path, schema)).toMatchObject({ steps })
})

test('the field has its schema', () => {
  expect(followPath(".limits['max.size']", schema)).toMatchObject({ schema: { type: 'integer' } })
  expect(followPath('.any.other', schema)).toMatchObject({ schema: {} })
})

test.each([
  ['limits', 'must be a path'],
  ['.', 'must be a path'],
  ['..limits', 'must be a path'],
  ['.limits[', 'must be a path'],
  [".limits['max.size'", 'must be a path'],
  ['.limits[max]', 'must be a path'],
  ['.list[0]', 'must be a path'],
  ['.size', 'leads to "size", which the schema does not declare'],
  ['.constructor', 'leads to "constructor"'],
  ['.any.other.name', 'leads to "name"'],
  ['.list.a', 'leads to "a"'],
])('the path %s leads to none: it %s', (path, why) => {
  expect(followPath(path, schema)).toContain(why)
})

test('names in brackets are refused where they are not allowed', () => {
  expect(followPath("['limits']", schema, { brackets: false })).toContain(
    'must be a path such as .spec.color',
  )
})
