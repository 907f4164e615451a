import { expect, test } from 'vitest'
import type { History } from '../history.ts'
import { bindings, reader, roles } from '../kinds.ts'
import { judgeAccess } from './access.ts'
import { judgeAll } from './index.ts'
import { judgeRestores } from './restores.ts'
import {
  bookmark,
  commit,
  get,
  history,
  list,
  listBody,
  message,
  refusal,
  responded,
  restored,
  watch,
  write,
} from './written.ts'

/** The store was backed up at 1 and restored from 110 to 112 at the time 1,100. `b` came after the backup. */
const spec = { email: 'x', size: 1 }
const a1 = commit(1, 'a', { mark: 'm1', spec })
const b2 = commit(2, 'b', { mark: 'm2' })
const atOnce = { at: 1_100 }
const a112 = { ...restored(112, 'a', { mark: 'm1', spec }), ...atOnce }
const life = [
  a1,
  b2,
  { ...restored(110, 'a', 'deleted'), ...atOnce },
  { ...restored(110, 'b', 'deleted'), ...atOnce },
  a112,
]
const restores = [{ at: 1_100, revision: 112 }]
const creations = [
  write([5, responded(15, 201, a1.object)], 'create', 'a', { mark: 'm1', spec }),
  write([16, responded(25, 201, b2.object)], 'create', 'b', { mark: 'm2', spec: {} }),
]
const starts = [
  { at: 0, server: 0 },
  { at: 1_200, server: 0 },
]

const says = ({ calls = [], ...rest }: Partial<History>, judge = judgeAll) =>
  judge(
    history({
      commits: life,
      restores,
      starts,
      compactions: restores,
      ...rest,
      calls: [...creations, ...calls],
    }),
  ).map(({ message }) => message)

test('a restore takes back what was acknowledged, and is read by everybody', () => {
  const calls = [
    get([1_300, refusal(1_310, 404, 'NotFound')], 'b'),
    get([1_300, responded(1_310, 200, a112.object)], 'a'),
    list([1_300, responded(1_310, 200, listBody(112, [a112.object]))]),
    write([1_320, refusal(1_330, 409, 'Conflict')], 'update', 'a', { mark: 'm3', version: 1 }),
  ]
  expect(says({ calls })).toEqual([])
  const old = [
    get([1_300, responded(1_310, 200, b2.object)], 'b'),
    get([1_300, responded(1_310, 200, a1.object)], 'a'),
    get([1_300, refusal(1_310, 404, 'NotFound')], 'a'),
    list([1_300, responded(1_310, 200, listBody(2, [b2.object, a1.object]))]),
    write([1_320, refusal(1_330, 409, 'Conflict')], 'update', 'a', { mark: 'm3', version: 112 }),
  ]
  for (const call of old) expect(says({ calls: [call] })).toHaveLength(1)
})

test('the restored store goes on with uids, generations and unique values of the backup', () => {
  const changed = commit(113, 'a', { mark: 'm3', spec: { size: 2 }, generation: 2 })
  const taken = commit(114, 'b', { mark: 'm4', spec, uid: 'other' })
  const update = { mark: 'm3', spec: { size: 2 }, version: 112 }
  const calls = [
    write([1_121, responded(1_135, 200, changed.object)], 'update', 'a', update),
    write([1_136, responded(1_145, 201, taken.object)], 'create', 'b', { mark: 'm4', spec }),
  ]
  const later = { starts: [{ at: 1_101, server: 0 }] }
  expect(says({ ...later, calls, commits: [...life, changed, taken] })).toEqual([])
  const doubled = commit(113, 'b', { mark: 'm4', spec, uid: 'other' })
  const second = [write([1_125, responded(1_135, 201, doubled.object)], 'create', 'b', { mark: 'm4', spec })]
  expect(says({ ...later, calls: second, commits: [...life, doubled] })).toEqual([
    expect.stringMatching(/has at 113 the value x of/),
  ])
  const old = write([1_125, responded(1_135, 200, changed.object)], 'update', 'a', { ...update, version: 1 })
  expect(says({ ...later, calls: [old], commits: [...life, changed] })).toEqual([
    expect.stringMatching(/required version 1, but changed version 112/),
  ])
})

test('a write of the earlier life must not happen after the restore', () => {
  const calls = [
    write([1_000, refusal(1_050, 503, 'ServiceUnavailable')], 'create', 'c', { mark: 'm5', spec: {} }),
  ]
  expect(says({ calls, commits: [...life, commit(113, 'c', { mark: 'm5' })] })).toEqual([
    expect.stringMatching(/of a write that was refused with 503/),
  ])
  expect(says({ commits: [...life, commit(113, 'b', { mark: 'm2' })] })).toContainEqual(
    expect.stringMatching(/of a write that happened already at 2/),
  )
})

test('a watch from before a restore expires, and has nothing of the store after it', () => {
  const expired = watch(2, [message(1_300, 'ERROR', { code: 410 })], { at: 1_290 })
  const end = { at: 1_400, byClient: true }
  expect(says({ watches: [{ ...expired, end }] })).toEqual([])
  const goesOn = watch(109, [message(1_300, 'ADDED', a112.object)], { at: 1_290, end })
  expect(says({ watches: [goesOn] }, judgeRestores)).toEqual([
    expect.stringMatching(/after 109 instead of 410/),
  ])
  const anew = watch(undefined, [message(1_300, 'ADDED', a112.object), bookmark(1_301, 112, true)], {
    at: 1_290,
    end,
  })
  expect(says({ watches: [anew] })).toEqual([])
})

const alone = (parts: Partial<History>) => says(parts, judgeRestores)

test('a server that ran during a restore refuses everything until it is started again', () => {
  const call = get([1_150, refusal(1_160, 404, 'NotFound')], 'b')
  expect(alone({ calls: [call] })).toEqual([expect.stringMatching(/ran during the restore at 1100/)])
  expect(alone({ calls: [get([1_150, refusal(1_160, 503, 'ServiceUnavailable')], 'b')] })).toEqual([])
  expect(alone({ calls: [get([1_150, responded(1_160, 200, a1.object)], 'a', true)] })).toEqual([])
  expect(alone({ calls: [get([1_150, responded(1_250, 200, a112.object)], 'a')] })).toEqual([])
  expect(alone({ calls: [get([1_090, responded(1_110, 200, a1.object)], 'a')] })).toEqual([])
})

test('a watch of a server that ran during a restore sends nothing of the restored store', () => {
  const sent = (...messages: ReturnType<typeof bookmark>[]) =>
    alone({ watches: [watch(undefined, messages)] })
  expect(sent(bookmark(1_150, 2))).toEqual([])
  expect(sent(bookmark(1_150, 112))).toEqual([expect.stringMatching(/sent BOOKMARK of 112/)])
  expect(sent(bookmark(1_250, 112))).toEqual([])
})

test('a server that ran during a restore may decide by the roles from before, others may not', () => {
  const at = (revision: number, resource: typeof roles, exists = true) => ({
    revision,
    at: revision,
    resource: `${resource.group}/${resource.plural}`,
    namespace: undefined,
    name: reader,
    object: exists ? {} : undefined,
  })
  const commits = [at(1, roles), at(2, bindings), at(1_100, bindings, false)]
  const read = (from: number, parts: Partial<History> = {}) => {
    const calls = [{ ...get([from, responded(from + 10, 200)], 'a', true), token: reader }]
    return judgeAccess(history({ commits, restores, starts, ...parts, calls }))
  }
  expect(read(60_000, { starts: [] })).toEqual([])
  expect(read(60_000)).toHaveLength(1)
})
