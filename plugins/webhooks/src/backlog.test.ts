import { expect, test } from 'vitest'
import { Backlog, backlogDefaults } from './backlog.ts'
import type { Delivery } from './delivery.ts'

const signal = new AbortController().signal
const settled = () => new Promise(resolve => setImmediate(resolve))

function delivery(key: string, version: number, body = ''): Delivery {
  return { id: `${version}`, key, object: key, version: `${version}`, body, floor: `${version - 1}` }
}

/** A backlog whose deliveries are settled by the test. */
function backlog() {
  const begun: string[] = []
  const done = new Map<string, (error?: Error) => void>()
  const pending = new Backlog(
    ({ id }) =>
      new Promise((resolve, reject) => {
        begun.push(id)
        done.set(id, error => (error === undefined ? resolve() : reject(error)))
      }),
  )
  const settle = async (id: string, error?: Error) => {
    done.get(id)?.(error)
    await settled()
  }
  return { pending, begun, settle }
}

test('deliveries of one key follow one another, those of others do not wait', async () => {
  const { pending, begun, settle } = backlog()
  for (const [key, version] of [
    ['a', 1],
    ['a', 2],
    ['b', 3],
    ['a', 4],
  ] as const)
    await pending.add('items', delivery(key, version), 0, signal)
  await settled()
  expect(begun).toEqual(['1', '3'])
  await settle('1')
  expect(begun).toEqual(['1', '3', '2'])
  await settle('2')
  expect(begun).toEqual(['1', '3', '2', '4'])
})

test('the oldest delivery is the first one that is not settled, whatever was settled after it', async () => {
  const { pending, settle } = backlog()
  for (const [key, version] of [
    ['a', 1],
    ['b', 2],
    ['c', 3],
  ] as const)
    await pending.add('items', delivery(key, version), 10 * version, signal)
  await settle('2')
  expect([pending.oldestOf('items')?.floor, pending.oldestSince, pending.size]).toEqual(['0', 10, 2])
  await settle('1')
  expect([pending.oldestOf('items')?.floor, pending.oldestSince, pending.size]).toEqual(['2', 30, 1])
  await settle('3')
  expect([pending.oldestOf('items'), pending.oldestSince, pending.size]).toEqual([undefined, undefined, 0])
})

test('after aborted work on a delivery, the next one of its key does not begin', async () => {
  const { pending, begun, settle } = backlog()
  for (const version of [1, 2]) await pending.add('items', delivery('a', version), 0, signal)
  await settled()
  await settle('1', new Error('aborted'))
  await pending.stopped()
  expect(begun).toEqual(['1'])
  expect(pending.oldestOf('items')?.version).toBe('1')
})

test('a full backlog takes more once something is settled', async () => {
  const { pending, settle } = backlog()
  const body = 'x'.repeat(backlogDefaults.characters)
  await pending.add('items', delivery('a', 1, body), 0, signal)
  let added = false
  const adding = pending.add('items', delivery('b', 2), 0, signal).then(() => {
    added = true
  })
  await settled()
  expect(added).toBe(false)
  await settle('1')
  await adding
  expect(pending.size).toBe(1)
})

test('the number of pending deliveries is bounded', async () => {
  const { pending } = backlog()
  for (let version = 1; version <= backlogDefaults.deliveries; version++)
    await pending.add('items', delivery(`o${version}`, version), 0, signal)
  const aborting = new AbortController()
  const adding = pending.add('items', delivery('more', 5000), 0, aborting.signal)
  aborting.abort(new Error('enough'))
  await expect(adding).rejects.toThrow('enough')
  expect(pending.size).toBe(backlogDefaults.deliveries)
})
