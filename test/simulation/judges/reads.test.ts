import { expect, test } from 'vitest'
import { judgeReads } from './reads.ts'
import {
  commit,
  get,
  history,
  list,
  listBody,
  objectAt,
  pages,
  refusal,
  responded,
  write,
} from './written.ts'

const says = (parts: Parameters<typeof history>[0]) =>
  judgeReads(history(parts)).map(({ message }) => message)

const commits = [
  commit(1, 'a'),
  commit(2, 'b', { color: 'red' }),
  commit(3, 'a', { spec: { size: 1 } }),
  commit(4, 'b', 'deleted'),
]
const [a1, b2, a3] = commits.map(({ object }) => object)
/** It tells everybody of version 3 at the time 35. */
const known = write([25, responded(35, 200, a3)], 'update', 'a')

test('reads of a state between request and response are right', () => {
  const calls = [
    get([5, responded(50, 200, a1)], 'a'),
    get([5, responded(50, 200, a3)], 'a'),
    get([5, refusal(50, 404, 'NotFound')], 'b'),
    list([5, responded(50, 200, listBody(2, [b2, a1]))]),
    list([36, responded(50, 200, listBody(3, [b2]))], { color: 'red' }),
    known,
    get([36, responded(50, 200, b2)], 'b'),
    get([36, responded(50, 200, a1)], 'a', true),
  ]
  expect(says({ calls, commits })).toEqual([])
})

test('a get must not be stale, from the future or invented', () => {
  const get36 = (body: unknown, to = 50) =>
    says({ calls: [known, get([36, responded(to, 200, body)], 'a')], commits })
  expect(get36(a1)).toEqual([expect.stringMatching(/version 1 of a, which was not its state/)])
  expect(get36(objectAt(9, 'a'))).toEqual([expect.stringMatching(/which never was/)])
  expect(get36(objectAt(3, 'a'))).toEqual([expect.stringMatching(/but stored was/)])
  expect(says({ calls: [get([5, responded(12, 200, a3)], 'a')], commits })).not.toEqual([])
  expect(says({ calls: [known, get([36, refusal(50, 404, 'NotFound')], 'a')], commits })).not.toEqual([])
})

test('a list must be fresh, complete and of one state', () => {
  const list36 = (version: number, items: unknown[]) =>
    says({ calls: [known, list([36, responded(50, 200, listBody(version, items))])], commits })
  expect(list36(3, [b2, a3])).toEqual([])
  expect(list36(2, [b2, a1])).toEqual([expect.stringMatching(/without 3, which was known/)])
  expect(list36(3, [a3])).toEqual([expect.stringMatching(/lacks b of version 2/)])
  expect(list36(4, [a3, b2])).toEqual([expect.stringMatching(/has b of version 2 as item 1, stored is none/)])
  expect(list36(3, [b2, a1])).toHaveLength(2)
})

test('a list of an earlier state must be of that state', () => {
  const exact = (version: number, items: unknown[]) => {
    const listed = list([36, responded(50, 200, listBody(version, items))])
    return says({ calls: [known, { ...listed, stale: true, exact: 2 }], commits })
  }
  expect(exact(2, [b2, a1])).toEqual([])
  expect(exact(2, [b2, a3])).toHaveLength(2)
  expect(exact(3, [b2, a3])).toEqual([expect.stringMatching(/version 3 instead of 2/)])
})

test('pages must be of one state, in order, to the end', () => {
  const first = [5, responded(30, 200, listBody(2, [a1], 'more')), 0] as const
  const page = (version: number, items: unknown[], to = 60) =>
    says({ calls: pages(first, [36, responded(to, 200, listBody(version, items)), 1]), commits })
  expect(page(2, [b2])).toEqual([])
  expect(page(4, [])).toEqual([expect.stringMatching(/page of version 4, the first page is of 2/)])
  expect(page(2, [])).toEqual([expect.stringMatching(/ended after 1 of 2/)])
  expect(page(2, [a1])).toEqual([expect.stringMatching(/has a of version 1 as item 0, stored is b of 2/)])
})

test('only a later page may expire', () => {
  const first = [5, responded(30, 200, listBody(2, [a1], 'more')), 0] as const
  expect(says({ calls: pages(first, [36, refusal(60, 410, 'Expired'), 1]), commits })).toEqual([])
  expect(says({ calls: pages([5, refusal(30, 410, 'Expired'), 0]), commits })).toEqual([
    expect.stringMatching(/refused with 410/),
  ])
})
