import { copyFile, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api, Collection, objectOf } from './support/api.ts'
import { type Certificates, makeCertificates } from './support/certificates.ts'
import { writeFiles, writePlugin } from './support/plugins.ts'
import { freePort } from './support/ports.ts'
import { giveAway, Runbook } from './support/runbook.ts'
import { SecureApi } from './support/secure-api.ts'
import { type ServerProcess, startServer } from './support/server.ts'
import { Users } from './support/users.ts'

/** docs/operations/runbooks, walked as they are written: each fault is made, and the commands of the page end it. */

let open: Runbook | undefined

async function walk(...args: Parameters<typeof Runbook.open>): Promise<Runbook> {
  open = await Runbook.open(...args)
  return open
}

/** Fails if the test has left out a part of its page. */
afterEach(async ({ task }) => {
  const runbook = open
  open = undefined
  if (task.result?.state !== 'fail') await runbook?.close()
})

const imports = `import { defineModel, definePlugin, singleValueIndex } from '@setpoint/controller-runtime'`

/** A plugin with a kind in namespaces, whose controller does not come to rest unless it is corrected. */
const demo = (isHot: boolean) => `${imports}
const Gadget = defineModel({
  group: 'demo.example.com', version: 'v1', kind: 'Gadget', singular: 'gadget', plural: 'gadgets', scope: 'Namespaced',
  schema: { spec: { type: 'object', properties: { n: { type: 'integer' } } } },
})
export default definePlugin({ name: 'demo', models: [Gadget], setup(plugin) {
  plugin.controller(Gadget, c => c.reconcile(async (gadget, { client }) => {
    if (${isHot} && gadget.spec.n !== undefined)
      await client.update(Gadget, { ...gadget, spec: { n: gadget.spec.n + 1 } })
  }))
} })`

const shop = (declaration: string, setup = '') => `${imports}
const code = singleValueIndex({ name: 'code', unique: true, indexFunc: product => product.spec.code })
const beta = { spec: { type: 'object', properties: { size: { type: 'string' }, code: { type: 'string' } } } }
const hub = { spec: { type: 'object', properties: { size: { type: 'integer' }, code: { type: 'string' } } } }
export default definePlugin({ name: 'shop', models: [defineModel({
  group: 'shop.example.com', kind: 'Product', singular: 'product', plural: 'products', ${declaration} })],
  setup() { ${setup} } })`

const first = `version: 'v1beta1', schema: beta`
const unique = `${first}, indexes: [code]`
const migrated = `version: 'v1', schema: hub, indexes: [code], versions: [{ name: 'v1beta1', schema: beta,
  toHub: ({ spec: { size, ...spec } }) => {
    if (size !== undefined && !/^[0-9]+$/.test(size)) throw new Error('the size is not a number')
    return { spec: { ...spec, ...(size !== undefined && { size: Number(size) }) } }
  },
  fromHub: ({ spec: { size, ...spec } }) => ({ spec: { ...spec, ...(size !== undefined && { size: String(size) }) } }) }]`

describe('plugins and controllers', () => {
  let plugins: readonly string[] = []
  let dataDir: string
  let server: ServerProcess
  let api: Api

  const rewrite = (plugin: 0 | 1, source: string) => writeFiles(plugins[plugin] ?? '', { 'index.js': source })
  const reload = async (name: string, value: string) =>
    expect(
      await api.mergePatch(`/apis/plugins.setpoint.dev/v1/plugins/${name}`, { spec: { reload: value } }),
    ).toMatchObject({ status: 200 })
  const products = () => new Collection(api, 'shop.example.com/v1beta1', 'Product', 'products')
  const metric = async (pattern: RegExp) => (await api.get('/metrics')).text.match(pattern)?.[0]

  beforeAll(async () => {
    plugins = await Promise.all([
      writePlugin({ 'index.js': demo(true) }),
      writePlugin({ 'index.js': shop(first, `throw new Error('the price list is missing')`) }),
    ])
    // Two minutes ahead.
    const ahead = 'data:text/javascript,globalThis.Date.now=(now=>()=>now()+120000)(Date.now)'
    dataDir = await mkdtemp(join(tmpdir(), 'setpoint-runbooks-'))
    server = await startServer({ plugins, dataDir, env: { NODE_OPTIONS: `--import=${ahead}` } })
    api = new Api(server.url)
  })
  afterAll(async () => {
    await server?.stop()
    for (const dir of [dataDir, ...plugins]) await rm(dir, { recursive: true, force: true })
  })

  it('plugin-failed', async () => {
    const runbook = await walk('plugin-failed', {
      url: server.url,
      here: { '--timeout 60s': '--timeout 3s' },
    })
    expect(await runbook.run('list')).toMatch(/^shop +Failed/m)
    expect(await runbook.run('reason')).toContain('the price list is missing')
    await rewrite(1, shop(first))
    await runbook.run('reload')
    await expect.poll(async () => (await runbook.try('over')).code).toBe(0)
    expect(await metric(/^setpoint_plugin_phase\{plugin="shop",phase="Failed"\} .*/m)).toMatch(/ 0$/)
    // The previous code keeps running, and that is not over.
    await rewrite(1, shop(first, `throw new Error('the price list is missing')`))
    await reload('shop', 'broken again')
    await expect
      .poll(() => runbook.try('over'))
      .toMatchObject({ code: 1, stdout: expect.stringContaining('met') })
    await rewrite(1, shop(first))
    await runbook.run('reload')
    await expect.poll(async () => (await runbook.try('over')).code).toBe(0)
  })

  it('index-clash', async () => {
    const runbook = await walk('index-clash', { url: server.url })
    await products().create('a', { code: 'x' })
    await products().create('b', { code: 'x' })
    await rewrite(1, shop(unique))
    await reload('shop', 'with the index')
    await expect.poll(() => runbook.run('problems')).toContain('"b" has the value "x", which "a" holds')
    await expect
      .poll(() => metric(/^setpoint_plugin_problems\{plugin="shop",type="index"\} .*/m))
      .toMatch(/ 1$/)
    await runbook.run('correct')
    await runbook.run('over')
    expect(await metric(/^setpoint_plugin_problems\{plugin="shop",type="index"\} .*/m)).toMatch(/ 0$/)
  })

  it('migration-stuck', async () => {
    const runbook = await walk('migration-stuck', { url: server.url })
    await products().create('good', { size: '3' })
    await products().create('bad', { size: 'twelve' })
    await rewrite(1, shop(migrated))
    await reload('shop', 'with v1')
    const failed =
      /^setpoint_migration_objects\{plugin="shop",resource="products.shop.example.com",state="failed"\} .*/m
    await expect.poll(() => metric(failed)).toMatch(/ 1$/)
    await expect
      .poll(() => runbook.run('progress'))
      .toMatch(
        /products\.shop\.example\.com to v1: 3 of 4, 1 failed\n[\s\S]*"bad" cannot be migrated: .*the size is not a number/,
      )
    await runbook.run('correct')
    await runbook.run('again')
    expect(await runbook.run('over')).toMatch(/state="failed"\} 0\n/)
  })

  it('stuck-deletion', async () => {
    const runbook = await walk('stuck-deletion', {
      url: server.url,
      here: { '/srv/setpoint': dataDir },
      functions: 'systemctl() { :; }\nrunuser() { shift 3; echo demo.example.com | "$@"; }',
    })
    const stick = async () => {
      await api.post('/api/v1/namespaces', { metadata: { name: 'team-a' } })
      const gadgets = new Collection(api, 'demo.example.com/v1', 'Gadget', 'gadgets', 'team-a')
      await gadgets.create('pump', {}, { finalizers: ['gone.example.com/cleanup'] })
      expect(await api.delete('/api/v1/namespaces/team-a')).toMatchObject({ status: 200 })
    }
    await stick()
    await expect
      .poll(() => runbook.try('metric'))
      .toMatchObject({ stdout: expect.stringContaining('resource="gadgets.demo.example.com"} 1') })
    expect(
      await metric(/^setpoint_oldest_deletion_timestamp_seconds\{resource="gadgets.demo.example.com"\}/m),
    ).toBeDefined()
    await expect.poll(() => runbook.run('namespace')).toContain('gone.example.com/cleanup')
    expect(await runbook.run('objects')).toMatch(/^team-a pump .*gone\.example\.com\/cleanup/m)
    await runbook.run('remove')
    await runbook.run('over')
    expect(await metric(/^setpoint_deleting_objects\{resource="gadgets.demo.example.com"\} .*/m)).toMatch(
      / 0$/,
    )

    // The plugin is uninstalled.
    await stick()
    await server.restart({ plugins: plugins.slice(1) })
    await expect.poll(() => runbook.run('namespace')).toContain('gadgets.demo.example.com is not served here')
    expect(await runbook.try('remove')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('NotFound'),
    })
    await server.end()
    await writeFile(join(dataDir, 'setpoint.yaml'), `data-dir: ${dataDir}\n`)
    expect(await runbook.run('purge')).toContain('1 object, 1 of them with finalizers')
    await server.restart({ plugins })
    await runbook.run('over')
  })

  it('hot-reconciler', async () => {
    const runbook = await walk('hot-reconciler', {
      url: server.url,
      here: { '--request-timeout 5s': '--request-timeout 1s' },
    })
    const gadgets = new Collection(api, 'demo.example.com/v1', 'Gadget', 'gadgets', 'default')
    await gadgets.create('hot', { n: 0 })
    const runs = async () => Number(/result="success"\} (\d+)/.exec(await runbook.run('counts'))?.[1] ?? 0)
    await expect.poll(runs).toBeGreaterThan(50)
    expect(await runbook.run('objects')).toMatch(/MODIFIED +default +hot[\s\S]*MODIFIED +default +hot/)
    await expect.poll(() => server.stderr()).toContain('reconcile changes its own object in every run')
    await runbook.run('stop')
    await expect.poll(async () => (await api.get(gadgets.path)).status).toBe(503)
    await rewrite(0, demo(false))
    await runbook.run('start')
    await runbook.run('over')
    const versionOf = async () => objectOf(await api.get(gadgets.at('hot'))).metadata.version
    const before = await versionOf()
    await expect
      .poll(() => metric(/^workqueue_depth\{name="demo.gadgets.demo.example.com".* .*/m))
      .toMatch(/ 0$/)
    expect(await versionOf()).toBe(before)
  })

  it('wrong-clock', async () => {
    const runbook = await walk('wrong-clock', { url: server.url })
    const [there, here] = (await runbook.run('compare')).trim().split('\n')
    const difference = Number(there?.split(' ')[1]) - Number(here)
    expect(Math.abs(difference - 120)).toBeLessThan(30)
  })

  it.each(['cache-differed', 'records-lost'])('%s', async name => {
    const runbook = await walk(name, { url: server.url })
    expect(await runbook.run('counts')).toMatch(/ 0\n/)
  })
})

describe('access, files and requests', () => {
  let certificates: Certificates
  let users: Users<'root' | 'noisy'>
  let server: ServerProcess
  let around: Parameters<typeof Runbook.open>[1]
  let plugin: string

  beforeAll(async () => {
    certificates = await makeCertificates()
    users = await Users.make({ root: ['setpoint:admins'], noisy: ['noisy'] })
    plugin = await writePlugin({ 'index.js': demo(false) })
    const { folder } = certificates
    const at = (name: string) => join(folder, name)
    const expired = await certificates.client('/CN=setpoint', 0)
    await copyFile(certificates.ca, at('ca.crt'))
    await writeFile(at('tls.crt'), expired.cert)
    await writeFile(at('tls.key'), expired.key)
    const port = await freePort()
    const args = ['--listen', `127.0.0.1:${port}`, '--tls-cert', at('tls.crt'), '--tls-key', at('tls.key')]
    server = await startServer({
      plugins: [plugin],
      args: [...args, ...users.args, '--slow-request-ms', '1'],
      env: { SETPOINT_LOG_FORMAT: 'json' },
    })
    around = {
      url: `https://localhost:${port}`,
      flags: ['--certificate-authority', at('ca.crt'), '--token', users.tokenOf('root')],
      cwd: dirname(users.path),
      here: {
        '/srv/setpoint/tls': folder,
        'setpoint.example.com:8443': `localhost:${port}`,
      },
      functions: 'journalctl() { cat setpoint.log; }\nsystemctl() { echo "$@"; }',
    }
  })
  afterAll(async () => {
    await server?.stop()
    await users?.remove()
    for (const dir of [plugin, certificates.folder]) await rm(dir, { recursive: true, force: true })
  })

  const saveLog = () => writeFile(join(dirname(users.path), 'setpoint.log'), server.stderr())

  it('certificates-expired', async () => {
    const runbook = await walk('certificates-expired', { ...around, cwd: certificates.folder })
    expect(await runbook.run('file')).toContain('notAfter=')
    const before = await runbook.run('wire')
    const tlsKey = join(certificates.folder, 'tls.key')
    const owner = await giveAway(tlsKey, join(certificates.folder, 'tls.crt'))
    for (const step of ['request', 'sign', 'renew']) await runbook.run(step)
    await expect.poll(() => runbook.run('wire')).not.toBe(before)
    expect(await stat(tlsKey)).toMatchObject({ uid: owner, mode: 0o100600 })
    const [, seconds] = (await runbook.run('over')).trim().split(' ')
    expect(Number(seconds) * 1000).toBeGreaterThan(Date.now() + 80 * 86_400_000)
  })

  it('files-not-reloaded', async () => {
    const runbook = await walk('files-not-reloaded', around)
    await users.write()
    await writeFile(users.path, '\na wrong line\n', { flag: 'a' })
    await expect.poll(() => server.stderr()).toMatch(/tokens\.yaml.* is not valid YAML/)
    await saveLog()
    expect(await runbook.run('log')).toContain('tokens.yaml')
    const owner = await giveAway(users.path)
    expect(await runbook.run('correct')).toBe('')
    expect(await stat(users.path)).toMatchObject({ uid: owner, mode: 0o100600 })
    await expect
      .poll(() => runbook.run('over'))
      .toContain('setpoint_file_failing_seconds{file="token-file"} 0\n')
  })

  it('noisy-caller', async () => {
    const runbook = await walk('noisy-caller', around)
    const ca = await readFile(certificates.ca, 'utf8')
    const [root, noisy] = [users.tokenOf('root'), users.tokenOf('noisy')].map(
      token => new SecureApi(around.url, ca, token),
    )
    if (root === undefined || noisy === undefined) throw new Error('no users')
    const subjects = [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: 'noisy' }]
    const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' }
    expect(
      await root.post('/apis/rbac.authorization.k8s.io/v1/clusterrolebindings', {
        metadata: { name: 'noisy' },
        roleRef,
        subjects,
      }),
    ).toMatchObject({ status: 201 })
    for (let n = 0; n < 100; n++) expect(await noisy.get('/api/v1/configmaps')).toMatchObject({ status: 200 })
    const callers: unknown = JSON.parse(await runbook.run('callers'))
    expect(callers).toMatchObject({
      callers: expect.arrayContaining([expect.objectContaining({ caller: 'noisy', requests: 100 })]),
    })
    expect(JSON.parse(await runbook.run('watches'))).toHaveProperty('open')
    await runbook.run('stop')
    expect(await noisy.get('/api/v1/configmaps')).toMatchObject({ status: 403 })
    expect(await runbook.run('over')).toContain('apiserver_flowcontrol_current_inqueue_requests')
  })

  it('slow-list', async () => {
    const runbook = await walk('slow-list', around)
    await expect
      .poll(async () => {
        await runbook.run('time')
        return server.stderr()
      })
      .toMatch(/"resource":"gadgets.*"parameters":"limit".*"slow request"/)
    await saveLog()
    expect(await runbook.run('log')).toContain('"parameters":"limit"')
    expect(await runbook.run('over')).toContain('resource="gadgets"')
  })

  it('server-not-ready', async () => {
    const runbook = await walk('server-not-ready', around)
    expect(await runbook.run('checks')).toContain('[+]store ok')
    await runbook.run('errors')
    expect(await runbook.run('over')).toContain('ok')
  })

  it('server-down', async () => {
    const runbook = await walk('server-down', around)
    expect(await runbook.run('alive')).toBe('ok')
    await server.kill()
    expect(await runbook.try('alive')).not.toMatchObject({ code: 0 })
    await saveLog()
    // It was killed.
    expect(await runbook.run('log')).not.toContain('"exiting"')
    expect(await runbook.run('start')).toBe('restart setpoint\n')
    await server.restart()
    await runbook.run('over')
  })
})
