import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Api, objectOf, refusalOf } from './support/api.ts'
import { Multiplexed } from './support/multiplex.ts'
import { transports } from './support/transports.ts'
import { Users } from './support/users.ts'
import { refusedWatch, Watch } from './support/watch.ts'
import { eventually, type SharedWorld, startSharedWorld } from './support/worlds.ts'

const group = 'rbac.authorization.k8s.io'
const rbac = `/apis/${group}/v1`
const items = '/apis/items.example.com/v1/items'
const places = '/apis/places.example.com/v1/places'
const placesIn = (namespace: string) => `/apis/places.example.com/v1/namespaces/${namespace}/places`
const routes = '/apis/console.api.demo.example.com/v1'

const rule = (verbs: string[], apiGroup: string, resources: string[], more: object = {}) => ({
  ...{ apiGroups: [apiGroup], verbs, resources },
  ...more,
})
const roleRef = (kind: 'Role' | 'ClusterRole', name: string) => ({ apiGroup: group, kind, name })
const user = (name: string) => ({ kind: 'User', apiGroup: group, name })
const item = (name: string, spec: object = {}) => ({
  ...{ apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name }, spec },
})

const names = ['ann', 'vic', 'bob', 'eve', 'nat', 'met', 'loe'] as const
type Name = (typeof names)[number]

let world: SharedWorld
let users: Users<Name>
let as: Record<Name, Api>
let ann: Api

const clusterRole = (name: string, rules: object[], more: object = {}) =>
  ann.post(`${rbac}/clusterroles`, { metadata: { name }, rules, ...more })
const bindCluster = (name: string, role: string, ...subjects: object[]) =>
  ann.post(`${rbac}/clusterrolebindings`, {
    ...{ metadata: { name }, roleRef: roleRef('ClusterRole', role), subjects },
  })
const bindIn = (namespace: string, name: string, role: object, ...subjects: object[]) =>
  ann.post(`${rbac}/namespaces/${namespace}/rolebindings`, { metadata: { name }, roleRef: role, subjects })
const grant = async (name: string, to: object, ...rules: object[]) => {
  objectOf(await clusterRole(name, rules), 201)
  objectOf(await bindCluster(name, name, to), 201)
}
const withdraw = async (name: string) => {
  for (const kind of ['clusterrolebindings', 'clusterroles'])
    expect((await ann.delete(`${rbac}/${kind}/${name}`)).status).toBe(200)
}

beforeAll(async () => {
  users = await Users.make({
    ...{ ann: ['setpoint:admins'], vic: ['setpoint:viewers'], bob: ['team'], eve: ['others'] },
    ...{ nat: ['others'], met: ['others'], loe: ['others'] },
  })
  world = await startSharedWorld(
    'embedded',
    ['items-plugin', 'places-plugin', 'demo-plugin', 'safe-plugin'],
    {
      args: users.args,
    },
  )
  const { url } = world.server
  as = {
    ...{ ann: users.api(url, 'ann'), vic: users.api(url, 'vic'), bob: users.api(url, 'bob') },
    ...{ eve: users.api(url, 'eve'), nat: users.api(url, 'nat'), met: users.api(url, 'met') },
    loe: users.api(url, 'loe'),
  }
  ann = as.ann
  for (const name of ['x', 'y']) objectOf(await ann.post('/api/v1/namespaces', { metadata: { name } }), 201)
  for (const name of ['mine', 'other']) objectOf(await ann.post(items, item(name)), 201)
})
afterAll(async () => {
  await world?.end()
  await users?.remove()
})

describe('the table of decisions', () => {
  /** bob reads items, edits places in x; eve does everything with one item; met scrapes; loe calls a route. */
  beforeAll(async () => {
    const group = { kind: 'Group', name: 'team' }
    await grant('read-items', group, rule(['get', 'list', 'watch'], 'items.example.com', ['items']))
    objectOf(
      await clusterRole('edit-places', [
        rule(['get', 'list', 'watch', 'create', 'deletecollection'], 'places.example.com', ['places']),
        rule(['update'], 'places.example.com', ['places/status']),
        rule(['get', 'list'], '', ['namespaces']),
      ]),
      201,
    )
    objectOf(await bindIn('x', 'bob', roleRef('ClusterRole', 'edit-places'), user('bob')), 201)
    await grant(
      'own-item',
      user('eve'),
      rule(['*'], 'items.example.com', ['items'], { resourceNames: ['mine'] }),
    )
    objectOf(
      await ann.post(`${rbac}/namespaces/x/roles`, {
        metadata: { name: 'any-status' },
        rules: [rule(['get', 'update'], '*', ['*/status'])],
      }),
      201,
    )
    objectOf(await bindIn('x', 'eve', roleRef('Role', 'any-status'), user('eve')), 201)
    objectOf(await bindCluster('met', 'setpoint:metrics-reader', user('met')), 201)
    await grant(
      'summaries',
      user('loe'),
      rule(['get'], 'console.api.demo.example.com', ['gadgets/summary'], { resourceNames: ['a'] }),
    )
  })

  const selectMine = '?fieldSelector=metadata.name%3Dmine'
  const header = '                                   ann vic bob eve nat met loe'
  const table = [
    `GET    ${items}                           | + + + - - - -`,
    `GET    ${items}/mine                      | + + + + - - -`,
    `GET    ${items}/other                     | + + + - - - -`,
    `HEAD   ${items}/mine                      | + + + + - - -`,
    `GET    ${items}${selectMine}              | + + + + - - -`,
    `GET    ${items}${selectMine},spec.rank%3Da | + + + + - - -`,
    `GET    ${items}?fieldSelector=metadata.name!%3Dmine | + + + - - - -`,
    `GET    ${items}?fieldSelector=metadata.name+in+(mine,other) | + + + - - - -`,
    `GET    ${items}?fieldSelector=spec.rank+in+(a,metadata.name%3Dmine,b) | + + + - - - -`,
    `GET    ${items}?fieldSelector=spec.rank%3Da%5C,metadata.name%3Dmine | + + + - - - -`,
    `POST   ${items}                           | + - - - - - -`,
    `PUT    ${items}/mine                      | + - - + - - -`,
    `PUT    ${items}/other                     | + - - - - - -`,
    `PATCH  ${items}/mine                      | + - - + - - -`,
    `DELETE ${items}${selectMine}&dryRun=All   | + - - - - - -`,
    `DELETE ${items}/absent                    | + - - - - - -`,
    `GET    ${places}                          | + + - - - - -`,
    `GET    ${placesIn('x')}                   | + + + - - - -`,
    `GET    ${placesIn('y')}                   | + + - - - - -`,
    `POST   ${placesIn('x')}                   | + - + - - - -`,
    `POST   ${placesIn('y')}                   | + - - - - - -`,
    `DELETE ${placesIn('x')}?dryRun=All        | + - + - - - -`,
    `DELETE ${placesIn('x')}/a                 | + - - - - - -`,
    `GET    ${placesIn('x')}/a                 | + + + - - - -`,
    `GET    /api/v1/namespaces/x               | + + + - - - -`,
    `GET    /api/v1/namespaces/y               | + + - - - - -`,
    `GET    /api/v1/namespaces                 | + + - - - - -`,
    `GET    /api/v1/namespaces/x/status        | + + - + - - -`,
    `DELETE /api/v1/namespaces/x?dryRun=All    | + - - - - - -`,
    `GET    ${placesIn('x')}/a/status          | + + - + - - -`,
    `PUT    ${placesIn('x')}/a/status          | + - + + - - -`,
    `PUT    ${placesIn('y')}/a/status          | + - - - - - -`,
    `PATCH  ${placesIn('x')}/a/status          | + - - - - - -`,
    `GET    /apis                              | + + + + + + +`,
    `HEAD   /apis                              | + + + + + + +`,
    `POST   /apis                              | + - - - - - -`,
    `GET    /openapi/v3                        | + + + + + + +`,
    `GET    /metrics                           | + + - - - + -`,
    `GET    /operations/backup                 | + - - - - - -`,
    `GET    ${routes}/gadgets/a/summary        | + + - - - - +`,
    `GET    ${routes}/gadgets/b/summary        | + + - - - - -`,
    `GET    ${routes}/gadgets/a%2Fsummary      | + + - - - - -`,
    `POST   ${routes}/gadgets                  | + - - - - - -`,
    `GET    /apis/none.example.com/v1/things   | + + - - - - -`,
    `GET    /nothing                           | + + - - - - -`,
    `GET    /apis/safes.example.com/v1/safes   | + - - - - - -`,
    `GET    ${rbac}/clusterroles               | + + - - - - -`,
  ]

  it.each(table)(`%s\n${header}`, async row => {
    const [request = '', expected = ''] = row.split('|')
    const [method = '', path = ''] = request.trim().split(/ +/)
    const decided = names.map(async name => {
      // No request changes anything: writes have no body.
      const { status } = await as[name].request(method, path, undefined)
      return status === 403 ? '-' : '+'
    })
    expect((await Promise.all(decided)).join(' ')).toBe(expected.trim())
  })

  it.each(['mine', 'other'])('applies to watches of %s on every transport, and to Tables', async name => {
    const path = `${items}/${name}`
    const headers = { ...users.headersOf('eve') }
    const mayWatch = name === 'mine'
    const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'
    const codes = [
      await refusedOrOpen(path, headers),
      await refusedOrOpen(`${items}?fieldSelector=metadata.name%3D${name}`, headers),
      (await as.eve.get(path, { headers: { accept: table } })).status,
    ]
    expect(codes).toEqual(mayWatch ? [101, 101, 200] : [403, 403, 403])
    for (const transport of [transports.lines, transports.events]) {
      const events: string[] = []
      const onEvent = (text: string) => events.push(text)
      const connection = transport({
        ...{ url: world.server.url, address: path, start: 'present', headers, onEvent },
      })
      if (mayWatch) await expect.poll(() => events.length, { timeout: 60_000 }).toBeGreaterThan(0)
      connection.cut()
      await connection.ended
      if (!mayWatch) expect(events).toEqual([])
    }
    const socket = await Multiplexed.open(world.server.url, '/apis', headers)
    socket.subscribe('a', path)
    if (mayWatch) await socket.synced('a')
    else {
      await socket.until(() => socket.story('a').length === 2, 'the subscription ended')
      expect(socket.story('a')).toEqual(['ERROR', 'END 403'])
    }
  })

  async function refusedOrOpen(path: string, headers: Record<string, string>): Promise<number> {
    const watch = await Watch.open(world.server.url, path, { headers }).catch(() => undefined)
    if (watch === undefined) return (await refusedWatch(world.server.url, path, headers)).status
    await watch.close()
    return 101
  }
})

it('a kind that is not served is 404 only to those who may watch it, over every transport', async () => {
  const path = '/apis/items.example.com/v1/nothing'
  for (const [name, api, code] of [
    ['nat', as.nat, 403],
    ['ann', as.ann, 404],
  ] as const) {
    const headers = users.headersOf(name)
    expect((await api.get(`${path}?watch=true`)).status).toBe(code)
    expect((await refusedWatch(world.server.url, path, headers)).status).toBe(code)
    const socket = await Multiplexed.open(world.server.url, '/apis', headers)
    socket.subscribe('a', path)
    await socket.ends('a')
    expect(socket.story('a')).toEqual(['ERROR', `END ${code}`])
    await socket.close()
  }
})

describe('a refusal', () => {
  it('says what is forbidden, as Kubernetes does', async () => {
    const { message, details } = refusalOf(await as.nat.get(`${items}/a`), 403)
    expect(message).toBe(
      'items.items.example.com "a" is forbidden: User "nat" cannot get resource "items" in API group "items.example.com" at the cluster scope',
    )
    expect(details).toEqual({ group: 'items.example.com', kind: 'items', name: 'a' })
    expect(refusalOf(await as.nat.get(`${placesIn('x')}/a/status`), 403).message).toBe(
      'places.places.example.com "a" is forbidden: User "nat" cannot get resource "places/status" in API group "places.example.com" in the namespace "x"',
    )
    expect(refusalOf(await as.nat.get('/metrics'), 403).message).toBe(
      'forbidden: User "nat" cannot get path "/metrics"',
    )
  })

  it('of a taken value names the holder only to those who may read it', async () => {
    objectOf(await ann.post(items, item('holder', { code: 'c1' })), 201)
    await grant('creator', user('nat'), rule(['create'], 'items.example.com', ['items']))
    const taken = item('second', { code: 'c1' })
    expect(refusalOf(await as.nat.post(items, taken), 409).message).not.toContain('holder')
    expect(refusalOf(await ann.post(items, taken), 409).message).toContain('held by "holder"')
    await withdraw('creator')
  })
})

describe('a change of roles and bindings', () => {
  it('gives the groups of subjects and of the role, and no field that the client did not send', async () => {
    const binding = {
      metadata: { name: 'completed' },
      roleRef: { kind: 'ClusterRole', name: 'completed' },
      subjects: [{ kind: 'User', name: 'nat' }],
    }
    const path = `${rbac}/clusterrolebindings?fieldValidation=Strict&dryRun=All`
    const { status, body } = await ann.post(path, binding)
    expect([status, body]).toMatchObject([
      201,
      { roleRef: roleRef('ClusterRole', 'completed'), subjects: [user('nat')] },
    ])
  })

  it('is in force when it is acknowledged', async () => {
    for (let turn = 0; turn < 10; turn++) {
      refusalOf(await as.nat.get(items), 403)
      await grant('lister', user('nat'), rule(['list'], 'items.example.com', ['items']))
      expect((await as.nat.get(items)).status).toBe(200)
      const changed = await ann.mergePatch(`${rbac}/clusterroles/lister`, {
        rules: [rule(['get'], 'items.example.com', ['items'])],
      })
      expect(changed.status).toBe(200)
      refusalOf(await as.nat.get(items), 403)
      await withdraw('lister')
    }
  })

  it('ends the watches that it forbids, and no others', async () => {
    const { url } = world.server
    await grant('watcher', user('nat'), rule(['watch', 'list'], 'items.example.com', ['items']))
    const headers = users.headersOf('nat')
    const watch = await Watch.open(url, items, { headers })
    await watch.synced()
    const other = await Watch.open(url, items, { headers: users.headersOf('vic') })
    await other.synced()
    const socket = await Multiplexed.open(url, '/apis', headers)
    socket.subscribe('a', items)
    await socket.synced('a')
    const streams = [transports.lines, transports.events].map(transport => {
      const events: string[] = []
      const onEvent = (text: string) => events.push(text)
      return { events, ...transport({ url, address: items, start: 'present', headers, onEvent }) }
    })
    for (const { events } of streams)
      await expect.poll(() => events.some(text => text.includes('initial-events-end'))).toBe(true)

    // Other changes end nothing.
    await grant('unrelated', user('bob'), rule(['get'], 'items.example.com', ['items']))
    await withdraw('unrelated')
    expect((await ann.mergePatch(`${items}/mine`, { spec: { rank: 'one' } })).status).toBe(200)
    await watch.until(({ events }) => events.some(({ type }) => type === 'MODIFIED'))

    await withdraw('watcher')
    expect(await watch.closed).toMatchObject({ code: 1008, reason: 'Forbidden' })
    expect(watch.events.at(-1)?.raw).toMatchObject({ type: 'ERROR', object: { code: 403, kind: 'Status' } })
    await socket.until(() => socket.story('a').at(-1) === 'END 403', 'the subscription ended')
    for (const { events, ended } of streams) {
      await ended
      expect(JSON.parse(events.at(-1) ?? '{}')).toMatchObject({ type: 'ERROR', object: { code: 403 } })
    }
    await other.close()
    expect(other.events.some(({ type }) => type === 'ERROR')).toBe(false)
  })
})

describe('nobody grants what he does not hold:', () => {
  const rules = [rule(['get'], 'items.example.com', ['items'])]
  const asLoe = {
    role: (name: string, given: object[]) =>
      as.loe.post(`${rbac}/clusterroles`, { metadata: { name }, rules: given }),
    binding: (name: string, role: string) =>
      as.loe.post(`${rbac}/clusterrolebindings`, {
        ...{ metadata: { name }, roleRef: roleRef('ClusterRole', role), subjects: [user('loe')] },
      }),
  }
  beforeAll(() =>
    grant(
      'role-writer',
      user('loe'),
      rule(['create', 'update', 'patch', 'get', 'delete'], group, ['clusterroles', 'clusterrolebindings']),
    ),
  )

  it('a role needs its rules, or the verb escalate', async () => {
    expect(refusalOf(await asLoe.role('more', rules), 403).message).toBe(
      'clusterroles.rbac.authorization.k8s.io "more" is forbidden: user "loe" (groups=["others","system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:["items.example.com"], Resources:["items"], Verbs:["get"]}',
    )
    refusalOf(await as.loe.post(`${rbac}/clusterroles?dryRun=All`, { metadata: { name: 'd' }, rules }), 403)
    await grant('held', user('loe'), ...rules)
    objectOf(await asLoe.role('more', rules), 201)
    const wider = [rule(['get'], 'items.example.com', ['*'])]
    const everything = [rule(['*'], '*', ['*'])]
    const path = [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }]
    for (const refused of [wider, everything, path]) {
      refusalOf(await as.loe.mergePatch(`${rbac}/clusterroles/more`, { rules: refused }), 403)
      refusalOf(await asLoe.role('new', refused), 403)
    }
    await grant('escalator', user('loe'), rule(['escalate'], group, ['clusterroles']))
    expect((await as.loe.mergePatch(`${rbac}/clusterroles/more`, { rules: wider })).status).toBe(200)
    for (const name of ['escalator', 'held']) await withdraw(name)
    expect((await ann.delete(`${rbac}/clusterroles/more`)).status).toBe(200)
  })

  it('a binding needs the rules of its role, or the verb bind', async () => {
    objectOf(await clusterRole('bound', rules), 201)
    refusalOf(await asLoe.binding('b', 'bound'), 403)
    refusalOf(await asLoe.binding('b', 'cluster-admin'), 403)
    refusalOf(await asLoe.binding('b', 'absent'), 404)
    await grant('binder', user('loe'), rule(['bind'], group, ['clusterroles'], { resourceNames: ['bound'] }))
    refusalOf(await asLoe.binding('b', 'cluster-admin'), 403)
    objectOf(await asLoe.binding('b', 'bound'), 201)
    expect((await as.loe.get(`${items}/mine`)).status).toBe(200)
    for (const name of ['b', 'binder']) await ann.delete(`${rbac}/clusterrolebindings/${name}`)
    for (const name of ['bound', 'binder']) await ann.delete(`${rbac}/clusterroles/${name}`)
  })

  it('viewers hold no wildcards, because they do not read secrets', async () => {
    await grant('vic-writes', user('vic'), rule(['create'], group, ['clusterroles']))
    const by = (given: object[]) =>
      as.vic.post(`${rbac}/clusterroles`, { metadata: { name: 'by-vic' }, rules: given })
    refusalOf(await by([rule(['get'], '*', ['*'])]), 403)
    refusalOf(await by([rule(['get'], 'safes.example.com', ['safes'])]), 403)
    refusalOf(await by([{ verbs: ['get'], nonResourceURLs: ['/o*'] }]), 403)
    objectOf(await by(rules), 201)
    await withdraw('vic-writes')
    await ann.delete(`${rbac}/clusterroles/by-vic`)
  })

  it('an aggregation needs everything', async () => {
    const aggregationRule = { clusterRoleSelectors: [{ matchLabels: { a: 'b' } }] }
    const refused = await as.loe.post(`${rbac}/clusterroles`, { metadata: { name: 'agg' }, aggregationRule })
    expect(refusalOf(refused, 403).message).toContain('must have cluster-admin privileges')
  })
})

describe('the kinds', () => {
  it('are validated as in Kubernetes', async () => {
    const causesOf = async (kind: string, body: object) =>
      refusalOf(await ann.post(`${rbac}/${kind}`, { metadata: { name: 'bad' }, ...body }), 422).causes.map(
        ({ field }) => field,
      )
    const inX = 'namespaces/x/roles'
    expect(await causesOf('clusterroles', { rules: [{ verbs: [] }] })).toEqual([
      ...['rules[0].verbs', 'rules[0].apiGroups', 'rules[0].resources'],
    ])
    const path = { verbs: ['get'], nonResourceURLs: ['/a'] }
    expect(await causesOf(inX, { rules: [path] })).toEqual(['rules[0].nonResourceURLs'])
    expect(await causesOf('clusterroles', { rules: [{ ...path, resources: ['a'] }] })).toEqual([
      'rules[0].nonResourceURLs',
    ])
    const many = Array.from({ length: 101 }, (_, at) => `v${at}`)
    expect(await causesOf(inX, { rules: [{ verbs: many, apiGroups: many, resources: ['a'] }] })).toEqual([
      'rules',
    ])
    const aggregating = (...clusterRoleSelectors: object[]) =>
      causesOf('clusterroles', { aggregationRule: { clusterRoleSelectors } })
    const selector = 'aggregationRule.clusterRoleSelectors'
    expect(await aggregating({ matchLabels: { 'a b': 'c' } }, { matchLabels: { a: 'b c' } })).toEqual([
      ...[`${selector}[0].matchLabels`, `${selector}[1].matchLabels`],
    ])
    const matchExpressions = [
      { key: 'a b', operator: 'Exists', values: ['c'] },
      { key: 'a', operator: 'In' },
      { key: 'a', operator: 'NotIn', values: ['b', 'b c'] },
    ]
    expect(await aggregating({ matchExpressions })).toEqual([
      ...['matchExpressions[0].values', 'matchExpressions[0].key', 'matchExpressions[1].values'].map(
        field => `${selector}[0].${field}`,
      ),
      `${selector}[0].matchExpressions[2].values[1]`,
    ])
    const ref = roleRef('ClusterRole', 'view')
    expect(await causesOf('clusterrolebindings', { roleRef: roleRef('Role', 'view') })).toEqual([
      'roleRef.kind',
    ])
    expect(await causesOf('clusterrolebindings', {})).toEqual(['roleRef'])
    const subjects = [{ kind: 'ServiceAccount', name: 'a' }, { kind: 'Robot', name: 'b' }, user('')]
    expect(await causesOf('clusterrolebindings', { roleRef: ref, subjects })).toEqual([
      ...['subjects[0].namespace', 'subjects[1].kind', 'subjects[2].name'],
    ])
  })

  it('complete the API groups, and keep the role of a binding', async () => {
    const subjects = [
      { kind: 'Group', name: 'g' },
      { kind: 'ServiceAccount', name: 's', namespace: 'x' },
    ]
    const created = objectOf(
      await ann.post(`${rbac}/clusterrolebindings`, {
        ...{ metadata: { name: 'kept:a' }, roleRef: { kind: 'ClusterRole', name: 'view' }, subjects },
      }),
      201,
    )
    expect(created.raw).toMatchObject({
      roleRef: roleRef('ClusterRole', 'view'),
      subjects: [{ apiGroup: group }, { kind: 'ServiceAccount' }],
    })
    const path = `${rbac}/clusterrolebindings/kept:a`
    const other = { roleRef: roleRef('ClusterRole', 'edit') }
    expect(refusalOf(await ann.mergePatch(path, other), 422).causes).toMatchObject([{ field: 'roleRef' }])
    expect((await ann.delete(path)).status).toBe(200)
  })
})

it('a service account without a namespace is in that of the RoleBinding', async () => {
  const subject = { kind: 'ServiceAccount', name: 'robot' }
  objectOf(await bindIn('x', 'robot', roleRef('ClusterRole', 'view'), subject), 201)
  const mayList = async (account: string, namespace: string) => {
    const resourceAttributes = { verb: 'list', group: '', resource: 'configmaps', namespace }
    const review = { spec: { user: `system:serviceaccount:${account}`, resourceAttributes } }
    const answer = await ann.post('/apis/authorization.k8s.io/v1/subjectaccessreviews', review)
    return answer.body
  }
  expect(await mayList('x:robot', 'x')).toMatchObject({ status: { allowed: true } })
  for (const [account, namespace] of [
    ['x:robot', 'y'],
    ['y:robot', 'x'],
  ] as const)
    expect(await mayList(account, namespace)).toMatchObject({ status: { allowed: false } })
  const applied = objectOf(await ann.get(`${rbac}/namespaces/x/rolebindings/robot`)).raw
  expect(applied.subjects).toEqual([subject])
  expect((await ann.delete(`${rbac}/namespaces/x/rolebindings/robot`)).status).toBe(200)
})

describe('default roles', () => {
  const rulesOf = async (name: string) => objectOf(await ann.get(`${rbac}/clusterroles/${name}`)).raw.rules

  it('are there, with those of each plugin in the aggregated ones', async () => {
    await eventually(async () => {
      const view = JSON.stringify(await rulesOf('view'))
      for (const resource of ['"configmaps"', '"items"', '"places"', '"gadgets"'])
        expect(view).toContain(resource)
      expect(view).not.toContain('safes')
      expect(view).not.toContain('secrets')
      expect(JSON.stringify(await rulesOf('admin'))).toContain('safes')
    })
    const { raw } = objectOf(await ann.get(`${rbac}/clusterroles/admin`))
    expect(raw).toMatchObject({
      metadata: { annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'true' } },
      aggregationRule: { clusterRoleSelectors: [{}] },
    })
  })

  it('let the administrator of a namespace read its quotas, and not change them', async () => {
    const quotas = '/api/v1/namespaces/y/resourcequotas'
    objectOf(await bindIn('y', 'nat-admin', roleRef('ClusterRole', 'admin'), user('nat')), 201)
    const quota = { metadata: { name: 'team' }, spec: { hard: { 'count/configmaps': '5' } } }
    objectOf(await ann.post(quotas, quota), 201)
    expect((await as.nat.get(`${quotas}/team`)).status).toBe(200)
    const raised = { spec: { hard: { 'count/configmaps': '9' } } }
    refusalOf(await as.nat.mergePatch(`${quotas}/team`, raised), 403)
    refusalOf(await as.nat.mergePatch(`${quotas}/team/status`, { status: {} }), 403)
    refusalOf(await as.nat.post(quotas, quota), 403)
    refusalOf(await as.nat.delete(`${quotas}/team`), 403)
    for (const path of [`${quotas}/team`, `/apis/${group}/v1/namespaces/y/rolebindings/nat-admin`])
      expect((await ann.delete(path)).status).toBe(200)
  })

  it('take in what a label adds, at once', async () => {
    objectOf(await bindIn('y', 'nat', roleRef('ClusterRole', 'view'), user('nat')), 201)
    const path = '/apis/extra.example.com/v1/namespaces/y/things'
    refusalOf(await as.nat.get(path), 403)
    const labels = { 'rbac.authorization.k8s.io/aggregate-to-view': 'true' }
    objectOf(
      await ann.post(`${rbac}/clusterroles`, {
        metadata: { name: 'extra', labels },
        rules: [rule(['list'], 'extra.example.com', ['things'])],
      }),
      201,
    )
    refusalOf(await as.nat.get(path), 404)
    expect((await ann.delete(`${rbac}/clusterroles/extra`)).status).toBe(200)
    refusalOf(await as.nat.get(path), 403)
    await eventually(async () => expect(JSON.stringify(await rulesOf('view'))).not.toContain('extra'))
    await ann.delete(`${rbac}/namespaces/y/rolebindings/nat`)
  })
})

describe('an apply that creates', () => {
  it('needs create as well as patch', async () => {
    await grant('patcher', user('nat'), rule(['patch', 'get'], 'items.example.com', ['items']))
    const apply = (name: string) =>
      as.nat.request('PATCH', `${items}/${name}?fieldManager=m`, JSON.stringify(item(name)), {
        type: 'application/apply-patch+yaml',
      })
    expect((await apply('mine')).status).toBe(200)
    expect(refusalOf(await apply('applied'), 403).message).toContain('cannot create resource "items"')
    await grant('creator', user('nat'), rule(['create'], 'items.example.com', ['items']))
    expect((await apply('applied')).status).toBe(201)
    for (const name of ['patcher', 'creator']) await withdraw(name)
  })
})

describe('impersonation', () => {
  const list = (api: Api, headers: Record<string, string>) => api.get(items, { headers })

  it('lets an administrator act for others, with their permissions', async () => {
    refusalOf(await list(ann, { 'impersonate-user': 'nat' }), 403)
    expect((await list(ann, { 'impersonate-user': 'nat', 'impersonate-group': 'team' })).status).toBe(200)
    const account = 'system:serviceaccount:x:robot'
    await grant(
      'robots',
      { kind: 'Group', name: 'system:serviceaccounts:x' },
      rule(['list'], 'items.example.com', ['items']),
    )
    expect((await list(ann, { 'impersonate-user': account })).status).toBe(200)
    await withdraw('robots')
  })

  it('needs the verb impersonate for each part', async () => {
    const { message } = refusalOf(await list(as.nat, { 'impersonate-user': 'bob' }), 403)
    expect(message).toBe(
      'users "bob" is forbidden: User "nat" cannot impersonate resource "users" in API group "" at the cluster scope',
    )
    await grant('actor', user('nat'), rule(['impersonate'], '', ['users'], { resourceNames: ['bob'] }))
    const asGroup = { 'impersonate-user': 'bob', 'impersonate-group': 'setpoint:admins' }
    refusalOf(await list(as.nat, asGroup), 403)
    refusalOf(await list(as.nat, { 'impersonate-user': 'bob', 'impersonate-uid': '1' }), 403)
    refusalOf(await list(as.nat, { 'impersonate-user': 'bob', 'impersonate-extra-a': 'b' }), 403)
    refusalOf(await list(as.nat, { 'impersonate-group': 'team' }), 400)
    refusalOf(await list(as.nat, { 'impersonate-user': 'bob', 'impersonate-other': 'b' }), 400)
    // bob may list items only as a member of the team.
    refusalOf(await list(as.nat, { 'impersonate-user': 'bob' }), 403)
    await withdraw('actor')
  })

  it('ends a watch when either of the two loses his permission', async () => {
    await grant('actor', user('nat'), rule(['impersonate'], '', ['users', 'groups']))
    const headers = {
      ...users.headersOf('nat'),
      'impersonate-user': 'someone',
      'impersonate-group': 'team',
    }
    const watch = await Watch.open(world.server.url, items, { headers })
    await watch.synced()
    await withdraw('actor')
    expect(await watch.closed).toMatchObject({ code: 1008 })
  })
})
