import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { mutations } from './mutations.ts'

test.each(mutations)('the text of a mutation is there exactly once: $name', ({ file, from, to }) => {
  const source = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')
  expect(source.split(from)).toHaveLength(2)
  expect(to).not.toBe(from)
})

test('mutations have names of their own', () => {
  expect(new Set(mutations.map(({ name }) => name)).size).toBe(mutations.length)
})
