import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { create } from 'tar'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, objectOf } from './support/api.ts'
import { pluginsPath } from './support/kinds.ts'
import { pluginStates, writeFiles, writePlugin } from './support/plugins.ts'
import { runProgram, spawnProgram, startServer } from './support/server.ts'
import { eventually } from './support/worlds.ts'

const run = promisify(execFile)

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

async function temporaryFolder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'setpoint-packages-'))
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  return dir
}

async function writeTemporary(files: Record<string, string>, manifest: object = {}): Promise<string> {
  const dir = await writePlugin(files, manifest)
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  return dir
}

async function serve(plugin: string, options: Parameters<typeof startServer>[0] = {}) {
  const server = await startServer({ plugins: [plugin], ...options })
  cleanups.push(() => server.stop())
  return { server, api: new Api(server.url) }
}

/** A plugin with a dependency of its own. */
const packaged = {
  'index.js': `import { definePlugin } from '@setpoint/controller-runtime'
import { word } from 'dependency'
export default definePlugin({ name: 'packaged', setup(plugin) {
  plugin.routes('api.packaged.example.com/v1', r => r.get('/word', () => ({ body: { word } })))
} })
`,
  'node_modules/dependency/package.json':
    '{"name":"dependency","version":"1.0.0","type":"module","exports":"./index.js"}',
  'node_modules/dependency/index.js': "export const word = 'bundled'\n",
}
const packagedManifest = {
  name: '@acme/packaged',
  version: '2.3.4',
  dependencies: { dependency: '1.0.0' },
  bundleDependencies: ['dependency'],
}

async function isServed(api: Api, source: string): Promise<void> {
  const state = (await pluginStates(api)).get('packaged')
  expect(state?.object.status).toMatchObject({ phase: 'Started', version: '2.3.4', source })
  expect((await api.get('/apis/api.packaged.example.com/v1/word')).body).toEqual({ word: 'bundled' })
}

describe('--plugin', () => {
  it('takes a package of `npm pack`, with its bundled dependencies, and unpacks it again for a reload', async () => {
    const dir = await writeTemporary(packaged, packagedManifest)
    const into = await temporaryFolder()
    await run('npm', ['pack', '--pack-destination', into], { cwd: dir })
    const archive = join(into, 'acme-packaged-2.3.4.tgz')
    const { api } = await serve(archive)
    await isServed(api, archive)
    await writeFiles(dir, {
      'index.js': (packaged['index.js'] ?? '').replace('body: { word }', "body: { word: 'changed' }"),
    })
    await run('npm', ['pack', '--pack-destination', into], { cwd: dir })
    objectOf(await api.mergePatch(`${pluginsPath}/packaged`, { spec: { reload: 1 } }))
    await eventually(async () =>
      expect((await api.get('/apis/api.packaged.example.com/v1/word')).body).toEqual({ word: 'changed' }),
    )
  })

  it('removes what a killed server has unpacked, and leaves what a running one uses', async () => {
    const dir = await writeTemporary(packaged, packagedManifest)
    const temporary = await temporaryFolder()
    const archive = join(await temporaryFolder(), 'packaged.tgz')
    await create({ file: archive, cwd: dir, gzip: true, prefix: 'package' }, ['.'])
    const unpacked = async () =>
      (await readdir(temporary)).filter(name => name.startsWith('setpoint-plugin-')).length
    const env = { TMPDIR: temporary }
    const { server: killed } = await serve(archive, { env })
    await serve(archive, { env })
    expect(await unpacked()).toBe(2)
    await killed.kill('SIGKILL')
    const { api } = await serve(archive, { env })
    await isServed(api, archive)
    expect(await unpacked()).toBe(2)
  })

  it('takes the name of a package that is installed in the working directory', async () => {
    const cwd = await temporaryFolder()
    const installed = join(cwd, 'node_modules', '@acme', 'packaged')
    await mkdir(installed, { recursive: true })
    await writeFiles(installed, {
      ...packaged,
      'package.json': JSON.stringify({ type: 'module', exports: './index.js', ...packagedManifest }),
    })
    const { api } = await serve('@acme/packaged', { dataDir: cwd })
    await isServed(api, 'npm:@acme/packaged')
  })

  it.each([
    ['a file that is no archive', 'broken.tgz', 'incorrect header check'],
    ['a missing archive', 'missing.tgz', 'ENOENT'],
    ['a scoped package that is not installed', '@acme/absent', 'no package of that name is installed'],
    ['a package that is not installed', 'absent', 'no package of that name is installed'],
    ['a folder without a package.json', '..', 'there is no file'],
    ['a file', 'index.js', 'ENOTDIR'],
    ['an archive with a broken package.json', 'not-json.tgz', 'package.json is not JSON'],
    ['a package with a broken package.json', 'installed', 'package.json is not JSON'],
    ['a folder with a broken package.json', './node_modules/installed', 'package.json is not JSON'],
  ])('refuses %s with one line and exit code 2', async (_, source, why) => {
    const cwd = join(await temporaryFolder(), 'cwd')
    await writeFiles(cwd, {
      'broken.tgz': 'no archive',
      'index.js': '',
      'node_modules/installed/package.json': '{"name":',
      'not-json/package/package.json': '{"name":',
    })
    await create({ file: join(cwd, 'not-json.tgz'), cwd: join(cwd, 'not-json'), gzip: true }, ['package'])
    const { code, stdout, stderr } = await runProgram(['serve', '--plugin', source], { cwd })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^setpoint: --plugin: ".*" holds no plugin: .*\n$/)
    expect(stderr).toContain(why)
  })

  it('warns of a package that asks for another version of Node, and loads it', async () => {
    const dir = await writeTemporary(packaged, { ...packagedManifest, engines: { node: '<1.0.0' } })
    const { server, api } = await serve(dir)
    await isServed(api, dir)
    const { stderr } = await server.kill('SIGTERM')
    const warnings = stderr.split('\n').filter(line => line.includes('asks for Node.js'))
    expect(warnings).toHaveLength(1)
    expect(warnings[0]).toContain('@acme/packaged')
    expect(warnings[0]).toContain('<1.0.0')
    expect(warnings[0]).toContain(process.version)
  })
})

const secret = 'hunter2-"quoted"-secret'

/** A plugin that is careless with its secret. */
const careless = `import { defineModel, definePlugin } from '@setpoint/controller-runtime'
const Thing = defineModel({
  group: 'careless.example.com', version: 'v1', kind: 'Thing', singular: 'thing', plural: 'things',
  schema: { spec: { type: 'object' }, status: { type: 'object' } }, subresources: { status: true },
})
export default definePlugin({
  name: 'careless',
  models: [Thing],
  settings: {
    type: 'object',
    required: ['apiToken'],
    properties: {
      apiToken: { type: 'string', minLength: 10, secret: true },
      retries: { type: 'integer', default: 3 },
      throws: { type: 'boolean', default: false },
    },
  },
  setup({ settings, log, controller, routes }) {
    log.info({ settings }, 'token ' + settings.apiToken)
    if (settings.throws) throw new Error('cannot use ' + settings.apiToken)
    setTimeout(() => { throw new Error('late ' + settings.apiToken) })
    controller(Thing, c => c.reconcile(async (thing, { client }) => {
      await client.patchStatus(Thing, thing, { retries: settings.retries, length: settings.apiToken.length })
      throw new Error('failed with ' + settings.apiToken)
    }))
    routes('api.careless.example.com/v1', r => r.get('/fail', () => { throw new Error(settings.apiToken) }))
  },
})
`

const thing = (name: string) => ({
  apiVersion: 'careless.example.com/v1',
  kind: 'Thing',
  metadata: { name },
  spec: {},
})

describe('settings', () => {
  it('come from the configuration file and the environment, and a secret from a file is never seen', async () => {
    const dir = await temporaryFolder()
    await writeFile(join(dir, 'token'), `${secret}\n`)
    await writeFile(
      join(dir, 'setpoint.yaml'),
      'plugins:\n  careless:\n    retries: 5\n    apiToken: never-used-token\n',
    )
    const plugin = await writeTemporary({ 'index.js': careless })
    const { api, server } = await serve(plugin, {
      args: ['--config', join(dir, 'setpoint.yaml'), '--log-level', 'trace'],
      env: { SETPOINT_PLUGIN_CARELESS_API_TOKEN_FILE: join(dir, 'token') },
    })
    objectOf(await api.post('/apis/careless.example.com/v1/things', thing('a')), 201)
    await eventually(async () => {
      const { status } = objectOf(await api.get('/apis/careless.example.com/v1/things/a'))
      expect(status).toEqual({ retries: 5, length: secret.length })
    })
    const failed = await api.get('/apis/api.careless.example.com/v1/fail')
    expect(failed.status).toBe(500)
    await eventually(() => {
      for (const line of ['token [secret]', 'late [secret]', 'failed with [secret]', 'route failed'])
        expect(server.stderr()).toContain(line)
    })
    const texts = [
      server.stderr(),
      server.stdout(),
      failed.text,
      (await api.get(pluginsPath)).text,
      (await api.get('/api/v1/events')).text,
      (await api.get('/metrics')).text,
      (await api.get('/readyz?verbose')).text,
    ]
    for (const text of texts) expect(text).not.toContain('hunter2')
    // Lines stay JSON.
    for (const line of server.stderr().trimEnd().split('\n')) JSON.parse(line)
  })

  it('are checked before the plugin starts, and a reload reads them again', async () => {
    const dir = await temporaryFolder()
    const token = join(dir, 'token')
    await writeFile(token, 'short-1')
    const plugin = await writeTemporary({ 'index.js': careless })
    const { api, server } = await serve(plugin, {
      env: { SETPOINT_PLUGIN_CARELESS_API_TOKEN_FILE: token, SETPOINT_PLUGIN_CARELESS_RETRIES: 'many' },
    })
    const state = async () => (await pluginStates(api)).get('careless')
    expect((await state())?.phase).toBe('Failed')
    expect((await state())?.message).toBe(
      'its settings are invalid: apiToken does not match its schema (SETPOINT_PLUGIN_CARELESS_API_TOKEN_FILE); retries must be an integer, is "many" (SETPOINT_PLUGIN_CARELESS_RETRIES)',
    )
    const answer = await api.get('/apis/careless.example.com/v1/things')
    expect([answer.status, answer.text]).toEqual([503, expect.stringContaining('settings are invalid')])
    await writeFile(token, 'long-enough-now')
    objectOf(await api.mergePatch(`${pluginsPath}/careless`, { spec: { reload: 'again' } }))
    await eventually(async () =>
      expect((await state())?.message).toBe(
        'its settings are invalid: retries must be an integer, is "many" (SETPOINT_PLUGIN_CARELESS_RETRIES)',
      ),
    )
    expect(server.stderr()).not.toMatch(/short-1|long-enough-now/)
  })

  it('stay out of the reason when setup fails with a secret', async () => {
    const plugin = await writeTemporary({ 'index.js': careless })
    const { api, server } = await serve(plugin, {
      env: { SETPOINT_PLUGIN_CARELESS_API_TOKEN: secret, SETPOINT_PLUGIN_CARELESS_THROWS: 'true' },
    })
    expect((await pluginStates(api)).get('careless')?.message).toContain('cannot use [secret] (index.js:')
    const texts = [server.stderr(), (await api.get(pluginsPath)).text, (await api.get('/metrics')).text]
    for (const text of texts) expect(text).not.toContain('hunter2')
  })

  it('reach the controllers of another process', async () => {
    const plugin = await writeTemporary({ 'index.js': careless })
    const env = { SETPOINT_PLUGIN_CARELESS_API_TOKEN: secret, SETPOINT_PLUGIN_CARELESS_RETRIES: '9' }
    const { api, server } = await serve(plugin, { env, args: ['--role', 'apiserver'] })
    const running = spawnProgram(
      ['serve', '--role', 'controllers', '--server', server.url, '--plugin', plugin, '--log-level', 'debug'],
      { env },
    )
    cleanups.push(() => running.kill('SIGKILL'))
    objectOf(await api.post('/apis/careless.example.com/v1/things', thing('a')), 201)
    await eventually(async () => {
      const { status } = objectOf(await api.get('/apis/careless.example.com/v1/things/a'))
      expect(status).toEqual({ retries: 9, length: secret.length })
    })
    await running.says(/failed with \[secret\]/, 'stderr')
    expect(running.stderr + running.stdout).not.toContain('hunter2')
  })

  it('that are unknown stop the plugin, and those of no plugin are reported', async () => {
    const plugin = await writeTemporary({ 'index.js': careless })
    const { api, server } = await serve(plugin, {
      env: {
        SETPOINT_PLUGIN_CARELESS_API_TOKEN: secret,
        SETPOINT_PLUGIN_CARELESS_RETRY: '1',
        SETPOINT_PLUGIN_CARLESS_RETRIES: '1',
      },
    })
    expect((await pluginStates(api)).get('careless')?.message).toContain(
      'SETPOINT_PLUGIN_CARELESS_RETRY is not a setting; did you mean SETPOINT_PLUGIN_CARELESS_RETRIES?',
    )
    expect(server.stderr()).toContain('SETPOINT_PLUGIN_CARLESS_RETRIES is for no plugin')
  })
})
