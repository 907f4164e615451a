import { expect, test } from 'vitest'
import type { Commit, History } from '../history.ts'
import { bindings, reader, roles, stranger } from '../kinds.ts'
import { judgeAccess } from './access.ts'
import { bookmark, get, history, refusal, responded, watch } from './written.ts'

const token = 'old'
const at = (revision: number, resource: typeof roles): Commit => ({
  revision,
  at: revision,
  resource: `${resource.group}/${resource.plural}`,
  namespace: undefined,
  name: reader,
  object: { metadata: { name: reader } },
})
/** The reader may read all the time. Its token is rotated at 30,000, and given to another user at 60,000. */
const commits = [at(1, roles), at(2, bindings)]
const tokens = [
  { at: 0, tokens: [{ token, user: reader }] },
  { at: 30_000, tokens: [{ token: 'new', user: reader }] },
  { at: 60_000, tokens: [{ token, user: stranger }] },
]
const say = (parts: Partial<History>) =>
  judgeAccess(history({ commits, tokens, healedAt: 100_000, endedAt: 110_000, ...parts })).map(
    ({ message }) => message,
  )
const says = (from: number, outcome: ReturnType<typeof responded>, parts: Partial<History> = {}) =>
  say({ calls: [{ ...get([from, outcome], 'a'), token }], ...parts })
const unauthorized = (time: number) => refusal(time, 401, 'Unauthorized')

test('a token is taken while it is valid, and until a server has to have noticed that it is not', () => {
  expect(says(20_000, responded(20_100, 200))).toEqual([])
  expect(says(30_900, responded(31_000, 200))).toEqual([])
  expect(says(31_200, responded(31_300, 200))).toEqual([expect.stringMatching(/not the reader's/)])
  expect(says(31_200, refusal(31_300, 404, 'NotFound'))).toEqual([expect.stringMatching(/not the reader's/)])
})

test('a server that stood still may take a token for longer', () => {
  const pauses = [{ server: 0, at: 29_000, until: 40_000 }]
  expect(says(35_000, responded(40_050, 200), { pauses })).toEqual([])
  expect(says(41_500, responded(41_600, 200), { pauses })).toHaveLength(1)
  expect(
    says(35_000, responded(40_050, 200), { pauses: [{ server: 1, at: 29_000, until: 40_000 }] }),
  ).toHaveLength(1)
})

test('a token that is valid is not refused', () => {
  expect(says(20_000, unauthorized(20_100))).toEqual([expect.stringMatching(/although it was valid/)])
  expect(says(40_000, unauthorized(40_100))).toEqual([])
  expect(says(60_100, unauthorized(60_200))).toEqual([])
  expect(says(62_000, unauthorized(62_100))).toEqual([expect.stringMatching(/although it was valid/)])
})

test("another user's token gives that user's permissions", () => {
  expect(says(62_000, refusal(62_100, 403, 'Forbidden'))).toEqual([])
  expect(says(62_000, responded(62_100, 200))).toEqual([expect.stringMatching(/not the reader's/)])
  expect(says(25_000, refusal(25_100, 403, 'Forbidden'))).toEqual([
    expect.stringMatching(/a role allowed it/),
  ])
})

test('a watch ends with its token', () => {
  const closed = { at: 60_000, byClient: true }
  const sent = (time: number) => say({ watches: [watch(0, [bookmark(time, 1)], { token, end: closed })] })
  expect(sent(40_000)).toEqual([])
  expect(sent(52_000)).toEqual([expect.stringMatching(/the token was no longer valid/)])
  expect(say({ watches: [watch(0, [], { token })] })).toEqual([expect.stringMatching(/is still open/)])
  expect(say({ watches: [watch(0, [], { token, end: closed })] })).toEqual([])
  expect(say({ watches: [watch(0, [], { token: 'new', at: 70_000 })], tokens: tokens.slice(0, 2) })).toEqual(
    [],
  )
})
