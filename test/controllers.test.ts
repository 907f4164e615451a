import { copyFile, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import { makeCertificates } from './support/certificates.ts'
import { fieldsOf } from './support/json.ts'
import { gadgetsOf, pluginsPath, turnsOf } from './support/kinds.ts'
import { SecureApi } from './support/secure-api.ts'
import { type Running, spawnProgram, startServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { copyFixture, eventually, type Store, startWorld, stores, type World } from './support/worlds.ts'

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/**
 * A killed process of controllers keeps its lease until the next attempt sees that the process has ended. Where the
 * system cannot tell, the lease has to expire.
 */
const takeoverMs = 180_000
const slow = { timeout: 600_000 }

async function serve(store: Store, role: string): Promise<World> {
  const world = await startWorld(store, ['demo-plugin'], { args: ['--role', role] })
  cleanups.push(() => world.end())
  return world
}

/** The controllers of the same plugin, in a process of their own. */
async function startControllers(world: World): Promise<Running> {
  const [dir = ''] = world.plugins
  const running = spawnProgram([
    'serve',
    '--role',
    'controllers',
    '--server',
    world.server.url,
    '--plugin',
    dir,
  ])
  cleanups.push(() => running.kill('SIGKILL'))
  await running.says(/^setpoint controllers running against /)
  return running
}

const isReady = (gadgets: Collection, name: string, email: string) =>
  eventually(
    async () => expect((await gadgets.read(name)).status).toEqual({ phase: 'Ready', seen: email }),
    takeoverMs,
  )

const isGone = (gadgets: Collection, name: string) =>
  eventually(async () => refusalOf(await gadgets.api.get(gadgets.at(name)), 404), takeoverMs)

/** Deletes an object and returns its last phase. */
async function lastPhase(world: World, gadgets: Collection, name: string): Promise<unknown> {
  const watch = await Watch.open(world.server.url, gadgets.at(name))
  await watch.synced()
  objectOf(await world.api.delete(gadgets.at(name)))
  await watch.until(({ story }) => story.includes(`DELETED ${name}`))
  await watch.close()
  return fieldsOf(fieldsOf(watch.changes.at(-1)?.raw.object).status).phase
}

describe.each(stores)('controllers in a process of their own, on the %s store', store => {
  it('reconcile existing, new and changed objects, and clean up before an object is removed', async () => {
    const world = await serve(store, 'apiserver')
    const gadgets = gadgetsOf(world.api)
    await gadgets.create('before', { email: 'before@example.com' })
    expect((await gadgets.read('before')).status).toEqual({})
    const running = await startControllers(world)
    await isReady(gadgets, 'before', 'before@example.com')
    await gadgets.create('after', { email: 'after@example.com' })
    await isReady(gadgets, 'after', 'after@example.com')
    objectOf(await world.api.mergePatch(gadgets.at('after'), { spec: { email: 'changed@example.com' } }))
    await isReady(gadgets, 'after', 'changed@example.com')
    expect((await gadgets.read('after')).metadata.finalizers).toEqual(['demo.example.com/cleanup'])
    expect(await lastPhase(world, gadgets, 'after')).toBe('CleanedUp')
    expect((await running.kill('SIGTERM')).code).toBe(0)
  })

  it('killed and restarted, process the changes and deletions that they missed', slow, async () => {
    const world = await serve(store, 'apiserver')
    const gadgets = gadgetsOf(world.api)
    const first = await startControllers(world)
    await gadgets.create('a', { email: 'a@example.com' })
    await gadgets.create('b', { email: 'b@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
    await isReady(gadgets, 'b', 'b@example.com')
    await first.kill('SIGKILL')
    objectOf(await world.api.mergePatch(gadgets.at('a'), { spec: { email: 'a2@example.com' } }))
    objectOf(await world.api.delete(gadgets.at('b')))
    await gadgets.create('c', { email: 'c@example.com' })
    // Without controllers, the finalizer stays.
    expect((await gadgets.read('b')).metadata.finalizers).toEqual(['demo.example.com/cleanup'])
    await startControllers(world)
    await isReady(gadgets, 'a', 'a2@example.com')
    await isReady(gadgets, 'c', 'c@example.com')
    await isGone(gadgets, 'b')
  })

  it('continue after the server was killed and restarted', async () => {
    const world = await serve(store, 'apiserver')
    const gadgets = gadgetsOf(world.api)
    const running = await startControllers(world)
    await gadgets.create('a', { email: 'a@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
    await world.server.kill('SIGKILL')
    await world.server.restart()
    objectOf(await world.api.mergePatch(gadgets.at('a'), { spec: { email: 'a2@example.com' } }))
    await gadgets.create('b', { email: 'b@example.com' })
    await isReady(gadgets, 'a', 'a2@example.com')
    await isReady(gadgets, 'b', 'b@example.com')
    expect(await lastPhase(world, gadgets, 'b')).toBe('CleanedUp')
    expect(running.child.exitCode).toBeNull()
  })
})

it('a failed run during a restart of the server logs one line with the time of the retry, without a stack', async () => {
  const world = await startWorld('embedded', ['turns-plugin'], { args: ['--role', 'apiserver'] })
  cleanups.push(() => world.end())
  const running = await startControllers(world)
  const turns = turnsOf(world.api)
  const count = async () => Number((await turns.read('a')).status.count ?? 0)
  // An object whose last write the cache has not seen when the server dies waits, rather than failing.
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) await turns.create(name, { everyMs: 20 })
  await eventually(async () => expect(await count()).toBeGreaterThan(0), takeoverMs)
  await world.server.kill('SIGKILL')
  await running.says(/reconcile failed, retrying/, 'stderr')
  await world.server.restart()
  const before = await count()
  await eventually(async () => expect(await count()).toBeGreaterThan(before), takeoverMs)
  const failures = running.stderr
    .split('\n')
    .slice(0, -1)
    .filter(line => /reconcile failed, retrying/.test(line))
    .map(line => fieldsOf(JSON.parse(line)))
  for (const line of failures) {
    expect(line).toMatchObject({
      object: expect.any(String),
      attempt: expect.any(Number),
      delayMs: expect.any(Number),
    })
    expect(line.error).toMatch(/\S/)
    expect(line).not.toHaveProperty('err')
  }
})

describe('the role apiserver', () => {
  it('reconciles nothing and removes no finalizer', async () => {
    const world = await serve('embedded', 'apiserver')
    const gadgets = gadgetsOf(world.api)
    const made = await gadgets.create(
      'a',
      { email: 'a@example.com' },
      { finalizers: ['demo.example.com/cleanup'] },
    )
    objectOf(await world.api.delete(gadgets.at('a')))
    // Another process with controllers has finished its run by now, so this one would have acted too.
    const active = await startWorld('embedded', ['demo-plugin'])
    cleanups.push(() => active.end())
    await isReady(gadgetsOf(active.api), 'shipped-one', 'one@example.com')
    const now = await gadgets.read('a')
    expect(now.metadata.uid).toBe(made.metadata.uid)
    expect(now.status).toEqual({})
    expect((await eventually(() => gadgets.read('shipped-one'))).status).toEqual({})
  })

  it('serves the routes of its plugins', async () => {
    const world = await serve('embedded', 'apiserver')
    await eventually(() => gadgetsOf(world.api).read('shipped-one'))
    const mail = await world.api.get('/apis/uc.api.demo.example.com/v1/gadgets/shipped-one/mail')
    expect(mail.body).toEqual({ email: 'one@example.com' })
  })
})

describe('the role controllers', () => {
  it('applies no YAML, and serves no models, routes or objects', async () => {
    const plugin = await copyFixture('demo-plugin')
    const items = await copyFixture('items-plugin')
    const server = await startServer({ plugins: [items], args: ['--role', 'apiserver'] })
    cleanups.push(() => server.stop())
    const running = spawnProgram([
      'serve',
      '--role',
      'controllers',
      '--server',
      server.url,
      '--plugin',
      plugin,
    ])
    cleanups.push(() => running.kill('SIGKILL'))
    await running.says(/^setpoint controllers running against /)
    const api = new Api(server.url)
    refusalOf(await api.get('/apis/demo.example.com/v1/gadgets'), 404)
    refusalOf(await api.get('/apis/uc.api.demo.example.com/v1/hidden'), 404)
    expect((await api.get(pluginsPath)).text).not.toContain('"demo"')
    expect((await running.kill('SIGTERM')).code).toBe(0)
  })

  it('serves probes and metrics before the server is up, with it, and while it is away', async () => {
    const world = await serve('embedded', 'apiserver')
    await world.server.kill('SIGTERM')
    const [dir = ''] = world.plugins
    const args = ['--server', world.server.url, '--plugin', dir, '--health-listen', '127.0.0.1:0']
    const running = spawnProgram(['serve', '--role', 'controllers', ...args])
    cleanups.push(() => running.kill('SIGKILL'))
    const [, url = ''] = await running.says(/"url":"([^"]+)".*serving health and metrics/, 'stderr')
    const ask = async (path: string, method = 'GET') => {
      const response = await fetch(`${url}${path}`, { method })
      return { status: response.status, text: await response.text() }
    }
    expect(await ask('/livez')).toEqual({ status: 200, text: 'ok' })
    expect((await ask('/readyz')).status).toBe(503)
    await world.server.restart()
    await eventually(async () => expect(await ask('/readyz')).toEqual({ status: 200, text: 'ok' }))
    await eventually(async () =>
      expect((await ask('/readyz?verbose')).text).toContain(
        'controllers leading (lease setpoint-controllers)',
      ),
    )
    expect((await ask('/readyz?verbose')).text).toContain('[+]informer/gadgets.demo.example.com ok')
    await eventually(async () =>
      expect((await ask('/metrics')).text).toMatch(/^leader_election_master_status\{.*\} 1$/m),
    )
    const metrics = (await ask('/metrics')).text
    expect(metrics).toContain('controller_runtime_reconcile_total{controller="')
    expect(metrics).toMatch(
      /^setpoint_build_info\{version=".+",commit="",node="v.+",store="",role="controllers"\} 1$/m,
    )
    expect(metrics).toContain('kubernetes_healthcheck{name="leader-election",type="readyz"} 1')
    expect(metrics).toContain(
      'kubernetes_healthcheck{name="informer/gadgets.demo.example.com",type="readyz"} 1',
    )
    expect(await ask('/readyz/informer/gadgets.demo.example.com')).toEqual({ status: 200, text: 'ok' })
    for (const path of ['/apis', '//', '/%', '/livez/x']) expect((await ask(path)).status).toBe(404)
    expect((await ask('/livez', 'POST')).status).toBe(405)
    // Without the server it soon loses the lease. A restart would not help.
    await world.server.kill('SIGTERM')
    await eventually(async () =>
      expect(await ask('/readyz')).toEqual({
        status: 503,
        text: expect.stringContaining('[-]leader-election failed: this process has lost the lease'),
      }),
    )
    expect(await ask('/livez')).toEqual({ status: 200, text: 'ok' })
    await world.server.restart()
    await eventually(async () => expect(await ask('/readyz')).toEqual({ status: 200, text: 'ok' }))
    expect((await running.kill('SIGTERM')).code).toBe(0)
  })

  it('waits for a server that has not started', async () => {
    const world = await serve('embedded', 'apiserver')
    const gadgets = gadgetsOf(world.api)
    await gadgets.create('a', { email: 'a@example.com' })
    await world.server.kill('SIGTERM')
    await startControllers(world)
    await world.server.restart()
    await isReady(gadgets, 'a', 'a@example.com')
  })
})

describe('over TLS, when the CA of the server is replaced', () => {
  /** A server, its certificate's files, and a file with the CA certificates to trust. */
  async function serveTls() {
    const [old, next] = await Promise.all([makeCertificates(), makeCertificates()])
    for (const { folder } of [old, next]) cleanups.push(() => rm(folder, { recursive: true, force: true }))
    const ca = join(old.folder, 'trusted.pem')
    await copyFile(old.ca, ca)
    const args = ['--role', 'apiserver', '--tls-cert', old.cert, '--tls-key', old.key]
    const world = await startWorld('embedded', ['demo-plugin'], { args })
    cleanups.push(() => world.end())
    return { world, old, next, ca, bundle: `${await readFile(old.ca)}${await readFile(next.ca)}` }
  }

  const run = (...args: string[]) => {
    const running = spawnProgram(args)
    cleanups.push(() => running.kill('SIGKILL'))
    return running
  }

  it('controllers go on without a restart', async () => {
    const { world, old, next, ca, bundle } = await serveTls()
    const { server, plugins } = world
    const running = run(
      ...['serve', '--role', 'controllers', '--server', server.url, '--server-ca', ca],
      ...plugins.flatMap(dir => ['--plugin', dir]),
    )
    await running.says(/became leader/, 'stderr')
    const reloads = () => running.stderr.match(/reloaded the CA certificates of the server/g) ?? []
    await writeFile(ca, '')
    await running.says(/failed to reload the CA certificates of the server, keeping the old ones/, 'stderr')
    await writeFile(ca, bundle)
    await eventually(() => expect(reloads()).toHaveLength(1))
    await copyFile(next.cert, old.cert)
    await copyFile(next.key, old.key)
    await eventually(() => expect(server.stderr()).toContain('reloaded the certificate'))
    await copyFile(next.ca, ca)
    await eventually(() => expect(reloads()).toHaveLength(2))
    // Ends every connection.
    await server.restart()
    const api = new SecureApi(server.url, await readFile(next.ca, 'utf8'))
    const gadgets = gadgetsOf(api)
    await gadgets.create('a', { email: 'a@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
  })

  it('a process that renews a token trusts the CA that it finds later', async () => {
    const { world, next, ca, bundle } = await serveTls()
    await copyFile(next.ca, ca)
    const keeper = run(
      ...['service-account-token', 'setpoint-system/controllers', '--server', world.server.url],
      ...['--server-ca', ca, '--renew', '--output', join(next.folder, 'token')],
    )
    await keeper.says(/failed to renew the token/, 'stderr')
    await writeFile(ca, bundle)
    await keeper.says(/wrote a new token/, 'stderr')
  })
})

describe.each(stores)('controllers inside the server, on the %s store', store => {
  it('continue after the server was killed during their work', slow, async () => {
    const world = await serve(store, 'all')
    const gadgets = gadgetsOf(world.api)
    for (let n = 0; n < 20; n++) await gadgets.create(`g-${n}`, { email: `g-${n}@example.com` })
    for (let n = 0; n < 10; n++) objectOf(await world.api.delete(gadgets.at(`g-${n}`)))
    await world.server.kill('SIGKILL')
    await world.server.restart()
    for (let n = 0; n < 10; n++) await isGone(gadgets, `g-${n}`)
    for (let n = 10; n < 20; n++) await isReady(gadgets, `g-${n}`, `g-${n}@example.com`)
  })

  it('do not write an object again that is reconciled', async () => {
    const world = await serve(store, 'all')
    const gadgets = gadgetsOf(world.api)
    await gadgets.create('a', { email: 'a@example.com' })
    await isReady(gadgets, 'a', 'a@example.com')
    const { metadata } = await gadgets.read('a')
    await gadgets.create('b', { email: 'b@example.com' })
    await isReady(gadgets, 'b', 'b@example.com')
    expect((await gadgets.read('a')).metadata.version).toBe(metadata.version)
  })
})
