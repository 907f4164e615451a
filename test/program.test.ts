import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api, listOf, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { itemsOf, pluginsPath } from './support/kinds.ts'
import { pluginModule, pluginStates, writePlugin } from './support/plugins.ts'
import { freePort } from './support/ports.ts'
import {
  type RunningServer,
  runProgram,
  type ServerProcess,
  spawnProgram,
  startServer,
  startSharedServer,
} from './support/server.ts'
import { Watch } from './support/watch.ts'
import { copyFixture, eventually } from './support/worlds.ts'

describe('the program', () => {
  let plugin: string
  let dir: string
  const servers: RunningServer[] = []

  beforeAll(async () => {
    plugin = await copyFixture('items-plugin')
    dir = await mkdtemp(join(tmpdir(), 'setpoint-program-'))
  })
  afterEach(async () => {
    await Promise.all(servers.splice(0).map(server => server.stop()))
  })
  afterAll(async () => {
    await Promise.all([plugin, dir].map(each => rm(each, { recursive: true, force: true })))
  })

  async function start(options: Parameters<typeof startServer>[0] = {}): Promise<ServerProcess> {
    const server = await startServer({ plugins: [plugin], ...options })
    servers.push(server)
    return server
  }

  /** For what is not about the process. */
  async function share(args: readonly string[] = []): Promise<RunningServer> {
    const server = await startSharedServer({ plugins: [plugin], args })
    servers.push(server)
    return server
  }

  describe('when it serves', () => {
    it('prints one line to stdout, with the real port, and everything else to stderr', async () => {
      const flags = ['--listen', '127.0.0.1:0', '--data-dir', join(dir, 'traced'), '--plugin', plugin]
      const running = spawnProgram(['serve', ...flags, '--log-level', 'trace'], { cwd: dir })
      const [line, url = ''] = await running.says(/^setpoint listening on (http:\/\/127\.0\.0\.1:\d+)\n/)
      const api = new Api(url)
      await eventually(() => itemsOf(api).create('one', {}))
      refusalOf(await api.get('/nowhere'), 404)
      const { stdout, stderr } = await running.kill('SIGTERM')
      expect(stdout).toBe(line)
      for (const line of stderr.trimEnd().split('\n')) expect(() => fieldsOf(JSON.parse(line))).not.toThrow()
    })

    it('logs no warnings at an ordinary start and stop, nor after it was killed', async () => {
      const dataDir = await mkdtemp(join(dir, 'quiet-'))
      const first = await start({ dataDir })
      await itemsOf(new Api(first.url)).create('one', {})
      const killed = await first.kill('SIGKILL')
      const again = await start({ dataDir })
      const stopped = await again.kill('SIGTERM')
      const lines = `${killed.stderr}${stopped.stderr}`
        .trimEnd()
        .split('\n')
        .map(line => fieldsOf(JSON.parse(line)))
      expect(lines.length).toBeGreaterThan(0)
      expect(lines.filter(({ level }) => level !== 'info')).toEqual([])
    })

    it('logs what caused an error once in its message', async () => {
      const broken = await mkdtemp(join(dir, 'broken-'))
      await writeFile(
        join(broken, 'package.json'),
        '{"name":"broken","type":"module","exports":"./index.js"}',
      )
      await writeFile(join(broken, 'index.js'), "throw new Error('it has a screw loose')")
      const server = await start({ plugins: [broken] })
      const { stderr } = await server.kill('SIGTERM')
      const errors = stderr.split('\n').filter(line => line.includes('failed to load a plugin'))
      const messages = errors.map(line => String(fieldsOf(fieldsOf(JSON.parse(line)).err).message))
      expect(messages).toHaveLength(1)
      expect(messages[0]?.match(/it has a screw loose/g)).toHaveLength(1)
    })

    it('serves its kinds as soon as the line is there', async () => {
      const server = await start()
      expect((await itemsOf(new Api(server.url)).list()).names).toEqual([])
    })

    it.each(['SIGTERM', 'SIGINT'] as const)('ends with exit code 0 on %s', async signal => {
      const server = await start()
      expect(await server.kill(signal)).toMatchObject({ code: 0, signal: null })
    })

    it('keeps serving on SIGUSR1, without the inspector of Node.js', async () => {
      const server = await start({ env: { NODE_OPTIONS: '--inspect-port=127.0.0.1:0' } })
      process.kill(server.pid, 'SIGUSR1')
      expect((await new Api(server.url).get('/livez')).text).toBe('ok')
      const { code, stderr } = await server.kill('SIGTERM')
      expect(code).toBe(0)
      expect(stderr).not.toContain('Debugger listening')
    })

    it('closes watches with 1001 on SIGTERM, and exits even if clients keep connections open', async () => {
      const server = await start()
      const watches = await Promise.all(
        [1, 2, 3].map(() => Watch.open(server.url, '/apis/items.example.com/v1/items')),
      )
      await Promise.all(watches.map(watch => watch.synced()))
      const exit = await server.kill('SIGTERM')
      for (const watch of watches) expect((await watch.closed).code).toBe(1001)
      expect(exit.code).toBe(0)
    })

    it('loses no write that was acknowledged before SIGTERM', async () => {
      const server = await start()
      const items = itemsOf(new Api(server.url))
      const made = await items.create('kept', { count: 1 })
      await server.kill('SIGTERM')
      await server.restart()
      expect((await items.read('kept')).raw).toEqual(made.raw)
    })

    it('serves /livez, /healthz, /readyz and /version', async () => {
      const api = new Api((await share()).url)
      for (const path of ['/livez', '/healthz', '/readyz']) {
        expect(await api.get(path)).toMatchObject({ status: 200, text: 'ok' })
        const verbose = await api.get(`${path}?verbose`)
        expect([verbose.status, verbose.text.includes('[+]')]).toEqual([200, true])
      }
      expect(fieldsOf((await api.get('/version')).body)).toHaveProperty('gitVersion')
    })

    it('lists the kinds that it serves', async () => {
      const api = new Api((await share()).url)
      const groups = await api.get('/apis')
      expect([groups.status, fieldsOf(groups.body).kind]).toEqual([200, 'APIGroupList'])
      expect(groups.text).toContain('items.example.com')
      const resources = await api.get('/apis/items.example.com/v1')
      expect([resources.status, fieldsOf(resources.body).kind]).toEqual([200, 'APIResourceList'])
      for (const plural of ['items', 'devices', 'devices/status', 'vaults'])
        expect(resources.text).toContain(`"${plural}"`)
      expect(resources.text).toContain('"shortNames":["dv"],"categories":["all"]')
      refusalOf(await api.get('/apis/nobody.example.com/v1'), 404)
    })
  })

  describe('settings', () => {
    it('--base-path moves every path', async () => {
      const server = await share(['--base-path', '/cp/a'])
      expect(server.url).toBe(`http://127.0.0.1:${server.port}/cp/a`)
      const api = new Api(server.url)
      const items = itemsOf(api)
      const answer = await api.post(items.path, items.body('one', {}))
      expect(objectOf(answer, 201).metadata.name).toBe('one')
      expect(answer.headers.get('location')).toBe(`/cp/a${items.at('one')}`)
      for (const path of ['/version', '/livez', '/apis', pluginsPath])
        expect((await api.get(path)).status).toBe(200)
      const watch = await Watch.open(server.url, items.path)
      await watch.synced()
      expect(watch.story).toEqual(['ADDED one'])
      await watch.close()
      const outside = new Api(`http://127.0.0.1:${server.port}`)
      for (const path of ['/version', items.path, '/cp', '/cp/ab/version'])
        refusalOf(await outside.get(path), 404)
    })

    it('--reserved-domain renames the built-in groups', async () => {
      const server = await share(['--reserved-domain', 'cp.example.org'])
      const api = new Api(server.url)
      listOf(await api.get('/apis/plugins.cp.example.org/v1/plugins'))
      refusalOf(await api.get(pluginsPath), 404)
    })

    it('can come from the environment', async () => {
      const running = spawnProgram(['serve'], {
        cwd: dir,
        env: {
          SETPOINT_LISTEN: '127.0.0.1:0',
          SETPOINT_DATA_DIR: join(dir, 'of-env'),
          SETPOINT_PLUGIN: plugin,
          SETPOINT_BASE_PATH: '/env',
        },
      })
      const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
      expect(url).toMatch(/\/env$/)
      expect((await eventually(() => itemsOf(new Api(url)).list())).names).toEqual([])
      expect((await running.kill('SIGTERM')).code).toBe(0)
      expect(await readdir(dir)).toContain('of-env')
    })

    it('can come from the file of --config; the environment overrides it, and the command line both', async () => {
      const file = join(dir, 'setpoint.yaml')
      await writeFile(
        file,
        `listen: 127.0.0.1:0\nbase-path: /file\nreserved-domain: file.example.org\ndata-dir: ${join(dir, 'of-file')}\nplugin:\n  - ${plugin}\n`,
      )
      const running = spawnProgram(['serve', '--config', file, '--base-path', '/flag'], {
        cwd: dir,
        env: { SETPOINT_BASE_PATH: '/env', SETPOINT_RESERVED_DOMAIN: 'env.example.org' },
      })
      const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
      expect(url).toMatch(/\/flag$/)
      const api = new Api(url)
      listOf(await api.get('/apis/plugins.env.example.org/v1/plugins'))
      expect((await eventually(() => itemsOf(api).list())).names).toEqual([])
      expect((await running.kill('SIGTERM')).code).toBe(0)
      expect(await readdir(dir)).toContain('of-file')
    })

    it('keep data in ./.setpoint by default', async () => {
      const cwd = await mkdtemp(join(dir, 'cwd-'))
      const running = spawnProgram(['serve', '--listen', '127.0.0.1:0', '--plugin', plugin], { cwd })
      await running.says(/^setpoint listening on/)
      expect((await running.kill('SIGTERM')).code).toBe(0)
      expect(await readdir(cwd)).toEqual(['.setpoint'])
    })

    it('resolve a plugin folder from the working directory', async () => {
      const cwd = await mkdtemp(join(dir, 'cwd-'))
      await symlink(plugin, join(cwd, 'mine'))
      const running = spawnProgram(['serve', '--listen', '127.0.0.1:0', '--plugin', './mine'], { cwd })
      const [, url = ''] = await running.says(/^setpoint listening on (\S+)\n/)
      await eventually(async () => {
        const { items } = listOf(await new Api(url).get(pluginsPath))
        expect(items.map(({ metadata }) => metadata.name)).toEqual(['items'])
      })
      await running.kill('SIGTERM')
    })
  })

  describe('a bad command line', () => {
    it.each([
      ['an unknown flag', ['serve', '--colour', 'red'], /--colour/],
      ['an unknown command', ['dance'], /dance/],
      ['a flag without its value', ['serve', '--listen'], /--listen/],
      ['an address that is none', ['serve', '--listen', 'nowhere'], /--listen.*nowhere/],
      ['a port that is none', ['serve', '--listen', '127.0.0.1:99999'], /99999/],
      ['a base path that is none', ['serve', '--base-path', 'x y'], /--base-path/],
      ['a store that there is not', ['serve', '--store', 'paper'], /--store.*paper/],
      ['etcd without endpoints', ['serve', '--store', 'etcd'], /etcd-endpoints/],
      ['a role that there is not', ['serve', '--role', 'king'], /--role.*king/],
      ['controllers without a server', ['serve', '--role', 'controllers'], /--server/],
      ['a missing configuration file', ['serve', '--config', '/nowhere/x.yaml'], /\/nowhere\/x\.yaml/],
      ['a log level that there is not', ['serve', '--log-level', 'loud'], /loud/],
      ['a domain that is none', ['serve', '--reserved-domain', 'a_b'], /a_b/],
    ])('(%s) is one clear line on stderr, nothing on stdout, and exit code 2', async (_what, args, says) => {
      const { code, stdout, stderr } = await runProgram(args, { cwd: dir })
      expect(code).toBe(2)
      expect(stdout).toBe('')
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
      expect(stderr).toMatch(says)
    })

    it('in a configuration file is reported with its line', async () => {
      const file = join(dir, 'bad.yaml')
      await writeFile(file, 'base-path: /x\nlisten: nowhere\n')
      const { code, stderr } = await runProgram(['serve', '--config', file])
      expect(code).toBe(2)
      expect(stderr).toMatch(/bad\.yaml.*listen/)
      await writeFile(file, 'colour: red\n')
      const unknown = await runProgram(['serve', '--config', file])
      expect(unknown.code).toBe(2)
      expect(unknown.stderr).toMatch(/bad\.yaml.*colour/)
    })

    it.each([
      ['there is no such folder', 'nowhere'],
      ['there is no package.json in it', 'hollow'],
      ['it is a file', 'a-plugin.yaml'],
    ])('with a folder of a plugin that is none (%s) is refused wherever it stands', async (_what, name) => {
      const cwd = await mkdtemp(join(dir, 'cwd-'))
      await mkdir(join(cwd, 'hollow'))
      await writeFile(join(cwd, 'a-plugin.yaml'), `plugin: [${name}]\n`)
      const places: { args?: string[]; env?: Record<string, string>; origin: string }[] = [
        { args: ['--plugin', name], origin: '--plugin' },
        { env: { SETPOINT_PLUGIN: name }, origin: 'SETPOINT_PLUGIN' },
        { args: ['--config', 'a-plugin.yaml'], origin: 'a-plugin.yaml:1: plugin' },
        {
          args: ['--role', 'controllers', '--server', 'http://127.0.0.1:1', '--plugin', name],
          origin: '--plugin',
        },
      ]
      for (const { args = [], env = {}, origin } of places) {
        const { code, stdout, stderr } = await runProgram(['serve', ...args], { cwd, env })
        expect([code, stdout]).toEqual([2, ''])
        expect(stderr.trimEnd().split('\n')).toHaveLength(1)
        expect(stderr).toContain(`setpoint: ${origin}: "${name}" holds no plugin: `)
      }
    })

    it('in the environment is reported with the variable', async () => {
      const { code, stderr } = await runProgram(['serve'], { env: { SETPOINT_LISTEN: 'nowhere' } })
      expect(code).toBe(2)
      expect(stderr).toMatch(/SETPOINT_LISTEN/)
    })

    it('stores nothing', async () => {
      const cwd = await mkdtemp(join(dir, 'cwd-'))
      await runProgram(['serve', '--colour'], { cwd })
      expect(await readdir(cwd)).toEqual([])
    })
  })

  it('prints its help and version and exits with 0', async () => {
    const help = await runProgram(['--help'])
    expect(help.code).toBe(0)
    const serve = await runProgram(['serve', '--help'])
    for (const flag of ['--listen', '--data-dir', '--etcd-endpoints', '--plugin'])
      expect(serve.stdout).toContain(flag)
    const version = await runProgram(['--version'])
    expect([version.code, version.stderr]).toEqual([0, ''])
    expect(version.stdout).toMatch(/\d+\.\d+\.\d+/)
  })

  it("refuses another server's data folder with a clear error, and leaves that server running", async () => {
    const dataDir = await mkdtemp(join(dir, 'data-'))
    const first = await start({ dataDir })
    const items = itemsOf(new Api(first.url))
    await items.create('one', {})
    const second = await runProgram([
      'serve',
      '--listen',
      '127.0.0.1:0',
      '--data-dir',
      dataDir,
      '--plugin',
      plugin,
    ])
    expect(second.code).toBe(1)
    expect(second.stdout).toBe('')
    expect(second.stderr).toMatch(/^setpoint: /m)
    expect(second.stderr).toContain(dataDir)
    expect(second.stderr).not.toMatch(/^\s+at /m)
    await items.create('two', {})
    expect((await items.list({ sort: 'metadata.name' })).names).toEqual(['one', 'two'])
  })

  it('takes over a data folder after the other server was killed', async () => {
    const dataDir = await mkdtemp(join(dir, 'data-'))
    const first = await start({ dataDir })
    await itemsOf(new Api(first.url)).create('one', {})
    await first.kill('SIGKILL')
    const second = await start({ dataDir })
    expect((await itemsOf(new Api(second.url)).list()).names).toEqual(['one'])
  })

  it('refuses a port in use with a clear error', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await new Promise(resolve => holder.once('listening', resolve))
    const address = holder.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const dataDir = await mkdtemp(join(dir, 'data-'))
    const { code, stdout, stderr } = await runProgram([
      'serve',
      '--listen',
      `127.0.0.1:${port}`,
      '--data-dir',
      dataDir,
      '--plugin',
      plugin,
    ])
    expect(code).toBe(1)
    expect(stdout).toBe('')
    expect(stderr).toMatch(new RegExp(`setpoint: .*${port}`))
    expect(stderr).not.toMatch(/^\s+at /m)
    await new Promise(resolve => holder.close(resolve))
  })

  it('is ready when each plugin that is not deferred has started or failed, and stays ready', async () => {
    const folder = await mkdtemp(join(dir, 'gates-'))
    const gateOf = (name: string) => join(folder, name)
    /** A plugin whose `setup` waits until the gate is open. */
    const waiting = (name: string, readiness: string) =>
      writePlugin({
        'index.js': `import { existsSync } from 'node:fs'
          import { defineModel, definePlugin } from '@setpoint/controller-runtime'
          const Thing = defineModel({
            group: '${name}.example.com', version: 'v1', kind: 'Thing', singular: 'thing', plural: 'things',
            schema: { spec: { type: 'object' } },
          })
          export default definePlugin({ name: '${name}', models: [Thing], readiness: '${readiness}', async setup() {
            while (!existsSync('${gateOf(name)}')) await new Promise(resolve => setTimeout(resolve, 20))
          } })`,
      })
    const failing = writePlugin({
      'index.js': pluginModule('failing', { setup: "throw new Error('as it should')" }),
    })
    const own = await Promise.all([waiting('slow', 'awaited'), waiting('late', 'deferred'), failing])
    const port = await freePort()
    const running = spawnProgram([
      ...['serve', '--listen', `127.0.0.1:${port}`, '--data-dir', join(dir, 'waits')],
      ...[...own, plugin].flatMap(each => ['--plugin', each]),
    ])
    try {
      const api = new Api(`http://127.0.0.1:${port}`)
      const statusOf = async (path: string) => (await api.get(path)).status
      const thingsOf = (name: string) => `/apis/${name}.example.com/v1/things`
      const phaseOf = async (name: string) => (await pluginStates(api)).get(name)?.phase
      await eventually(async () => {
        const { status, text } = await api.get('/readyz')
        expect(text).toContain('[-]startup failed: these plugins are still starting: slow\n')
        expect(status).toBe(503)
      })
      expect(await statusOf(itemsOf(api).path)).toBe(200)
      await eventually(async () => expect(await phaseOf('failing')).toBe('Failed'))
      await writeFile(gateOf('slow'), '')
      await eventually(async () => expect(await statusOf('/readyz')).toBe(200))
      expect(await statusOf(thingsOf('slow'))).toBe(200)
      expect(await statusOf(thingsOf('late'))).toBe(503)
      // A plugin that starts again does not make the server unready.
      const slow = `${pluginsPath}/slow`
      await rm(gateOf('slow'))
      objectOf(await api.mergePatch(slow, { spec: { enabled: false } }))
      await eventually(async () => expect(await phaseOf('slow')).toBe('Disabled'))
      objectOf(await api.mergePatch(slow, { spec: { enabled: true } }))
      await eventually(async () => expect(await phaseOf('slow')).toBe('Starting'))
      expect(await statusOf('/readyz')).toBe(200)
      for (const name of ['slow', 'late']) {
        await writeFile(gateOf(name), '')
        await eventually(async () => expect(await statusOf(thingsOf(name))).toBe(200))
      }
    } finally {
      await running.kill('SIGTERM')
      await Promise.all(own.map(each => rm(each, { recursive: true, force: true })))
    }
  })

  it.each([
    ['is a file', () => join(dir, 'a-file')],
    ['is below a file', () => join(dir, 'a-file', 'data')],
    ['cannot be made', () => '/proc/setpoint'],
  ])('refuses a data folder that %s with a clear line', async (_what, path) => {
    await writeFile(join(dir, 'a-file'), '')
    const file = path()
    const { code, stderr } = await runProgram([
      'serve',
      '--listen',
      '127.0.0.1:0',
      '--data-dir',
      file,
      '--plugin',
      plugin,
    ])
    expect([1, 2]).toContain(code)
    expect(stderr).toContain(file)
    expect(stderr).not.toMatch(/^\s+at /m)
  })

  it('serves although the reader of its standard output has gone', async () => {
    const port = await freePort()
    const running = spawnProgram([
      ...['serve', '--listen', `127.0.0.1:${port}`, '--data-dir', join(dir, 'unread')],
      ...['--plugin', plugin],
    ])
    running.child.stdout?.destroy()
    const api = new Api(`http://127.0.0.1:${port}`)
    await eventually(async () => expect((await api.get('/readyz')).status).toBe(200))
    expect((await running.kill('SIGTERM')).code).toBe(0)
  })

  it('is not ready while it drains, and completes open requests', async () => {
    const server = await start()
    const watch = await Watch.open(server.url, '/apis/items.example.com/v1/items')
    await watch.synced()
    const ended = server.kill('SIGTERM')
    await eventually(async () => {
      const answer = await new Api(server.url).get('/readyz').catch(() => undefined)
      if (answer !== undefined && answer.status !== 503) throw new Error('still ready')
    })
    expect((await ended).code).toBe(0)
  })
})
