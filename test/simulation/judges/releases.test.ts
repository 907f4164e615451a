import { expect, test } from 'vitest'
import type { RecordChange } from '../history.ts'
import { gadgets } from '../kinds.ts'
import type { ServedRelease } from '../world/world.ts'
import { judgeAvailability } from './availability.ts'
import { judgeReads } from './reads.ts'
import { judgeReleases } from './releases.ts'
import { judgeUniqueValues } from './values.ts'
import { commit, get, history, refusal, responded, write } from './written.ts'

type Parts = Parameters<typeof history>[0]

const ofValues = (parts: Parts) => judgeUniqueValues(history(parts)).map(({ message }) => message)
const ofReads = (parts: Parts) => judgeReads(history(parts)).map(({ message }) => message)
const ofEnd = (parts: Parts) => judgeReleases(history(parts)).map(({ message }) => message)

const spec = { email: 'x' }
/** The judge learns from calls which kinds have unique values. */
const calls = [write([1, responded(2, 200)], 'update', 'a')]

function record(
  revision: number,
  uniqueness: RecordChange['uniqueness'],
  stores = 'v1',
  mayStore: readonly string[] = [stores],
): RecordChange {
  return {
    revision,
    at: 10 * revision,
    resource: 'sim.example.com/gadgets',
    uniqueness,
    stores,
    mayStore,
    isLate: false,
  }
}

function serving(release: number, from = 0, until = Number.POSITIVE_INFINITY): ServedRelease {
  return { server: 0, release, from, until }
}

test('objects may have one value as long as it need not be unique, and one of them holds it afterwards', () => {
  const records = [record(1, 'none'), record(4, 'recomputing'), record(7, 'in force')]
  const both = [
    { ...commit(2, 'a', { spec }), holds: [] },
    { ...commit(3, 'b', { spec }), holds: [] },
  ]
  const held = (name: string) => ({ ...commit(5, name, { spec }), holds: ['x'] })
  expect(ofValues({ calls, records, commits: [...both, held('a')] })).toEqual([])
  const ofYounger = [expect.stringMatching(/a does not hold its value x at 7/)]
  expect(ofValues({ calls, records, commits: [...both, held('b')] })).toEqual(ofYounger)
  expect(ofValues({ calls, records, commits: both })).toEqual(ofYounger)
  const lost = [held('a'), { ...commit(8, 'a', { spec }), holds: [] }]
  expect(ofValues({ calls, records, commits: [...both, ...lost] })).toEqual([
    'a has at 8 no longer its value x',
  ])
  const changed = [...both, held('a'), { ...commit(8, 'b'), holds: [] }]
  const again = { ...commit(9, 'b', { spec }), holds: [] }
  expect(ofValues({ calls, records, commits: [...changed, again] })).toEqual([
    expect.stringMatching(/b has at 9 got the value x without holding it/),
  ])
  expect(
    ofValues({ calls, records, commits: [...both, held('a'), commit(6, 'c', { spec: { email: 'y' } })] }),
  ).toEqual([expect.stringMatching(/c has at 6 got the value y while unique values were computed/)])
})

test('a version is not found only on a server that may have a release without it', () => {
  const call = { ...get([10, refusal(20, 404, 'NotFound')], 'a'), resource: { ...gadgets, version: 'v2' } }
  const commits = [commit(0, 'a')]
  expect(ofReads({ calls: [call], commits, served: [serving(0, 0, 15), serving(1, 12)] })).toEqual([])
  expect(ofReads({ calls: [call], commits, served: [serving(0, 0, 5), serving(1, 2)] })).toEqual([
    expect.stringMatching(/did not find a, which existed all the time/),
  ])
})

test('in the end each server serves the last release, and objects are stored in one version', () => {
  const done = {
    lastRelease: 2,
    served: [serving(0, 0, 10), serving(2, 5)],
    records: [record(1, 'in force'), record(2, 'in force', 'v2')],
    commits: [{ ...commit(3, 'a'), storedIn: 'v2' }],
  }
  expect(ofEnd(done)).toEqual([])
  expect(ofEnd({ ...done, served: [serving(0), serving(2, 5)] })).toEqual([
    'server 0 serves release 0 and 2 instead of 2',
  ])
  expect(ofEnd({ ...done, records: [record(2, 'in force', 'v2', ['v2', 'v1'])] })).toEqual([
    expect.stringMatching(/may be stored in v2 and v1 instead of v2/),
  ])
  expect(
    ofEnd({
      ...done,
      lastRelease: 1,
      served: [serving(1)],
      records: [record(1, 'none', 'v2'), record(2, 'none')],
      commits: [],
    }),
  ).toEqual(['objects of sim.example.com/gadgets are stored in v1 again'])
  expect(ofEnd({ ...done, commits: [{ ...commit(3, 'a'), storedIn: 'v1' }] })).toEqual([
    'a is stored in v1 instead of v2',
  ])
})

test('where nothing goes wrong, only the reload of a server refuses requests', () => {
  const ofCalm = (parts: Parts) => judgeAvailability(history({ isCalm: true, ...parts }))
  const refused = get([1_000, refusal(1_010, 503, 'ServiceUnavailable')], 'a')
  const records = [record(0, 'in force')]
  const served = [serving(0, 0, 900), serving(1, 850)]
  expect(ofCalm({ calls: [refused], records, served })).toEqual([])
  expect(ofCalm({ calls: [refused], records, served: [serving(0, 0, 800), serving(1, 750)] })).toHaveLength(1)
  expect(ofCalm({ calls: [refused], records, served: [{ ...serving(0), server: 1 }] })).toHaveLength(1)
  expect(ofCalm({ served: [serving(0, 0, 9_000), serving(1, 850)] })).toEqual([
    expect.objectContaining({ message: 'server 0 reloaded for 8150 ms' }),
  ])
})

test('a server refuses writes while its unique indexes are not in force, and what it cannot read', () => {
  const ofCalm = (parts: Parts) =>
    judgeAvailability(history({ isCalm: true, served: [serving(0)], ...parts }))
  const outcome = refusal(1_010, 503, 'ServiceUnavailable')
  const [read, wrote] = [get([1_000, outcome], 'a'), write([1_000, outcome], 'update', 'a')]
  for (const records of [[record(1, 'none')], [record(1, 'recomputing'), record(101, 'in force')]])
    expect(ofCalm({ calls: [read, wrote], records })).toHaveLength(1)
  expect(ofCalm({ calls: [read, wrote], records: [record(1, 'none'), record(99, 'in force')] })).toHaveLength(
    2,
  )
  expect(ofCalm({ calls: [read, wrote], records: [record(1, 'in force', 'v2')] })).toEqual([])
})
