import { expect, test } from 'vitest'
import { type Call, type Commit, titleOf } from '../history.ts'
import { definitionOfGears, definitions, gears } from '../kinds.ts'
import { judgeConvergence } from './convergence.ts'
import { judgeDefinitions, judgeEndOfDefinitions } from './definitions.ts'
import { judgeReads } from './reads.ts'
import { commit, get, history, refusal, responded, watch, write } from './written.ts'

type Parts = Parameters<typeof history>[0]

const ofDefinitions = (parts: Parts) => judgeDefinitions(history(parts)).map(({ message }) => message)
const ofReads = (parts: Parts) => judgeReads(history(parts)).map(({ message }) => message)
const ofEnd = (parts: Parts) => judgeEndOfDefinitions(history(parts)).map(({ message }) => message)

const established = { status: { conditions: [{ type: 'Established', status: 'True' }] } }

function definition(revision: number, object: Commit['object']): Commit {
  return { ...commit(revision, definitionOfGears), resource: titleOf(definitions), object }
}

function gear(revision: number, name: string, content?: 'deleted'): Commit {
  return { ...commit(revision, name, content), resource: titleOf(gears) }
}

const ending = { metadata: { deletionTimestamp: 'then' }, ...established }

test('objects go before their definition, with their values', () => {
  const commits = [
    definition(1, established),
    gear(2, 'r1'),
    gear(4, 'r1', 'deleted'),
    definition(5, undefined),
  ]
  expect(ofDefinitions({ commits })).toEqual([])
  expect(ofDefinitions({ commits: [...commits, gear(6, 'r2')] })).toEqual([
    'r2 is there at 6 without a definition',
  ])
  expect(ofDefinitions({ commits, definitionEnds: [{ revision: 5, at: 50, keys: ['unique/x'] }] })).toEqual([
    'the definition went at 5 and has left unique/x',
  ])
})

test('a kind is found once its definition was seen established', () => {
  const call = { ...get([100, refusal(110, 404, 'NotFound')], 'r1'), resource: gears }
  const commits = [definition(1, {}), gear(2, 'r1'), definition(3, established)]
  expect(ofReads({ calls: [call], commits })).toEqual([])
  expect(ofReads({ calls: [look(3), call], commits })).toContainEqual(
    expect.stringMatching(/did not find r1/),
  )
})

test('objects are refused while a definition is deleted, and until the next one is established', () => {
  const call = { ...write([100, refusal(110, 403, 'Forbidden')], 'create', 'r1'), resource: gears }
  const deleted = [definition(1, established), definition(2, ending), definition(3, undefined)]
  const again = [...deleted, definition(4, {})]
  for (const commits of [deleted.slice(0, 2), deleted, again])
    expect(ofDefinitions({ calls: [call], commits })).toEqual([])
  const refused = [expect.stringMatching(/refused with 403/)]
  expect(ofDefinitions({ calls: [look(1), call], commits: deleted.slice(0, 1) })).toEqual(refused)
  const commits = [...again, definition(5, established)]
  expect(ofDefinitions({ calls: [look(4), call], commits })).toEqual([])
  expect(ofDefinitions({ calls: [look(5), call], commits })).toEqual(refused)
})

test('a definition that is deleted ends when its last object has gone', () => {
  const commits = [definition(1, established), gear(2, 'r1'), definition(3, ending)]
  expect(ofEnd({ commits })).toEqual([])
  expect(ofEnd({ commits: [...commits, gear(4, 'r1', 'deleted')] })).toHaveLength(1)
  const gone = [...commits, gear(4, 'r1', 'deleted'), definition(5, undefined)]
  const watches = [watch(1, [], { resource: gears })]
  expect(ofEnd({ commits: gone, watches })).toEqual([
    expect.stringMatching(/goes on although its definition/),
  ])
  expect(
    ofEnd({ commits: gone, watches: [watch(1, [], { resource: gears, end: { at: 60, byClient: false } })] }),
  ).toEqual([])
})

test('dependents go with the definition of their owners where nothing goes wrong', () => {
  const owned = (revision: number) => ({
    ...commit(revision, 'p1', { owner: { name: 'r1', uid: 'uid-r1' } }),
    at: 39_000,
  })
  const commits = [
    definition(1, established),
    gear(2, 'r1'),
    owned(3),
    { ...definition(4, ending), at: 40_000 },
    { ...gear(5, 'r1', 'deleted'), at: 40_001 },
    { ...definition(6, undefined), at: 40_002 },
  ]
  const left = (parts: Parts) =>
    judgeConvergence(history({ calls: [look(1)], endedAt: 50_000, ...parts })).map(({ message }) => message)
  const stays = [expect.stringMatching(/p1 is still there although its owners are gone/)]
  expect(left({ commits, isCalm: true })).toEqual(stays)
  // A collector that was killed does not know of the deletion.
  expect(left({ commits, isCalm: false })).toEqual([])
  const changed = [...commits, { ...owned(7), at: 41_000 }]
  expect(left({ commits: changed, isCalm: true })).toEqual([])
  const young = [{ ...definition(1, established), at: 30_000 }, ...commits.slice(1)]
  expect(left({ commits: young, calls: [look(1, 30_050)], isCalm: true })).toEqual([])
  const served = [0, 1].map(release => ({ server: 0, release, from: 0, until: 50_000 }))
  expect(left({ commits, served, isCalm: true })).not.toContainEqual(stays[0])
})

/** A client sees the definition as it was at a revision. */
function look(revision: number, at = 50): Call {
  const metadata = { name: definitionOfGears, resourceVersion: String(revision) }
  const outcome = responded(at + 10, 200, { ...established, metadata })
  return { ...get([at, outcome], definitionOfGears), resource: definitions }
}
