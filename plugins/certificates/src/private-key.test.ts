import { createHook } from 'node:async_hooks'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { generateKey } from './private-key.ts'

/** Keys that threads are generating, by the ids of Node's asynchronous resources. */
const generating = new Set<number>()
let most = 0
const hook = createHook({
  init(id, type) {
    if (type !== 'KEYPAIRGENREQUEST') return
    generating.add(id)
    most = Math.max(most, generating.size)
  },
  // The callback with the key follows.
  before: id => void generating.delete(id),
})
beforeAll(() => void hook.enable())
afterAll(() => void hook.disable())

const rsa = { algorithm: 'RSA', size: 1024 } as const

test('one RSA key is generated at a time, so that threads are left for the store', async () => {
  const keys = await Promise.all(Array.from({ length: 4 }, () => generateKey(rsa)))
  expect(new Set(keys.map(key => key.export({ type: 'pkcs8', format: 'pem' }))).size).toBe(4)
  expect(most).toBe(1)
})

test('a key that is no longer wanted is not generated, and the next one is', async () => {
  const controller = new AbortController()
  const wanted = [generateKey(rsa), generateKey(rsa, controller.signal), generateKey(rsa)]
  controller.abort(new Error('the run has ended'))
  const [first, second, third] = await Promise.allSettled(wanted)
  expect(second).toMatchObject({ status: 'rejected', reason: { message: 'the run has ended' } })
  expect([first?.status, third?.status]).toEqual(['fulfilled', 'fulfilled'])
})

test('other keys do not wait for RSA keys', async () => {
  let ready = 0
  const slow = Array.from({ length: 4 }, () => generateKey(rsa).then(() => ready++))
  await generateKey({ algorithm: 'Ed25519', size: undefined })
  expect(ready).toBeLessThan(4)
  await Promise.all(slow)
})
