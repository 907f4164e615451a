import { expect, test } from 'vitest'
import { judgeWrites } from './writes.ts'
import { commit, history, objectAt, refusal, responded, write } from './written.ts'

const says = (parts: Parameters<typeof history>[0]) =>
  judgeWrites(history(parts)).map(({ message }) => message)

const spec = { size: 1 }
const created = commit(1, 'g', { mark: 'a', spec })
const creation = write([5, responded(15, 201, created.object)], 'create', 'g', { mark: 'a', spec })

test('writes that happened as they were acknowledged are right', () => {
  const updated = commit(3, 'g', { mark: 'b', spec: { size: 2 } })
  const calls = [
    creation,
    write([20, responded(35, 200, updated.object)], 'merge', 'g', {
      mark: 'b',
      spec: { size: 2 },
      version: 1,
    }),
    write([36, refusal(40, 409, 'Conflict')], 'update', 'g', { mark: 'c', version: 1 }),
    write([41, { type: 'unknown', at: 50 }], 'update', 'g', { mark: 'd' }),
    write([51, responded(65, 200, objectAt(6, 'g'))], 'delete', 'g'),
    write([70, refusal(75, 404, 'NotFound')], 'delete', 'g'),
  ]
  expect(says({ calls, commits: [created, updated, commit(6, 'g', 'deleted')] })).toEqual([])
})

test('an unknown outcome may have happened', () => {
  const calls = [write([5, { type: 'unknown', at: 8 }], 'create', 'g', { mark: 'a', spec })]
  expect(says({ calls, commits: [created] })).toEqual([])
})

test('an acknowledged write must be in the store', () => {
  expect(says({ calls: [creation] })).toEqual([
    expect.stringMatching(/was acknowledged with version 1, at which the object did not change/),
    expect.stringMatching(/was acknowledged and never happened/),
  ])
})

test('a refused write must not be in the store', () => {
  const calls = [write([5, refusal(15, 503, 'ServiceUnavailable')], 'create', 'g', { mark: 'a', spec })]
  expect(says({ calls, commits: [created] })).toEqual([expect.stringMatching(/refused with 503/)])
})

test('a write must not happen twice, nor after its acknowledgement, nor before its request', () => {
  const twice = [created, commit(2, 'g', { mark: 'b' }), commit(3, 'g', { mark: 'a', spec })]
  const other = write([15, responded(25, 200, twice[1]?.object)], 'update', 'g', { mark: 'b', spec: {} })
  expect(says({ calls: [creation, other], commits: twice })).toEqual([
    expect.stringMatching(/happened already at 1/),
    expect.stringMatching(/had been acknowledged before/),
  ])
  const late = [{ ...created, at: 16 }]
  expect(says({ calls: [creation], commits: late })).not.toEqual([])
  expect(says({ calls: [creation], commits: [{ ...created, at: 4 }] })).not.toEqual([])
})

test('a change must come from a write', () => {
  expect(says({ commits: [created] })).toEqual([expect.stringMatching(/of no write/)])
})

test('a precondition must hold at the moment of the write', () => {
  const commits = [created, commit(2, 'g', { mark: 'b', spec }), commit(3, 'g', { mark: 'c', spec })]
  const calls = [
    creation,
    write([15, { type: 'unknown', at: 25 }], 'update', 'g', { mark: 'b', spec }),
    write([15, responded(35, 200, commits[2]?.object)], 'update', 'g', {
      mark: 'c',
      spec,
      version: 1,
      uid: 'other',
    }),
  ]
  expect(says({ calls, commits })).toEqual([
    expect.stringMatching(/required version 1, but changed version 2/),
    expect.stringMatching(/required uid other/),
  ])
})

test('the content must be what was sent, and the response what is stored', () => {
  const wrong = commit(1, 'g', { mark: 'a', spec: { size: 2 } })
  const calls = [write([5, responded(15, 201, created.object)], 'create', 'g', { mark: 'a', spec })]
  expect(says({ calls, commits: [wrong] })).toEqual([
    expect.stringMatching(/left the spec {"size":2}/),
    expect.stringMatching(/was answered with/),
  ])
})

test('an existing object must not be created', () => {
  const again = commit(2, 'g', { mark: 'b', spec })
  const calls = [creation, write([16, responded(25, 201, again.object)], 'create', 'g', { mark: 'b', spec })]
  expect(says({ calls, commits: [created, again] })).toEqual([
    expect.stringMatching(/an object that existed/),
  ])
})

test('a refusal must have been right at some moment of the call', () => {
  const refused = (code: number, reason: string, verb: 'create' | 'update', version?: number) =>
    says({
      calls: [
        creation,
        write([20, refusal(30, code, reason)], verb, verb === 'create' ? 'other' : 'g', { version }),
      ],
      commits: [created],
    })
  expect(refused(404, 'NotFound', 'update')).toEqual([expect.stringMatching(/existed all the time/)])
  expect(refused(409, 'Conflict', 'update', 1)).toEqual([expect.stringMatching(/held all the time/)])
  expect(refused(409, 'Conflict', 'update', 7)).toEqual([])
  expect(refused(409, 'Conflict', 'update')).toEqual([expect.stringMatching(/no precondition/)])
  expect(refused(409, 'AlreadyExists', 'create')).toEqual([expect.stringMatching(/no such object/)])
  expect(refused(500, 'InternalError', 'update')).toEqual([expect.stringMatching(/refused with 500/)])
})

test('a request may find that another one has done what it asks for', () => {
  const dying = commit(3, 'g', { deleting: true, finalizers: ['f'], mark: 'a', spec, generation: 2 })
  const deletion = (rest: object) => write([20, responded(35, 200, dying.object)], 'delete', 'g', rest)
  const held = commit(1, 'g', { mark: 'a', spec, finalizers: ['f'] })
  const calls = (rest: object) => [
    write([5, responded(15, 201, held.object)], 'create', 'g', { mark: 'a', spec }),
    deletion(rest),
  ]
  expect(says({ calls: [deletion({})], commits: [held, dying] })).toHaveLength(1)
  expect(says({ calls: calls({}), commits: [held, dying] })).toEqual([])
  expect(says({ calls: calls({ version: 3 }), commits: [held, dying] })).toEqual([])
  expect(says({ calls: calls({ version: 2 }), commits: [held, dying] })).toHaveLength(1)
  const clean = write([5, responded(15, 200, created.object)], 'finalize', 'g')
  expect(says({ calls: [creation, clean], commits: [created] })).toEqual([])
})
