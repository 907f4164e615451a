import { createRemoteJWKSet, jwtVerify } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { Users } from './support/users.ts'
import { Watch } from './support/watch.ts'
import { type SharedWorld, type Store, startSharedWorld, stores } from './support/worlds.ts'

const namespace = '/api/v1/namespaces/default'
const accounts = `${namespace}/serviceaccounts`
const secrets = `${namespace}/secrets`
const itemsPath = '/apis/items.example.com/v1/items'
const rbac = '/apis/rbac.authorization.k8s.io/v1'

describe.each(stores)('tokens of service accounts on %s', (store: Store) => {
  let world: SharedWorld
  let users: Users<'ann' | 'vic'>
  let ann: Api
  /** Clients of every server. */
  let servers: Api[]

  beforeAll(async () => {
    users = await Users.make({ ann: ['setpoint:admins'], vic: ['setpoint:viewers'] })
    world = await startSharedWorld(store, ['items-plugin'], { args: users.args })
    ann = users.api(world.server.url, 'ann')
    const others = store === 'etcd' ? [await world.another()] : []
    servers = [world.server, ...others].map(({ url }) => new Api(url))
    const apiGroup = 'rbac.authorization.k8s.io'
    const rules = [
      { apiGroups: ['items.example.com'], resources: ['items'], verbs: ['get', 'list', 'watch'] },
    ]
    objectOf(await ann.post(`${rbac}/clusterroles`, { metadata: { name: 'view-items' }, rules }), 201)
    const binding = {
      metadata: { name: 'robots' },
      roleRef: { apiGroup, kind: 'ClusterRole', name: 'view-items' },
      subjects: [{ apiGroup, kind: 'Group', name: 'system:serviceaccounts:default' }],
    }
    objectOf(await ann.post(`${rbac}/clusterrolebindings`, binding), 201)
  })
  afterAll(async () => {
    await world?.end()
    await users?.remove()
  })

  const create = async (path: string, name: string) =>
    objectOf(await ann.post(path, { metadata: { name } }), 201)

  async function tokenOf(name: string, spec: object = {}): Promise<string> {
    const { status, body } = await ann.post(`${accounts}/${name}/token`, { spec })
    expect(status).toBe(201)
    return textOf(fieldsOf(fieldsOf(body).status).token)
  }

  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
  const list = (api: Api, token: string) => api.get(itemsPath, { headers: bearer(token) })

  it('let a program do on every server what the roles of its account allow', async () => {
    const { metadata } = await create(accounts, 'robot')
    const token = await tokenOf('robot')
    for (const api of servers) {
      await expect.poll(async () => (await list(api, token)).status).toBe(200)
      refusalOf(await api.delete(`${itemsPath}/a`, undefined, { headers: bearer(token) }), 403)
      const review = await api.post(
        '/apis/authentication.k8s.io/v1/selfsubjectreviews',
        {},
        { headers: bearer(token) },
      )
      expect(fieldsOf(review.body).status).toEqual({
        userInfo: {
          username: 'system:serviceaccount:default:robot',
          uid: metadata.uid,
          groups: ['system:serviceaccounts', 'system:serviceaccounts:default', 'system:authenticated'],
          extra: { 'authentication.kubernetes.io/credential-id': [expect.stringMatching(/^JTI=/)] },
        },
      })
    }
  })

  it('are verified by others with the keys that any server lists, as their issuer says', async () => {
    await create(accounts, 'verified')
    const token = await tokenOf('verified', { audiences: ['other.example.com'] })
    // Kubernetes' role lets service accounts read both.
    const headers = bearer(await tokenOf('verified'))
    for (const api of servers) {
      const found = await api.get('/.well-known/openid-configuration', { headers })
      expect(found.body).toEqual({
        issuer: 'setpoint/serviceaccount',
        jwks_uri: `${api.url}/openid/v1/jwks`,
        response_types_supported: ['id_token'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
      })
      expect(found.headers.get('content-type')).toBe('application/json')
      const {
        issuer,
        jwks_uri: uri,
        id_token_signing_alg_values_supported: algorithms,
      } = fieldsOf(found.body)
      const keys = createRemoteJWKSet(new URL(textOf(uri)), { headers })
      const options = {
        issuer: textOf(issuer),
        audience: 'other.example.com',
        algorithms: arrayOf(algorithms).map(textOf),
      }
      const { payload } = await jwtVerify(token, keys, options)
      expect(payload.sub).toBe('system:serviceaccount:default:verified')
      const listed = await api.get('/openid/v1/jwks', { headers })
      expect(listed.headers.get('content-type')).toBe('application/jwk-set+json')
      expect(arrayOf(fieldsOf(listed.body).keys).map(key => Object.keys(fieldsOf(key)).sort())).toEqual([
        ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'],
      ])
    }
    for (const path of ['/.well-known/openid-configuration', '/openid/v1/jwks']) {
      refusalOf(await new Api(world.server.url).get(path), 401)
      expect((await ann.get(path)).status).toBe(200)
      refusalOf(await ann.get(path, { headers: { 'impersonate-user': 'nobody' } }), 403)
    }
  })

  it('end with their account on every server, also for open watches', async () => {
    await create(accounts, 'short')
    const token = await tokenOf('short')
    for (const api of servers) await expect.poll(async () => (await list(api, token)).status).toBe(200)
    const watches = await Promise.all(
      servers.map(({ url }) => Watch.open(url, itemsPath, { headers: bearer(token) })),
    )
    await Promise.all(watches.map(watch => watch.synced()))
    objectOf(await ann.delete(`${accounts}/short`))
    for (const watch of watches) expect(await watch.closed).toMatchObject({ code: 1008 })
    for (const api of servers) refusalOf(await list(api, token), 401)
    await create(accounts, 'short')
    for (const api of servers) refusalOf(await list(api, token), 401)
  })

  it('end with the Secret that they are bound to', async () => {
    await create(accounts, 'bound')
    await create(secrets, 'anchor')
    const boundObjectRef = { kind: 'Secret', apiVersion: 'v1', name: 'anchor' }
    const token = await tokenOf('bound', { boundObjectRef })
    for (const api of servers) await expect.poll(async () => (await list(api, token)).status).toBe(200)
    expect((await ann.delete(`${secrets}/anchor`)).status).toBe(200)
    for (const api of servers) await expect.poll(async () => (await list(api, token)).status).toBe(401)
  })

  it('end when the deletion of their account starts, whatever finalizers it has', async () => {
    const held = { metadata: { name: 'held', finalizers: ['example.com/hold'] } }
    objectOf(await ann.post(accounts, held), 201)
    const token = await tokenOf('held')
    for (const api of servers) await expect.poll(async () => (await list(api, token)).status).toBe(200)
    const watches = await Promise.all(
      servers.map(({ url }) => Watch.open(url, itemsPath, { headers: bearer(token) })),
    )
    await Promise.all(watches.map(watch => watch.synced()))
    objectOf(await ann.delete(`${accounts}/held`))
    for (const api of servers) await expect.poll(async () => (await list(api, token)).status).toBe(401)
    for (const watch of watches) expect(await watch.closed).toMatchObject({ code: 1008 })
    refusalOf(await ann.post(`${accounts}/held/token`, {}), 409)
  })

  it('are valid after a restart', async () => {
    await create(accounts, 'lasting')
    const token = await tokenOf('lasting')
    await world.server.restart()
    await expect.poll(async () => (await list(new Api(world.server.url), token)).status).toBe(200)
  })

  it('are requested for their account only, with its metadata in the response', async () => {
    const { metadata } = await create(accounts, 'asked')
    const ask = (metadata: object, spec: object = {}) =>
      ann.post(`${accounts}/asked/token`, { metadata, spec })
    const known = { name: 'asked', namespace: 'default', uid: metadata.uid }
    const answer = await ask(known)
    const times = { creationTimestamp: expect.stringMatching(/^\d{4}-.*Z$/) }
    expect([answer.status, fieldsOf(answer.body).metadata]).toEqual([201, { ...known, ...times }])
    expect(answer.headers.get('warning')).toBeNull()
    expect(refusalOf(await ask({ name: 'other' }), 422).causes).toMatchObject([{ field: 'metadata.name' }])
    refusalOf(await ask({ namespace: 'other' }), 400)
    refusalOf(await ask({ uid: 'other' }), 409)
    const long = await ask({}, { expirationSeconds: 100_000 })
    expect([long.status, long.headers.get('warning')]).toEqual([
      201,
      '299 - "requested expiration of 100000 seconds shortened to 86400 seconds"',
    ])
  })

  it('need the permission to create them', async () => {
    const path = `${accounts}/robot/token`
    refusalOf(await users.api(world.server.url, 'vic').post(path, {}), 403)
    refusalOf(await new Api(world.server.url).post(path, {}), 401)
    refusalOf(await ann.post(`${accounts}/none/token`, {}), 404)
    const { message, causes } = refusalOf(await ann.post(path, { spec: { expirationSeconds: 599 } }), 422)
    const why = 'Invalid value: 599: may not specify a duration less than 10 minutes'
    expect([message, causes]).toEqual([
      `TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: ${why}`,
      [{ reason: 'FieldValueInvalid', field: 'spec.expirationSeconds', message: why }],
    ])
    refusalOf(await ann.get(path), 405)
  })

  it('are signed with keys that no request reads', async () => {
    for (const path of ['/apis', '/api/v1', '/metrics', '/openapi/v3', secrets]) {
      const { text } = await ann.get(path)
      expect(text).not.toMatch(/"d":|service-account-keys|PRIVATE/)
    }
  })
})
