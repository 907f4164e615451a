import { expect, test } from 'vitest'
import type { Commit } from '../history.ts'
import { bindings, reader, roles } from '../kinds.ts'
import { judgeAccess } from './access.ts'
import { bookmark, get, history, refusal, responded, watch } from './written.ts'

const token = reader
const at = (time: number, resource: typeof roles, exists = true): Commit => ({
  revision: time,
  at: time,
  resource: `${resource.group}/${resource.plural}`,
  namespace: undefined,
  name: reader,
  object: exists ? { metadata: { name: reader } } : undefined,
})
/** The reader may read from 2,000 to 3,000. */
const commits = [at(1_000, roles), at(2_000, bindings), at(3_000, bindings, false)]

const says = (from: number, outcome: ReturnType<typeof responded>, isStale = true) =>
  judgeAccess(history({ calls: [{ ...get([from, outcome], 'a', isStale), token }], commits })).map(
    ({ message }) => message,
  )

test('a user reads while a role allows it, and from memory for as long as a server may be behind', () => {
  expect(says(1_990, responded(2_010, 200))).toEqual([])
  expect(says(22_900, responded(22_950, 200))).toEqual([])
  expect(says(23_100, responded(23_200, 200))).toEqual([expect.stringMatching(/no role allowed it/)])
  expect(says(1_000, responded(1_990, 200))).toEqual([expect.stringMatching(/no role allowed it/)])
})

test('a read that catches up goes by the roles after it', () => {
  expect(says(2_500, responded(2_600, 200), false)).toEqual([])
  expect(says(2_950, responded(3_100, 200), false)).toEqual([])
  expect(says(3_050, responded(3_100, 200), false)).toEqual([expect.stringMatching(/no role allowed it/)])
})

test('a user is refused only without a role', () => {
  expect(says(2_500, refusal(2_600, 403, 'Forbidden'))).toEqual([])
  const long = [at(1_000, roles), at(2_000, bindings)]
  const calls = [{ ...get([22_100, refusal(22_200, 403, 'Forbidden')], 'a'), token }]
  expect(judgeAccess(history({ calls, commits: long }))).toHaveLength(1)
  expect(says(2_500, refusal(2_600, 401, 'Unauthorized'))).toHaveLength(1)
})

test('an open watch ends with the role', () => {
  const end = { at: 24_000, byClient: true }
  const open = (time: number) =>
    history({ watches: [watch(0, [bookmark(time, 1)], { token, end })], commits })
  expect(judgeAccess(open(2_500))).toEqual([])
  expect(judgeAccess(open(23_500))).toEqual([
    expect.objectContaining({ message: expect.stringMatching(/no role/) }),
  ])
})
