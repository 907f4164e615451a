import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, type ApiObject, Collection, objectOf, refusalOf } from './support/api.ts'
import { AuditTrail } from './support/audit.ts'
import { define, definitionOf, definitionsPath, objectsOf, pathOf } from './support/definitions.ts'
import { namespacesOf } from './support/kinds.ts'
import { Users } from './support/users.ts'
import { Watch } from './support/watch.ts'
import { createAll, eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

/**
 * What the server does with objects of every kind, for objects of definitions: namespaces, owners, quotas, roles,
 * audit.
 */

const reference = ({ apiVersion, kind, metadata }: ApiObject) => ({
  ownerReferences: [{ apiVersion, kind, name: metadata.name, uid: metadata.uid }],
})

const jobs = definitionOf({ plural: 'jobs', scope: 'Namespaced', group: 'work.example.com' })

describe.each(stores)('on %s, the objects of a definition', store => {
  let world: SharedWorld
  let api: Api

  beforeAll(async () => {
    world = await startSharedWorld(store, [])
    api = world.api
    await define(api, jobs)
  })
  afterAll(() => world?.end())

  const isGone = (collection: Collection, name: string) =>
    eventually(async () => refusalOf(await api.get(collection.at(name)), 404))

  it('are deleted with their namespace, which waits for their finalizers, also of definitions that change meanwhile', async () => {
    await namespacesOf(api).create('team', {})
    const inTeam = objectsOf(api, jobs, { namespace: 'team' })
    await createAll(inTeam, [{ name: 'a' }, { name: 'b', metadata: { finalizers: ['example.com/f'] } }])
    const late = definitionOf({ plural: 'lates', scope: 'Namespaced' })
    await define(api, late)
    await objectsOf(api, late, { namespace: 'team' }).create('a', {})
    await objectsOf(api, jobs, { namespace: 'default' }).create('a', {})
    expect((await api.delete(namespacesOf(api).at('team'))).status).toBe(200)
    refusalOf(await api.post(inTeam.path, inTeam.body('c', {})), 403)
    objectOf(await api.mergePatch(pathOf(jobs), { spec: { names: { shortNames: ['jb'] } } }))
    await eventually(async () => expect((await inTeam.list()).names).toEqual(['b']))
    objectOf(await api.mergePatch(inTeam.at('b'), { metadata: { finalizers: null } }))
    await isGone(namespacesOf(api), 'team')
    expect((await objectsOf(api, jobs).list()).items.map(({ raw }) => raw)).toHaveLength(1)
    refusalOf(await api.post(inTeam.path, inTeam.body('c', {})), 404)
    objectOf(await api.delete(pathOf(late)))
  })

  it('are owners and dependents, of kinds that were there before and that come later', async () => {
    const inDefault = objectsOf(api, jobs, { namespace: 'default' })
    const maps = new Collection(api, 'v1', 'ConfigMap', 'configmaps', 'default')
    const tasks = definitionOf({ plural: 'tasks', scope: 'Namespaced', group: 'work.example.com' })
    await define(api, tasks)
    const ofTasks = objectsOf(api, tasks, { namespace: 'default' })
    const job = await inDefault.create('owner', {})
    const task = await ofTasks.create('middle', {}, reference(job))
    expect((await api.post(maps.path, { metadata: { name: 'leaf', ...reference(task) } })).status).toBe(201)
    expect((await api.delete(inDefault.at('owner'))).status).toBe(200)
    await isGone(ofTasks, 'middle')
    await isGone(maps, 'leaf')
    const other = await inDefault.create('foreground', {})
    await ofTasks.create('child', {}, reference(other))
    await api.delete(inDefault.at('foreground'), { propagationPolicy: 'Foreground' })
    await isGone(inDefault, 'foreground')
    refusalOf(await api.get(ofTasks.at('child')), 404)
    objectOf(await api.delete(pathOf(tasks)))
  })

  it('whose definition is deleted take their dependents along', async () => {
    const maps = new Collection(api, 'v1', 'ConfigMap', 'configmaps', 'default')
    const owners = definitionOf({ plural: 'owners', scope: 'Namespaced' })
    await define(api, owners)
    const objects = objectsOf(api, owners, { namespace: 'default' })
    const names = Array.from({ length: 100 }, (_, n) => `m-${n}`)
    for (const name of names) {
      const owner = await objects.create(name, {})
      expect((await api.post(maps.path, { metadata: { name, ...reference(owner) } })).status).toBe(201)
    }
    // The collector must have seen the owners to know that they are gone. It ends this deletion once it has seen all
    // that was there before, of every kind.
    await objects.create('last', {})
    await api.delete(objects.at('last'), { propagationPolicy: 'Foreground' })
    await isGone(objects, 'last')
    objectOf(await api.delete(pathOf(owners)))
    for (const name of names) await isGone(maps, name)
  })

  it('count in quotas', async () => {
    await namespacesOf(api).create('bounded', {})
    const quota = { metadata: { name: 'few' }, spec: { hard: { 'count/jobs.work.example.com': '2' } } }
    expect((await api.post('/api/v1/namespaces/bounded/resourcequotas', quota)).status).toBe(201)
    const objects = objectsOf(api, jobs, { namespace: 'bounded' })
    await createAll(objects, [{ name: 'a' }, { name: 'b' }])
    expect(refusalOf(await api.post(objects.path, objects.body('c', {})), 403).message).toContain(
      'exceeded quota: few',
    )
    // The definition changes, and what is used stays known.
    objectOf(await api.mergePatch(pathOf(jobs), { spec: { names: { categories: ['work'] } } }))
    refusalOf(await api.post(objects.path, objects.body('c', {})), 403)
    await eventually(async () =>
      expect(objectOf(await api.get('/api/v1/namespaces/bounded/resourcequotas/few')).status).toMatchObject({
        used: { 'count/jobs.work.example.com': '2' },
      }),
    )
    await api.delete(objects.at('a'))
    await objects.create('c', {})
  })
})

describe('with roles and an audit log, the objects of a definition', () => {
  let world: SharedWorld
  let users: Users<'ann' | 'bob' | 'eve' | 'vic'>
  let folder: string
  let audit: AuditTrail

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'setpoint-roles-'))
    audit = new AuditTrail(join(folder, 'audit.log'))
    users = await Users.make({ ann: ['setpoint:admins'], bob: ['team'], eve: [], vic: ['setpoint:viewers'] })
    world = await startSharedWorld('embedded', [], { args: [...users.args, '--audit-log', audit.path] })
  })
  afterAll(async () => {
    await world?.end()
    await rm(folder, { recursive: true, force: true })
  })

  it('are for those whose roles name their group, and definitions for those who may write definitions', async () => {
    const [ann, bob, eve, vic] = (['ann', 'bob', 'eve', 'vic'] as const).map(name =>
      users.api(world.server.url, name),
    )
    if (ann === undefined || bob === undefined || eve === undefined || vic === undefined)
      throw new Error('no user')
    for (const each of [bob, eve, vic]) refusalOf(await each.post(definitionsPath, jobs), 403)
    const rbac = '/apis/rbac.authorization.k8s.io/v1'
    const rules = [
      {
        apiGroups: ['work.example.com'],
        resources: ['jobs', 'jobs/status'],
        verbs: ['get', 'list', 'watch', 'create', 'update'],
      },
    ]
    objectOf(await ann.post(`${rbac}/clusterroles`, { metadata: { name: 'jobs' }, rules }), 201)
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'jobs' }
    const subjects = [{ kind: 'User', apiGroup: 'rbac.authorization.k8s.io', name: 'bob' }]
    objectOf(
      await ann.post(`${rbac}/clusterrolebindings`, { metadata: { name: 'jobs' }, roleRef, subjects }),
      201,
    )
    await define(ann, jobs)
    const path = objectsOf(ann, jobs, { namespace: 'default' })
    const body = path.body('a', { n: 1 })
    objectOf(await bob.post(path.path, body), 201)
    refusalOf(await bob.delete(path.at('a')), 403)
    for (const [method, at] of [
      ['get', path.path],
      ['get', path.at('a')],
      ['delete', path.path],
    ] as const)
      refusalOf(await eve[method](at), 403)
    expect((await vic.get(path.path)).status).toBe(200)
    refusalOf(await vic.post(path.path, path.body('b', {})), 403)
    // Whether a kind exists is told to those alone who may know.
    refusalOf(await eve.get('/apis/work.example.com/v1/namespaces/default/nones'), 403)
    const watching = await Watch.open(world.server.url, path.path, { headers: users.headersOf('bob') })
    await watching.synced()
    expect((await ann.delete(`${rbac}/clusterrolebindings/jobs`)).status).toBe(200)
    expect((await watching.closed).code).toBe(1008)
    refusalOf(await bob.get(path.path), 403)
  })

  it('are in the audit log, with the deletions that the server makes', async () => {
    const ann = users.api(world.server.url, 'ann')
    const traced = definitionOf({ plural: 'traceds' })
    await define(ann, traced)
    const objects = objectsOf(ann, traced)
    const answer = await ann.post(objects.path, objects.body('a', {}))
    expect(await audit.end(answer)).toMatchObject({
      verb: 'create',
      objectRef: { apiGroup: 'live.example.com', apiVersion: 'v1', resource: 'traceds', name: 'a' },
      responseStatus: { code: 201 },
    })
    objectOf(await ann.delete(pathOf(traced)))
    const deletions = await audit.until(
      ({ verb, objectRef }) =>
        verb === 'delete' && objectRef?.resource === 'traceds' && objectRef.name === 'a',
    )
    expect(deletions.at(-1)).toMatchObject({
      user: { username: 'setpoint:server' },
      responseStatus: { code: 200 },
    })
  })
})
