import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { Users } from './support/users.ts'
import { startWorld, type World } from './support/worlds.ts'

const group = 'rbac.authorization.k8s.io'
const rbac = `/apis/${group}/v1`
const items = '/apis/items.example.com/v1/items'
const places = '/apis/places.example.com/v1/places'
const placesIn = (namespace: string) => `/apis/places.example.com/v1/namespaces/${namespace}/places`

const item = (name: string) => ({
  apiVersion: 'items.example.com/v1',
  kind: 'Item',
  metadata: { name },
  spec: {},
})

const rule = (verbs: string[], resources: string[], more: object = {}) => ({
  apiGroups: ['items.example.com', 'places.example.com'],
  verbs,
  resources,
  ...more,
})
const roleRef = (kind: 'Role' | 'ClusterRole', name: string) => ({ apiGroup: group, kind, name })
const user = (name: string) => ({ kind: 'User', apiGroup: group, name })

describe('roles and bindings', () => {
  let world: World
  let users: Users<'ann' | 'vic' | 'bob' | 'eve'>
  let ann: Api
  let bob: Api
  let eve: Api

  const clusterRole = (name: string, rules: object[], more: object = {}) =>
    ann.post(`${rbac}/clusterroles`, { metadata: { name }, rules, ...more })
  const bindCluster = (name: string, role: string, ...subjects: object[]) =>
    ann.post(`${rbac}/clusterrolebindings`, {
      metadata: { name },
      roleRef: roleRef('ClusterRole', role),
      subjects,
    })
  const grant = async (name: string, to: object, ...rules: object[]) => {
    objectOf(await clusterRole(name, rules), 201)
    objectOf(await bindCluster(name, name, to), 201)
  }
  const withdraw = async (name: string) => {
    expect((await ann.delete(`${rbac}/clusterrolebindings/${name}`)).status).toBe(200)
    expect((await ann.delete(`${rbac}/clusterroles/${name}`)).status).toBe(200)
  }

  beforeAll(async () => {
    users = await Users.make({
      ann: ['setpoint:admins'],
      vic: ['setpoint:viewers'],
      bob: ['team'],
      eve: ['others'],
    })
    world = await startWorld('embedded', ['items-plugin', 'places-plugin'], { args: users.args })
    ann = users.api(world.server.url, 'ann')
    bob = users.api(world.server.url, 'bob')
    eve = users.api(world.server.url, 'eve')
  })
  afterAll(async () => {
    await world?.end()
    await users?.remove()
  })

  it('allow nothing that no role allows, and say so as Kubernetes does', async () => {
    const { message, details } = refusalOf(await bob.get(`${items}/a`), 403)
    expect(message).toBe(
      'items.items.example.com "a" is forbidden: User "bob" cannot get resource "items" in API group "items.example.com" at the cluster scope',
    )
    expect(details).toEqual({ group: 'items.example.com', kind: 'items', name: 'a' })
    expect(refusalOf(await bob.get(placesIn('x')), 403).message).toBe(
      'places.places.example.com is forbidden: User "bob" cannot list resource "places" in API group "places.example.com" in the namespace "x"',
    )
    expect(refusalOf(await bob.get('/metrics'), 403).message).toBe(
      'forbidden: User "bob" cannot get path "/metrics"',
    )
  })

  it('allow discovery to every authenticated user', async () => {
    for (const path of ['/apis', '/api/v1', '/apis/items.example.com/v1', '/openapi/v3'])
      expect((await bob.get(path)).status).toBe(200)
  })

  it('are in force when they are acknowledged, and no longer when their removal is', async () => {
    for (let turn = 0; turn < 10; turn++) {
      refusalOf(await bob.get(items), 403)
      await grant('lister', user('bob'), rule(['list'], ['items']))
      expect((await bob.get(items)).status).toBe(200)
      refusalOf(await eve.get(items), 403)
      await withdraw('lister')
    }
    refusalOf(await bob.get(items), 403)
  })
})
