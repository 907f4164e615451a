import { setMaxListeners } from 'node:events'
import { expect, test } from 'vitest'
import { TargetSlots } from './target-slots.ts'

const never = new AbortController().signal
setMaxListeners(0, never)

/** Requests a slot and reports when it is granted. */
function request(slots: TargetSlots, target: string, signal = never) {
  const state: { release?: () => void } = {}
  const granted = slots.acquire(target, signal).then(release => {
    state.release = release
  })
  return { state, granted }
}

const settled = () => new Promise(resolve => setImmediate(resolve))

test('a target gets a slot at once, whatever others use', async () => {
  const slots = new TargetSlots({ perTarget: 10, shared: 2 })
  for (let n = 0; n < 20; n++) request(slots, 'slow').granted.catch(() => {})
  await settled()
  const other = request(slots, 'other')
  await other.granted
  expect(other.state.release).toBeDefined()
})

test('a target has at most its bound, and its requests are served in order', async () => {
  const slots = new TargetSlots({ perTarget: 2, shared: 100 })
  const requests = Array.from({ length: 4 }, () => request(slots, 'a'))
  await settled()
  expect(requests.map(({ state }) => state.release !== undefined)).toEqual([true, true, false, false])
  requests[1]?.state.release?.()
  await settled()
  expect(requests.map(({ state }) => state.release !== undefined)).toEqual([true, true, true, false])
})

test('a slot of the pool goes to another target that waits for one', async () => {
  const slots = new TargetSlots({ perTarget: 10, shared: 1 })
  const a = Array.from({ length: 2 }, () => request(slots, 'a'))
  const b = Array.from({ length: 2 }, () => request(slots, 'b'))
  await settled()
  expect(b.map(({ state }) => state.release !== undefined)).toEqual([true, false])
  a[1]?.state.release?.()
  await settled()
  expect(b.map(({ state }) => state.release !== undefined)).toEqual([true, true])
})

test('an aborted wait takes no slot, and nothing is kept of an unused target', async () => {
  const slots = new TargetSlots({ perTarget: 1, shared: 0 })
  const first = request(slots, 'a')
  const aborting = new AbortController()
  const second = slots.acquire('a', aborting.signal)
  aborting.abort(new Error('enough'))
  await expect(second).rejects.toThrow('enough')
  await settled()
  first.state.release?.()
  expect(slots.size).toBe(0)
})
