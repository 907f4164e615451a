import { expect, test } from 'vitest'
import { openWorld } from './open-world.ts'
import { call, widgetModel, widgets } from './sample.ts'
import type { World } from './world.ts'

const list = { method: 'GET', path: widgets, headers: { authorization: 'Bearer one' } }
const group = 'rbac.authorization.k8s.io'
const roles = `/apis/${group}/v1/namespaces/default`
const create = (path: string, object: object) => ({
  method: 'POST',
  path: `${roles}/${path}`,
  body: { apiVersion: `${group}/v1`, metadata: { name: 'lister' }, ...object },
})
const role = create('roles', {
  kind: 'Role',
  rules: [{ apiGroups: ['world.example.com'], resources: ['widgets'], verbs: ['list'] }],
})
const binding = create('rolebindings', {
  kind: 'RoleBinding',
  roleRef: { apiGroup: group, kind: 'Role', name: 'lister' },
  subjects: [{ apiGroup: group, kind: 'User', name: 'rita' }],
})
const takeAway = { method: 'DELETE', path: `${roles}/rolebindings/lister` }

/** A world in which server 1 learns of changes late, or while it stands still not at all. */
async function openBehind(): Promise<World> {
  const world = await openWorld({ seed: 4, releases: [() => [widgetModel()]] })
  world.setTokens([{ token: 'one', user: 'rita' }])
  await world.advance(1_000)
  expect(await call(world, 0, role)).toMatchObject({ status: 201 })
  await world.advance(500)
  return world
}

test('a role that a server has acknowledged is in force on a server that is behind', async () => {
  await using world = await openBehind()
  world.inject({ type: 'lag', node: 'server-1', byMs: 1_500, forMs: 60_000 })
  expect(await call(world, 0, binding)).toMatchObject({ status: 201 })
  expect(await call(world, 1, list)).toMatchObject({ status: 200 })
})

test('a role that was taken away is not in force on a server that stood still or is behind', async () => {
  await using world = await openBehind()
  expect(await call(world, 0, binding)).toMatchObject({ status: 201 })
  world.inject({ type: 'lag', node: 'server-1', byMs: 1_500, forMs: 60_000 })
  world.inject({ type: 'pause', node: 'server-1', forMs: 5_000 })
  expect(await call(world, 0, takeAway)).toMatchObject({ status: 200 })
  expect(await call(world, 1, list)).toMatchObject({ status: 403 })
})

test('without the store a caller without a role is refused by the last known roles', async () => {
  await using world = await openBehind()
  world.inject({ type: 'leaderChange', forMs: 60_000 })
  expect(await call(world, 1, list)).toMatchObject({ status: 403 })
})
