import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Api, objectOf } from './support/api.ts'
import type { RunningServer } from './support/server.ts'
import { Users } from './support/users.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { type SharedWorld, startSharedWorld } from './support/worlds.ts'

const group = 'rbac.authorization.k8s.io'
const rbac = `/apis/${group}/v1`
const items = '/apis/items.example.com/v1/items'

let world: SharedWorld
let other: RunningServer
let users: Users<'ann' | 'bob'>
let ann: Api

beforeAll(async () => {
  users = await Users.make({ ann: ['setpoint:admins'], bob: ['team'] })
  world = await startSharedWorld('etcd', ['items-plugin'], { args: users.args })
  other = await world.another()
  ann = users.api(world.server.url, 'ann')
})
afterAll(async () => {
  await world?.end()
  await users?.remove()
})

it('a permission that is withdrawn under load ends watches on every server, and nothing is seen after it', async () => {
  const headers = users.headersOf('bob')
  objectOf(
    await ann.post(`${rbac}/clusterroles`, {
      metadata: { name: 'watcher' },
      rules: [{ apiGroups: ['items.example.com'], resources: ['items'], verbs: ['watch', 'list', 'get'] }],
    }),
    201,
  )
  const bind = () =>
    ann.post(`${rbac}/clusterrolebindings`, {
      metadata: { name: 'watcher' },
      roleRef: { apiGroup: group, kind: 'ClusterRole', name: 'watcher' },
      subjects: [{ kind: 'Group', apiGroup: group, name: 'team' }],
    })
  let written = 0
  let isOver = false
  const load = (async () => {
    while (!isOver) {
      const body = { apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name: `i${written++}` } }
      objectOf(await ann.post(items, { ...body, spec: {} }), 201)
    }
  })()
  try {
    for (let turn = 0; turn < 3; turn++) {
      objectOf(await bind(), 201)
      const here = users.api(world.server.url, 'bob')
      expect((await here.get(`${items}?limit=1`)).status).toBe(200)
      await expect
        .poll(async () => (await users.api(other.url, 'bob').get(`${items}?limit=1`)).status, {
          timeout: 60_000,
        })
        .toBe(200)
      const watches = await Promise.all(
        [world.server, other].flatMap(({ url }) =>
          Array.from({ length: 10 }, () => Watch.open(url, items, { headers })),
        ),
      )
      await Promise.all(watches.map(watch => watch.synced()))
      const seen = written
      await watches[0]?.until(({ events }) => events.some(({ name }) => name === `i${seen}`))
      const deleted = await ann.delete(`${rbac}/clusterrolebindings/watcher`)
      expect(deleted.status).toBe(200)
      // In force here when it is acknowledged.
      expect((await here.get(`${items}?limit=1`)).status).toBe(403)
      expect((await refusedWatch(world.server.url, items, headers)).status).toBe(403)
      for (const watch of watches) {
        expect(await watch.closed).toMatchObject({ code: 1008 })
        expect(watch.events.at(-1)?.type).toBe('ERROR')
      }
      expect((await users.api(other.url, 'bob').get(`${items}?limit=1`)).status).toBe(403)
    }
  } finally {
    isOver = true
    await load
  }
})
