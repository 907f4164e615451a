import { expect, it } from 'vitest'
import { matchesEntityTag } from './entity-tag.ts'

it.each(['"a"', 'W/"a"', '*', ' "b" ,\t"a"', '"b","a"'])('If-None-Match: %s has the tag', header => {
  expect(matchesEntityTag(header, '"a"')).toBe(true)
})

it.each(['', 'a', '"A"', '"a', 'w/"a"', '"b", "c"', '"b" "a"'])(
  'If-None-Match: %s does not have the tag',
  header => {
    expect(matchesEntityTag(header, '"a"')).toBe(false)
  },
)
