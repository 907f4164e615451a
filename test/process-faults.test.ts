import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { type Running, spawnProgram } from './support/server.ts'
import { eventually } from './support/worlds.ts'

const routes = '/apis/api.faulty.example.com/v1'

describe('an unhandled error', () => {
  let dir: string
  let plugin: string
  let running: Running | undefined

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'setpoint-process-faults-'))
    const setup = `plugin.routes('api.faulty.example.com/v1', r => r
      .get('/timer', async () => { setTimeout(() => { throw new Error('in a timer') }); return { body: {} } })
      .get('/rejection', async () => { Promise.reject(new Error('rejected')); return { body: {} } })
      .get('/value', async () => { setTimeout(() => { throw 'a text' }); return { body: {} } })
      .get('/rejected-value', async () => { Promise.reject(undefined); return { body: {} } })
      .get('/file', async () => { readFile('/does/not/exist'); return { body: {} } })
      .get('/socket', async () => { connect(1, '127.0.0.1'); return { body: {} } })
      .get('/package', async () => { fail(); return { body: {} } })
      .get('/unreadable', async () => {
        setTimeout(() => { throw Object.defineProperty(new Error('x'), 'stack', { get() { throw new Error('y') } }) })
        return { body: {} }
      })
      .get('/forgotten', async ({ client }) => { client.get(Thing, 'absent'); return { body: {} } }))`
    const top = `import { readFile } from 'node:fs/promises'
      import { connect } from 'node:net'
      import fail from 'fails'`
    plugin = await writePlugin({
      'index.js': pluginModule('faulty', { setup, top }),
      'node_modules/fails/index.js':
        "module.exports = () => setTimeout(() => { throw new Error('in a package') })",
    })
  })
  afterEach(() => running?.kill())
  afterAll(() => Promise.all([dir, plugin].map(each => rm(each, { recursive: true, force: true }))))

  async function start(env: Record<string, string> = {}) {
    const data = await mkdtemp(join(dir, 'data-'))
    const flags = ['--listen', '127.0.0.1:0', '--data-dir', data, '--plugin', plugin]
    const program = spawnProgram(['serve', ...flags], { cwd: data, env })
    running = program
    const [, url = ''] = await program.says(/^setpoint listening on (\S+)\n/)
    return { program, api: new Api(url) }
  }

  const linesOf = (program: Running, message: string) =>
    program.stderr
      .split('\n')
      .filter(line => line.endsWith('}') && line.includes(message))
      .map(line => fieldsOf(JSON.parse(line)))

  it.each([
    ['throws in a timer', 'timer', 'in a timer'],
    ['leaves a rejection unhandled', 'rejection', 'rejected'],
  ])(
    'of a plugin that %s is logged with the plugin, and the server keeps serving',
    async (_does, route, message) => {
      const { program, api } = await start()
      await api.get(`${routes}/${route}`)
      await eventually(() => {
        const [line] = linesOf(program, 'a plugin did not handle an error')
        expect(line).toMatchObject({ level: 'error', plugin: 'faulty', err: { message } })
      })
      expect((await api.get('/livez')).status).toBe(200)
    },
  )

  it('of a plugin that names none of its modules is logged, and the server keeps serving', async () => {
    const { program, api } = await start()
    for (const route of ['value', 'rejected-value', 'file', 'socket', 'unreadable'])
      await api.get(`${routes}/${route}`)
    await eventually(() => {
      const found = linesOf(program, 'an unknown plugin did not handle an error').map(({ err }) =>
        JSON.stringify(err),
      )
      for (const text of ['a text', 'undefined', 'ENOENT', 'ECONNREFUSED', 'cannot be read'])
        expect(found).toContainEqual(expect.stringContaining(text))
    })
    await api.get(`${routes}/package`)
    await eventually(() => {
      const [line] = linesOf(program, 'a plugin did not handle an error')
      expect(line).toMatchObject({ level: 'error', plugin: 'faulty', err: { message: 'in a package' } })
    })
    expect((await api.get('/livez')).status).toBe(200)
  })

  it('of a call that a plugin does not await is logged, and the server keeps serving', async () => {
    const { program, api } = await start()
    await api.get(`${routes}/forgotten`)
    await eventually(() => {
      const [line] = linesOf(program, 'its caller neither awaited nor handled it')
      const err = { message: expect.stringContaining('absent') }
      expect(line).toMatchObject({ level: 'error', plugin: 'faulty', err })
    })
    expect((await api.get('/livez')).status).toBe(200)
  })

  it('of the server itself ends the process with exit code 1', async () => {
    const preload = join(dir, 'fault.mjs')
    await writeFile(
      preload,
      "process.on('SIGUSR2', () => { throw new TypeError('a fault of the server') })\n",
    )
    const { program } = await start({ NODE_OPTIONS: `--import ${pathToFileURL(preload)}` })
    const { code, stderr } = await program.kill('SIGUSR2')
    expect(code).toBe(1)
    const [fault, last] = stderr
      .trimEnd()
      .split('\n')
      .slice(-2)
      .map(line => fieldsOf(JSON.parse(line)))
    expect(fault).toMatchObject({ level: 'fatal', err: { message: 'a fault of the server' } })
    expect(last).toMatchObject({ msg: 'exiting', reason: 'uncaught exception', code: 1 })
  })
})
