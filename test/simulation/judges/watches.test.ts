import { expect, test } from 'vitest'
import { judgeWatches } from './watches.ts'
import { bookmark, commit, history, message, objectAt, responded, watch, write } from './written.ts'

const commits = [
  commit(1, 'a', { color: 'red' }),
  commit(2, 'b', { color: 'red' }),
  commit(3, 'a', { color: 'blue' }),
  commit(4, 'b', 'deleted'),
  commit(5, 'p'),
]
const [a1, b2, a3] = commits.map(({ object }) => object)
const goneB = objectAt(4, 'b', { color: 'red' })

const says = (...args: Parameters<typeof watch>) =>
  judgeWatches(history({ watches: [watch(...args)], commits })).map(({ message }) =>
    message.replace(/^watch \d+ of \S+ /, ''),
  )
const added = message(15, 'ADDED', a1)
const all = [message(21, 'ADDED', b2), message(31, 'MODIFIED', a3), message(41, 'DELETED', goneB)]

test('a watch that sends every change once, in order, is right', () => {
  expect(says(undefined, [added, bookmark(16, 1, true), ...all, bookmark(60, 5)])).toEqual([])
  expect(says(1, [...all, bookmark(60, 5)])).toEqual([])
})

test('objects that begin or cease to match are added and deleted', () => {
  const red = { selection: { color: 'red' } }
  const gone = message(31, 'DELETED', objectAt(3, 'a', { color: 'red' }))
  expect(says(1, [message(21, 'ADDED', b2), gone, message(41, 'DELETED', goneB)], red)).toEqual([])
  expect(says(1, all, red)).toEqual(['sent MODIFIED a of 3, which should be DELETED'])
})

test('a lost change is noticed at the next change or bookmark', () => {
  const [first, , third] = all
  if (first === undefined || third === undefined) throw new Error('three messages')
  expect(says(1, [first, third])).toEqual(['never sent MODIFIED a of 3'])
  expect(says(1, [first, bookmark(60, 5)])).toEqual([
    'never sent MODIFIED a of 3',
    'never sent DELETED b of 4',
  ])
  // Nobody can know yet whether it comes.
  expect(says(1, [first])).toEqual([])
})

test('a change must not be sent twice, late, early, altered or invented', () => {
  const [first, second] = all
  if (first === undefined || second === undefined) throw new Error('two messages')
  expect(says(1, [first, first])).toEqual(['sent ADDED b of 2 after version 2'])
  expect(says(1, [first, second, first])).toEqual(['sent ADDED b of 2 after version 3'])
  expect(says(1, [{ ...first, at: 19 }])).toEqual(['sent ADDED b of 2 before it was committed'])
  expect(says(2, [message(31, 'MODIFIED', objectAt(3, 'a'))])).toEqual([expect.stringMatching(/instead of/)])
  expect(says(4, [message(50, 'ADDED', objectAt(9, 'c'))])).toEqual([
    expect.stringMatching(/no change that it selects/),
  ])
  expect(says(4, [message(50, 'ADDED', objectAt(5, 'p'))])).toEqual([
    expect.stringMatching(/no change that it selects/),
  ])
})

test('a bookmark must not go back, nor be sent before the changes up to it', () => {
  expect(says(3, [bookmark(40, 2)])).toEqual(['sent a bookmark of 2 after version 3'])
  expect(says(1, [bookmark(60, 2), ...all])).toEqual([
    'never sent ADDED b of 2',
    'sent ADDED b of 2 after version 2',
  ])
})

test('a watch begins with the whole state, and not an old one', () => {
  expect(says(undefined, [added, bookmark(30, 2, true)])).toEqual(['began at 2 without b of 2'])
  expect(says(undefined, [added, added, bookmark(16, 1, true)])).toHaveLength(1)
  expect(says(undefined, [added, bookmark(16, 1)])).toEqual([
    expect.stringMatching(/before the end of the initial/),
  ])
  const begun = watch(undefined, [added, bookmark(36, 1, true)], { at: 35 })
  const calls = [write([20, responded(25, 200, b2)], 'update', 'b')]
  expect(judgeWatches(history({ watches: [begun], commits, calls }))).toEqual([
    expect.objectContaining({ message: expect.stringMatching(/began at 1, although 2 was known before/) }),
  ])
})

test('a watch expires only when its changes are compacted', () => {
  const expired = watch(2, [message(50, 'ERROR', { code: 410 })])
  expect(
    judgeWatches(history({ watches: [expired], commits, compactions: [{ at: 45, revision: 3 }] })),
  ).toEqual([])
  expect(
    judgeWatches(history({ watches: [expired], commits, compactions: [{ at: 55, revision: 3 }] })),
  ).toHaveLength(1)
})
