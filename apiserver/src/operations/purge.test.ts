import { zeroRevision } from '@setpoint/controller-runtime/internal'
import { expect, it } from 'vitest'
import { bound, openRooms, thing } from '../../../test/support/rooms.ts'
import { recordsPrefix } from '../registry/index.ts'
import { defaultWriteOptions } from '../registry/write-options.ts'
import { type Storage, StoreUnavailableError } from '../storage/index.ts'
import { GroupServedError, purgeDefaults, purgeGroup } from './purge.ts'
import { surveyGroup } from './purge-survey.ts'

const group = 'test.example.com'
const { signal } = new AbortController()

/** A store with more objects than one round of transactions removes. */
async function openFilled() {
  const rooms = await openRooms()
  const { storage, registry, served } = rooms
  const objects = purgeDefaults.keys * purgeDefaults.concurrency + 10
  const names = Array.from({ length: objects }, (_, n) => `t${n}`)
  await Promise.all(
    names.map(name => registry.create(served, thing(name, { email: `${name}@a.b` }), defaultWriteOptions)),
  )
  await storage.transact({
    compares: [],
    onSuccess: [{ type: 'put', key: `objects/${group}.other/things/a`, value: Buffer.from('{}\n{}') }],
  })
  await rooms.follower.stop()
  return { rooms, storage, objects }
}

async function keysOf(storage: Storage): Promise<string[]> {
  const keys: string[] = []
  for (let more = true; more; ) {
    const page = await storage.list('', { after: keys.at(-1) ?? '', keysOnly: true })
    keys.push(...page.pairs.map(({ key }) => key))
    ;({ more } = page)
  }
  return keys.filter(key => key.includes(group))
}

it('a purge that the store or a signal cut off is completed by the next one', async () => {
  const { rooms, storage, objects } = await openFilled()
  await using _closed = rooms
  const before = (await keysOf(storage)).length
  expect(await surveyGroup({ storage, group, signal })).toMatchObject([
    { plural: 'things', objects, reservations: objects, withFinalizers: 0 },
  ])
  for (let transactions = 1; ; transactions += 3) {
    let left = transactions
    const failing: Storage = {
      ...bound(storage),
      async transact(transaction, options) {
        if (left-- <= 0) throw new StoreUnavailableError('cut off')
        return storage.transact(transaction, options)
      },
    }
    const kinds = await surveyGroup({ storage, group, signal })
    const failed = await purgeGroup({ storage: failing, group, kinds, signal }).catch(error => error)
    if (typeof failed === 'number') break
    expect(failed).toBeInstanceOf(StoreUnavailableError)
  }
  expect(before).toBe(2 * objects + 2)
  expect(await keysOf(storage)).toEqual([`objects/${group}.other/things/a`])
})

it('a purge stops when a server starts to serve the kind, and leaves what that server has stored', async () => {
  const { rooms, storage } = await openFilled()
  await using _closed = rooms
  const { served, registry } = rooms
  const kinds = await surveyGroup({ storage, group, signal })
  let isStarted = false
  const interleaved: Storage = {
    ...bound(storage),
    async transact(transaction, options) {
      const result = await storage.transact(transaction, options)
      if (isStarted) return result
      isStarted = true
      const { recompute } = await registry.records.establish(served)
      await registry.records.complete(served, recompute ?? zeroRevision)
      await registry.create(served, thing('newcomer', { email: 'new@a.b' }), defaultWriteOptions)
      return result
    },
  }
  await expect(purgeGroup({ storage: interleaved, group, kinds, signal })).rejects.toThrow(GroupServedError)
  const keys = await keysOf(storage)
  expect(keys).toContain(`${recordsPrefix}${group}/things`)
  expect(keys).toContain(`objects/${group}/things/newcomer`)
})
