import { expect, test } from 'vitest'
import { openWorld } from './open-world.ts'
import { call, creation, widgetModel, widgets } from './sample.ts'
import { tokensMs } from './world.ts'

const headers = { authorization: 'Bearer one' }
const list = { method: 'GET', path: widgets, headers }
const roles = '/apis/rbac.authorization.k8s.io/v1/namespaces/default'

const mayList = [
  {
    path: `${roles}/roles`,
    kind: 'Role',
    rules: [{ apiGroups: ['world.example.com'], resources: ['widgets'], verbs: ['list', 'watch'] }],
  },
  {
    path: `${roles}/rolebindings`,
    kind: 'RoleBinding',
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'lister' },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'rita' }],
  },
].map(({ path, ...object }) => ({
  method: 'POST',
  path,
  body: { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name: 'lister' }, ...object },
}))

test('a caller with a token may do what roles allow, as long as servers know the token', async () => {
  await using world = await openWorld({ seed: 2, releases: [() => [widgetModel()]] })
  await world.advance(1_000)
  expect(await call(world, 0, list)).toMatchObject({ status: 401 })
  world.setTokens([{ token: 'one', user: 'rita' }])
  await world.advance(tokensMs)
  expect(await call(world, 0, list)).toMatchObject({ status: 403 })
  for (const request of mayList) expect(await call(world, 0, request)).toMatchObject({ status: 201 })
  await world.advance(100)
  for (const server of [0, 1]) expect(await call(world, server, list)).toMatchObject({ status: 200 })
  expect(await call(world, 0, { ...creation('a'), headers })).toMatchObject({ status: 403 })

  const watch = world.watch('rita', 1, `${widgets}?watch=true`, { headers })
  await world.advance(100)
  expect(watch.end).toBeUndefined()
  world.setTokens([])
  await world.advance(tokensMs + 100)
  expect(watch.end).toBeDefined()
  expect(await call(world, 1, list)).toMatchObject({ status: 401 })
})
