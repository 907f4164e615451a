import { expect, it } from 'vitest'
import { countReads } from '../../../test/support/rooms.ts'
import { findUnknownFields } from './unknown-fields.ts'

const schema = {
  type: 'object',
  properties: { parts: { type: 'array', items: { type: 'object', properties: {} } } },
}

it('finds no more unknown fields than it reports', () => {
  const parts = countReads(Array.from({ length: 3_000 }, () => ({ unknown: 1 })))
  const found = findUnknownFields(schema, { parts: parts.list }, ['spec'], 3)
  expect(found).toEqual(['spec.parts[0].unknown', 'spec.parts[1].unknown', 'spec.parts[2].unknown'])
  expect(parts.reads()).toBeLessThan(20)
})

it('does not search if nothing may be reported', () => {
  expect(findUnknownFields(schema, { unknown: 1 }, ['spec'], 0)).toEqual([])
})
