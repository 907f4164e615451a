import { expect, test } from 'vitest'
import { judgeConvergence } from './convergence.ts'
import { judgeLife } from './life.ts'
import { judgeUniqueValues } from './values.ts'
import { bookmark, commit, history, refusal, responded, watch, write } from './written.ts'

type Parts = Parameters<typeof history>[0]

const ofValues = (parts: Parts) => judgeUniqueValues(history(parts)).map(({ message }) => message)
const ofLife = (parts: Parts) => judgeLife(history(parts)).map(({ message }) => message)
const ofEnd = (parts: Parts) => judgeConvergence(history(parts)).map(({ message }) => message)

const spec = { email: 'x' }
/** The judge learns from calls which kinds have unique values. */
const anyCall = write([1, responded(2, 200)], 'update', 'a')

test('a unique value passes from one object to the next, and is never held by two', () => {
  const passed = [
    commit(1, 'a', { spec }),
    commit(2, 'a'),
    commit(3, 'b', { spec }),
    commit(4, 'b', 'deleted'),
    commit(5, 'a', { spec }),
  ]
  expect(ofValues({ calls: [anyCall], commits: passed })).toEqual([])
  const doubled = [commit(1, 'a', { spec }), commit(2, 'b', { spec })]
  expect(ofValues({ calls: [anyCall], commits: doubled })).toEqual([
    expect.stringMatching(/b has at 2 the value x of/),
  ])
})

test('a duplicate is refused only while another object has the value', () => {
  const body = { reason: 'AlreadyExists', details: { causes: [{ reason: 'FieldValueDuplicate' }] } }
  const refused = (from: number, to: number) => [
    write([from, responded(to, 409, body)], 'create', 'b', { spec }),
  ]
  const commits = [commit(1, 'a', { spec }), commit(3, 'a', 'deleted')]
  expect(ofValues({ calls: refused(25, 35), commits })).toEqual([])
  expect(ofValues({ calls: refused(35, 40), commits })).toEqual([expect.stringMatching(/which nobody had/)])
  expect(ofValues({ calls: refused(2, 8), commits })).toEqual([expect.stringMatching(/which nobody had/)])
})

const held = { finalizers: ['f'] }
const dying = { ...held, deleting: true, generation: 2 }
const asked = write([1, responded(30, 200)], 'delete', 'a')

test('a deletion waits for its finalizers', () => {
  const commits = [commit(1, 'a', held), commit(2, 'a', dying), commit(3, 'a', 'deleted')]
  const calls = [asked, write([25, responded(35, 200)], 'finalize', 'a')]
  expect(ofLife({ calls, commits })).toEqual([])
  expect(ofLife({ calls: [asked], commits })).toEqual([expect.stringMatching(/finalizers that nobody took/)])
  expect(ofLife({ calls, commits: [commit(1, 'a', held), commit(3, 'a', 'deleted')] })).toEqual([
    expect.stringMatching(/went with its finalizers/),
  ])
})

test('an object keeps its identity, its deletion and its generation', () => {
  const after = (second: Parameters<typeof commit>[2]) =>
    ofLife({ calls: [asked], commits: [commit(1, 'a', dying), commit(2, 'a', second)] })
  expect(after(dying)).toEqual([])
  expect(after({ ...dying, uid: 'other' })).toEqual([expect.stringMatching(/another uid/)])
  expect(after({ ...held, generation: 2 })).toEqual([expect.stringMatching(/another deletionTimestamp/)])
  expect(after({ ...dying, finalizers: ['f', 'g'] })).toEqual([expect.stringMatching(/got a finalizer/)])
  expect(after({ ...dying, finalizers: [] })).toEqual([expect.stringMatching(/no finalizer left/)])
  expect(after({ ...dying, generation: 3 })).toEqual([expect.stringMatching(/the generation 3 after 2/)])
  expect(after({ ...dying, spec })).toEqual([expect.stringMatching(/the generation 2 after 2/)])
})

test('an object is deleted by a client, or when all of its owners are gone', () => {
  const owner = { name: 'a', uid: 'uid-a' }
  const dependent = [commit(2, 'p', { owner }), commit(4, 'p', 'deleted')]
  const gone = [commit(1, 'a'), commit(3, 'a', 'deleted')]
  const all = [...gone, ...dependent].toSorted((x, y) => x.revision - y.revision)
  expect(ofLife({ calls: [asked], commits: all })).toEqual([])
  const waiting = commit(3, 'a', { ...dying, finalizers: ['foregroundDeletion'] })
  expect(
    ofLife({
      calls: [asked],
      commits: [commit(1, 'a'), commit(2, 'p', { owner }), waiting, commit(4, 'p', 'deleted')],
    }),
  ).toEqual([])
  expect(ofLife({ commits: [commit(1, 'a'), ...dependent] })).toEqual([
    expect.stringMatching(/its owner a exists/),
  ])
  expect(ofLife({ commits: [commit(1, 'a'), commit(2, 'a', 'deleted')] })).toEqual([
    expect.stringMatching(/nobody asked/),
  ])
})

test('an owner that goes without its dependents leaves them', () => {
  const owner = { name: 'a', uid: 'uid-a' }
  const orphaning = commit(3, 'a', { deleting: true, generation: 2, finalizers: ['orphan'] })
  const gone = [orphaning, commit(4, 'a', 'deleted')]
  const deleted = commit(6, 'p', 'deleted')
  const early = [commit(1, 'a'), commit(2, 'p', { owner }), ...gone, deleted]
  expect(ofLife({ calls: [asked], commits: early })).toEqual([
    expect.stringMatching(/went without its dependents/),
  ])
  const late = [commit(1, 'a'), ...gone, commit(5, 'p', { owner }), deleted]
  expect(ofLife({ calls: [asked], commits: late })).toEqual([])
  const released = [
    ...early.slice(0, -1),
    commit(5, 'p'),
    commit(6, 'p', { owner }),
    commit(7, 'p', 'deleted'),
  ]
  expect(ofLife({ calls: [asked], commits: released })).toEqual([])
  const forced = write([31, responded(45, 200)], 'finalize', 'a')
  expect(ofLife({ calls: [asked, forced], commits: early })).toEqual([])
})

test('everything that was asked ends, and everybody learns of the last change', () => {
  const commits = [commit(1, 'a'), commit(2, 'b')]
  expect(ofEnd({ commits, watches: [watch(0, [bookmark(30, 2)])] })).toEqual([])
  expect(ofEnd({ commits, watches: [watch(0, [bookmark(30, 1)])] })).toEqual([
    expect.stringMatching(/has not sent ADDED b of 2/),
  ])
  expect(ofEnd({ commits, watches: [watch(undefined, [])] })).toHaveLength(1)
  expect(ofEnd({ commits, watches: [watch(0, [], { end: { at: 9, byClient: true } })] })).toEqual([])
  expect(
    ofEnd({ commits, watches: [watch(0, [bookmark(30, 2)], { end: { at: 9, byClient: false } })] }),
  ).toHaveLength(1)
  expect(ofEnd({ calls: [write([1, { type: 'pending' }], 'update', 'a')] })).toEqual([
    expect.stringMatching(/no response/),
  ])
  const failed = (at: number) =>
    ofEnd({ calls: [write([at, refusal(at, 503, '')], 'update', 'a')], healedAt: 50 })
  expect(failed(40)).toEqual([])
  // The last requests are sent at the moment when everything is to be well.
  expect(failed(50)).toEqual([expect.stringMatching(/failed after the faults/)])
})

test('unique indexes that were put in force late stay, and writes are refused', () => {
  const record = {
    revision: 1,
    at: 10,
    resource: 'sim.example.com/gadgets',
    uniqueness: 'recomputing',
    stores: 'v1',
    mayStore: ['v1'],
    isLate: true,
  } as const
  const calls = [write([50, refusal(60, 503, '')], 'update', 'a')]
  const parts = { calls, healedAt: 50 }
  expect(ofEnd({ ...parts, records: [record] })).toEqual([])
  expect(ofEnd({ ...parts, records: [{ ...record, isLate: false }] })).toEqual([
    expect.stringMatching(/failed after the faults/),
    expect.stringMatching(/still being computed/),
  ])
})

test('no dependent stays when its owners are gone', () => {
  const owner = { name: 'a', uid: 'uid-a' }
  const commits = [commit(1, 'a'), commit(2, 'p', { owner })]
  expect(ofEnd({ commits })).toEqual([])
  expect(ofEnd({ commits: [...commits, commit(3, 'a', 'deleted')] })).toEqual([
    expect.stringMatching(/p is still there/),
  ])
})

test('a deleted namespace ends with everything in it', () => {
  const namespace = (revision: number, rest: object) => ({
    ...commit(revision, 'default'),
    resource: '/namespaces',
    object: { metadata: { name: 'default', ...rest } },
  })
  const part = commit(2, 'p')
  expect(ofEnd({ commits: [namespace(1, {}), part] })).toEqual([])
  const ending = namespace(3, { deletionTimestamp: 'then' })
  expect(ofEnd({ commits: [namespace(1, {}), part, ending] })).toEqual([])
  expect(ofEnd({ commits: [ending], endedAt: 11_000 })).toEqual([])
  expect(ofEnd({ commits: [ending], endedAt: 13_000 })).toEqual([
    expect.stringMatching(/is empty and does not end/),
  ])
  const others = [{ ...namespace(1, {}), name: 'other' }, part]
  expect(ofEnd({ commits: others })).toEqual([expect.stringMatching(/which is gone/)])
})
