import { expect, it, onTestFinished } from 'vitest'
import { findNewerEtcd } from '../scripts/etcd.mjs'
import { Api } from './support/api.ts'
import { startEtcd } from './support/etcd.ts'
import { compactAll, defragment, disarm, smallQuota } from './support/etcd-space.ts'
import { itemsOf } from './support/kinds.ts'
import { startSharedServer } from './support/server.ts'
import { copyFixture } from './support/worlds.ts'

/** docs/operations/runbooks/etcd-full.md: what works, what the server says, and the way out. */

it('a full etcd serves reads and deletions on every server, says that it is full, and takes writes after the documented steps', async () => {
  const etcd = await startEtcd({ binary: await findNewerEtcd(), unsafeNoFsync: true, flags: smallQuota })
  onTestFinished(() => etcd.stop())
  const plugin = await copyFixture('items-plugin')
  const servers = await Promise.all(
    [1, 2].map(() =>
      startSharedServer({ store: 'etcd', etcd, plugins: [plugin], env: { SETPOINT_LOG_FORMAT: 'json' } }),
    ),
  )
  for (const server of servers) onTestFinished(async () => void (await server.stop()))
  const [one, two] = servers
  if (one === undefined || two === undefined) throw new Error('no servers')
  const items = itemsOf(new Api(one.url))
  const others = itemsOf(new Api(two.url))
  const state = async () => (await items.api.get('/readyz?verbose')).text
  const metric = async () => /^setpoint_storage_full .*$/m.exec((await items.api.get('/metrics')).text)?.[0]
  await expect.poll(state).toContain('[+]space ok')
  expect(await metric()).toBe('setpoint_storage_full 0')

  const held = { finalizers: ['items.example.com/hold'] }
  await items.create('gone', { code: 'taken' })
  await items.create('held', {}, held)
  await items.create('going', {}, held)
  expect(await items.api.delete(items.at('going'))).toMatchObject({ status: 200 })
  const fill = async () => {
    for (let n = 0; ; n++) {
      const answer = await items.api.mergePatch(items.at('held'), {
        spec: { op: `${n}`.repeat(900_000 / `${n}`.length) },
      })
      if (answer.status !== 200) return answer
    }
  }
  const refused = await fill()
  expect(refused).toMatchObject({
    status: 503,
    body: { message: expect.stringContaining('the store is full and takes only deletions') },
  })
  expect(refused.headers.get('retry-after')).toBe('30')
  await fill()
  expect(await state()).toMatch(/\[\+\]space full; it takes only deletions: .*\nreadyz check passed/s)
  expect(await items.api.get('/readyz')).toMatchObject({ status: 200 })
  expect(await metric()).toBe('setpoint_storage_full 1')

  expect(await items.api.delete(items.at('gone'))).toMatchObject({ status: 200 })
  expect(await others.api.get(others.at('gone'))).toMatchObject({ status: 404 })
  expect(await items.api.mergePatch(items.at('going'), { metadata: { finalizers: null } })).toMatchObject({
    status: 200,
  })
  expect((await others.list()).names).toEqual(['held'])
  // Its deletionTimestamp would be a put.
  expect(await items.api.delete(items.at('held'))).toMatchObject({ status: 503 })

  await compactAll(etcd)
  await defragment(etcd)
  await disarm(etcd)
  // The unique value of the deleted item is free.
  await items.create('again', { code: 'taken' })
  expect([...(await others.list()).names].sort()).toEqual(['again', 'held'])
  expect(await state()).toContain('[+]space ok')
  expect(await metric()).toBe('setpoint_storage_full 0')
  const lines = (text: string) =>
    one
      .stderr()
      .split('\n')
      // A leader that cannot renew its lease quotes the server's refusal.
      .filter(line => line.includes(`"${text}"`))
  expect(lines('the store is full and takes only deletions')).toHaveLength(1)
  expect(lines('the store has space and takes writes again')).toHaveLength(1)
})
