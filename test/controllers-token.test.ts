import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadAll } from 'js-yaml'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { replaceSecretFile } from '../apiserver/src/cli/secret-file.ts'
import { Api, objectOf, refusalOf } from './support/api.ts'
import { AuditTrail } from './support/audit.ts'
import { blocksOf, fileOf } from './support/doc-blocks.ts'
import { arrayOf, fieldsOf, textOf } from './support/json.ts'
import { gadgetsOf, leasesOf } from './support/kinds.ts'
import { type Running, spawnProgram } from './support/server.ts'
import { Users } from './support/users.ts'
import { Watch } from './support/watch.ts'
import { eventually, startWorld, type World } from './support/worlds.ts'

/** Processes with controllers act as a service account, by short-lived tokens. */

const account = 'setpoint-system/controllers'
const accounts = '/api/v1/namespaces/setpoint-system/serviceaccounts'
const secrets = '/api/v1/namespaces/setpoint-system/secrets'
const rbac = '/apis/rbac.authorization.k8s.io/v1'

let folder: string
let world: World
let users: Users<'ann' | 'issuer' | 'old' | 'uptime'>
let trail: AuditTrail
let ann: Api
const running: Running[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'setpoint-controllers-token-'))
  users = await Users.make({
    ann: ['setpoint:admins'],
    issuer: ['setpoint:token-issuers:setpoint-system:controllers'],
    old: ['setpoint:controllers'],
    uptime: ['setpoint:token-issuers:setpoint-system:uptime'],
  })
  trail = new AuditTrail(join(folder, 'audit.log'))
  world = await startWorld('embedded', ['demo-plugin'], {
    args: [...users.args, '--role', 'apiserver', '--audit-log', trail.path],
  })
  ann = users.api(world.server.url, 'ann')
})
afterEach(async () => {
  await Promise.all(running.splice(0).map(each => each.kill('SIGKILL')))
})
afterAll(async () => {
  await world?.end()
  await users?.remove()
  await rm(folder, { recursive: true, force: true })
})

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })
const apiOf = (name: 'issuer' | 'old' | 'uptime') => users.api(world.server.url, name)

async function issue(api: Api, name = 'controllers', spec: object = {}): Promise<string> {
  const answer = await api.post(`${accounts}/${name}/token`, { spec })
  expect(answer.status, answer.text).toBe(201)
  return textOf(fieldsOf(fieldsOf(answer.body).status).token)
}

function run(...args: string[]): Running {
  const started = spawnProgram(args)
  running.push(started)
  return started
}

async function startControllers(file: string, ...args: string[]): Promise<Running> {
  const [dir = ''] = world.plugins
  const started = run(
    ...['serve', '--role', 'controllers', '--server', world.server.url, '--server-token-file', file],
    ...['--plugin', dir, ...args],
  )
  await started.says(/^setpoint controllers running against /)
  return started
}

const isReady = (name: string, email: string) =>
  eventually(async () =>
    expect((await gadgetsOf(ann).read(name)).status).toEqual({ phase: 'Ready', seen: email }),
  )

describe('the lasting credential of the controllers', () => {
  it('issues tokens of their account, and may do nothing else', async () => {
    const issuer = apiOf('issuer')
    objectOf(await ann.post(accounts, { metadata: { name: 'other' } }), 201)
    await issue(issuer)
    for (const path of [
      `${accounts}/other/token`,
      '/api/v1/namespaces/default/serviceaccounts/controllers/token',
    ])
      refusalOf(await issuer.post(path, {}), 403)
    for (const path of [
      gadgetsOf(ann).path,
      secrets,
      accounts,
      `${accounts}/controllers`,
      `${rbac}/clusterroles`,
    ])
      refusalOf(await issuer.get(path), 403)
    refusalOf(await issuer.post(accounts, { metadata: { name: 'mine' } }), 403)
    refusalOf(await issuer.delete(`${accounts}/controllers`), 403)
  })

  it('may be one of the group setpoint:controllers, whose rights the account has', async () => {
    const token = await issue(apiOf('old'))
    expect((await new Api(world.server.url).get(gadgetsOf(ann).path, bearer(token))).status).toBe(200)
  })
})

describe('the token of the controllers', () => {
  it('cannot get another one, so what leaks expires', async () => {
    const api = new Api(world.server.url)
    const token = bearer(await issue(apiOf('issuer')))
    expect((await api.get(gadgetsOf(ann).path, token)).status).toBe(200)
    refusalOf(await api.post(`${accounts}/controllers/token`, {}, token), 403)
    refusalOf(await api.post(`${accounts}/other/token`, {}, token), 403)
    const grant = {
      metadata: { name: 'mine' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', namespace: 'setpoint-system', name: 'controllers' }],
    }
    refusalOf(await api.post(`${rbac}/clusterrolebindings`, grant, token), 403)
  })

  it('is kept by a program that has the lasting credential, also after it was killed', async () => {
    const file = join(folder, 'kept')
    const credential = join(folder, 'issuer')
    await writeFile(credential, users.tokenOf('issuer'), { mode: 0o600 })
    const keep = () =>
      run(
        ...['service-account-token', account, '--server', world.server.url],
        ...['--server-token-file', credential, '--output', file, '--renew'],
      )
    const keeper = keep()
    await keeper.says(/wrote a new token/, 'stderr')
    const controllers = await startControllers(file)
    await gadgetsOf(ann).create('kept', { email: 'kept@example.com' })
    await isReady('kept', 'kept@example.com')
    await keeper.kill('SIGKILL')
    const before = await readFile(file, 'utf8')
    // The controllers keep the token that they have read.
    await writeFile(file, '\u0000 garbage \u00fc')
    objectOf(await ann.mergePatch(gadgetsOf(ann).at('kept'), { spec: { email: 'kept2@example.com' } }))
    await isReady('kept', 'kept2@example.com')
    await keep().says(/wrote a new token/, 'stderr')
    expect(await readFile(file, 'utf8')).not.toBe(before)
    expect((await controllers.kill('SIGTERM')).code).toBe(0)
  })

  it('ends at once when the account is deleted, and a new account takes its place', async () => {
    const api = new Api(world.server.url)
    const token = bearer(await issue(apiOf('issuer')))
    const watch = await Watch.open(world.server.url, gadgetsOf(ann).path, token)
    await watch.synced()
    objectOf(await ann.delete(`${accounts}/controllers`))
    expect(await watch.closed).toMatchObject({ code: 1008 })
    refusalOf(await api.get(gadgetsOf(ann).path, token), 401)
    await world.server.restart()
    const next = bearer(await issue(apiOf('issuer')))
    await eventually(async () => expect((await api.get(gadgetsOf(ann).path, next)).status).toBe(200))
    refusalOf(await api.get(gadgetsOf(ann).path, token), 401)
  })
})

it('the account gets its rights at the start of a server that finds the binding of an older one', async () => {
  const path = `${rbac}/clusterrolebindings/setpoint:controllers`
  const [first] = arrayOf(objectOf(await ann.get(path)).raw.subjects)
  objectOf(await ann.mergePatch(path, { subjects: [first] }))
  const token = bearer(await issue(apiOf('issuer')))
  const api = new Api(world.server.url)
  refusalOf(await api.get(gadgetsOf(ann).path, token), 403)
  await world.server.restart()
  await eventually(async () => expect((await api.get(gadgetsOf(ann).path, token)).status).toBe(200))
})

describe('when a token ends', () => {
  const file = () => join(folder, 'replaced')
  /** Returns a token that ends with a Secret of its own, as an expired one does at its time. */
  async function ending(name: string): Promise<string> {
    objectOf(await ann.post(secrets, { metadata: { name } }), 201)
    return issue(ann, 'controllers', { boundObjectRef: { kind: 'Secret', apiVersion: 'v1', name } })
  }

  /** Returns the watches of kinds by the account, as they have started. */
  const watches = async () =>
    (await trail.events()).filter(
      ({ verb, stage, user, requestURI }) =>
        verb === 'watch' &&
        stage === 'ResponseStarted' &&
        user.username === 'system:serviceaccount:setpoint-system:controllers' &&
        // A candidate watches its lease, and the collector catches up by short watches. Secrets have no query in the
        // log.
        !/\/namespaces\/|timeoutSeconds|\/secrets/.test(requestURI),
    )

  /** Returns the paths of all kinds that can be watched. */
  async function watchedPaths(): Promise<string[]> {
    const groups = arrayOf(fieldsOf((await ann.get('/apis')).body).groups).map(fieldsOf)
    const versions = groups
      .filter(({ name }) => name !== 'events.k8s.io')
      .map(({ preferredVersion }) => `/apis/${textOf(fieldsOf(preferredVersion).groupVersion)}`)
    const found: string[] = []
    for (const path of ['/api/v1', ...versions])
      for (const { name, verbs } of arrayOf(fieldsOf((await ann.get(path)).body).resources).map(fieldsOf))
        if (!textOf(name).includes('/') && arrayOf(verbs).includes('watch'))
          found.push(`${path}/${textOf(name)}`)
    return found
  }

  it('the controllers go on with the next one: they resume their watches and stay the leader', async () => {
    const earlier = (await watches()).length
    await replaceSecretFile(file(), await ending('first'))
    const controllers = await startControllers(file())
    await gadgetsOf(ann).create('led', { email: 'led@example.com' })
    await isReady('led', 'led@example.com')
    const lease = async () => (await leasesOf(ann).read('setpoint-controllers')).spec
    const { holderIdentity, leaseTransitions } = await lease()
    // Informers watch gadgets, plugins and events, and the collector every kind.
    const expected = (await watchedPaths()).filter(path => path !== '/api/v1/secrets').length + 3
    await eventually(async () => expect(await watches()).toHaveLength(earlier + expected))
    // This deletion completes when the collector has listed every kind.
    const gadgets = gadgetsOf(ann)
    await gadgets.create('last', { email: 'last@example.com' })
    objectOf(await ann.delete(gadgets.at('last'), { propagationPolicy: 'Foreground' }))
    await eventually(async () => refusalOf(await ann.get(gadgets.at('last')), 404))

    await replaceSecretFile(file(), await ending('second'))
    expect((await ann.delete(`${secrets}/first`)).status).toBe(200)
    // Each watch is opened again, from its last version.
    await eventually(async () => expect(await watches()).toHaveLength(earlier + 2 * expected))
    for (const { requestURI } of (await watches()).slice(earlier + expected))
      expect(requestURI).toMatch(/[?&]version=\d+/)
    objectOf(await ann.mergePatch(gadgetsOf(ann).at('led'), { spec: { email: 'led2@example.com' } }))
    await isReady('led', 'led2@example.com')
    expect(await lease()).toMatchObject({ holderIdentity, leaseTransitions })
    expect(controllers.stderr).not.toMatch(/lost leadership|watch expired/)
    expect((await controllers.kill('SIGTERM')).code).toBe(0)
  })

  it('without a next one, the controllers stop their work and take it up again later', async () => {
    await replaceSecretFile(file(), await ending('third'))
    const controllers = await startControllers(file())
    await gadgetsOf(ann).create('paused', { email: 'paused@example.com' })
    await isReady('paused', 'paused@example.com')
    expect((await ann.delete(`${secrets}/third`)).status).toBe(200)
    await controllers.says(/lost leadership/, 'stderr')
    objectOf(await ann.mergePatch(gadgetsOf(ann).at('paused'), { spec: { email: 'later@example.com' } }))
    await replaceSecretFile(file(), await ending('fourth'))
    await isReady('paused', 'later@example.com')
    expect(controllers.child.exitCode).toBeNull()
  })
})

describe('controllers with an account of their own', () => {
  /** Creates the objects of the manual, for the plugin of this test. */
  async function applyManual(): Promise<void> {
    const page = 'docs/operations/production.md'
    const blocks = blocksOf(page, await readFile(new URL(`../${page}`, import.meta.url), 'utf8'))
    const { text = '' } = blocks.find(block => fileOf(block) === 'uptime-controllers.yaml') ?? {}
    const documents = loadAll(text.replaceAll('uptime.example.com', 'demo.example.com')).map(fieldsOf)
    expect(documents.length).toBeGreaterThan(5)
    for (const document of documents) {
      const { apiVersion, kind, metadata } = document
      const { namespace } = fieldsOf(metadata)
      const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${textOf(apiVersion)}`
      const place = namespace === undefined ? '' : `/namespaces/${textOf(namespace)}`
      const path = `${root}${place}/${textOf(kind).toLowerCase()}s?fieldValidation=Strict`
      objectOf(await ann.post(path, document), 201)
    }
  }

  it('work with the rights of one plugin, as the manual shows, and have no others', async () => {
    await applyManual()
    const issuer = apiOf('uptime')
    refusalOf(await issuer.post(`${accounts}/controllers/token`, {}), 403)
    refusalOf(await apiOf('issuer').post(`${accounts}/uptime/token`, {}), 403)
    const token = await issue(issuer, 'uptime')
    const file = join(folder, 'uptime')
    await replaceSecretFile(file, token)
    const controllers = await startControllers(file, '--lease', 'uptime', '--collector=false')
    const gadgets = gadgetsOf(ann)
    await gadgets.create('narrow', { email: 'narrow@example.com' })
    await isReady('narrow', 'narrow@example.com')
    objectOf(await ann.delete(gadgets.at('narrow')))
    await eventually(async () => refusalOf(await ann.get(gadgets.at('narrow')), 404))
    expect(controllers.stderr).not.toMatch(/forbidden|failed/)
    const api = new Api(world.server.url)
    for (const path of [secrets, '/api/v1/configmaps', `${rbac}/clusterroles`, accounts])
      refusalOf(await api.get(path, bearer(token)), 403)
    expect((await controllers.kill('SIGTERM')).code).toBe(0)
  })
})
