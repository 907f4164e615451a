import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Api } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { type Running, spawnProgram } from './support/server.ts'

const routes = '/apis/api.noisy.example.com/v1'

describe('the log of the program', () => {
  let dir: string
  let plugin: string
  let running: Running | undefined

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'setpoint-logs-'))
    const setup = `plugin.routes('api.noisy.example.com/v1', r => r
      .get('/fill', async ({ log }) => { for (let at = 0; at < 100; at++) log.info({ at, text: 'x'.repeat(20_000) }, 'filling'); return { body: {} } })
      .get('/warn', async () => { process.emitWarning('slow disk'); process.emitWarning('old call', 'DeprecationWarning'); return { body: {} } })
      .get('/exit', async () => process.exit(3))
      .get('/fail', async () => { throw new Error('on purpose') }))`
    plugin = await writePlugin({ 'index.js': pluginModule('noisy', { setup }) })
  })
  afterEach(async () => {
    running?.child.stderr?.resume()
    await running?.kill()
  })
  afterAll(() => Promise.all([dir, plugin].map(each => rm(each, { recursive: true, force: true }))))

  async function start(options: { args?: string[]; env?: Record<string, string>; unread?: boolean } = {}) {
    const { args = [], env = {}, unread = false } = options
    const data = await mkdtemp(join(dir, 'data-'))
    const flags = ['--listen', '127.0.0.1:0', '--data-dir', data, '--plugin', plugin, ...args]
    const program = spawnProgram(['serve', ...flags], { cwd: data, env })
    running = program
    if (unread) program.child.stderr?.pause()
    const [, url = ''] = await program.says(/^setpoint listening on (\S+)\n/)
    return { program, api: new Api(url) }
  }

  const droppedOf = async (api: Api, reason: string) => {
    const { text } = await api.get('/metrics')
    return Number(
      new RegExp(`^setpoint_log_lines_dropped_total{reason="${reason}"} (\\d+)$`, 'm').exec(text)?.[1],
    )
  }
  const linesOf = (program: Running, message: string) =>
    program.stderr
      .split('\n')
      .filter(line => line.endsWith('}') && line.includes(message))
      .map(line => fieldsOf(JSON.parse(line)))

  it('does not block the server when standard error is not read, and later reports the dropped lines', async () => {
    const { program, api } = await start({ unread: true })
    for (let round = 0; round < 5; round++) {
      expect((await api.get(`${routes}/fill`)).status).toBe(200)
      expect((await api.get('/livez')).text).toBe('ok')
    }
    expect(await droppedOf(api, 'buffer_full')).toBeGreaterThan(0)
    program.child.stderr?.resume()
    await program.says(/"dropped":\d+.*log lines were dropped/, 'stderr')
    const dropped = linesOf(program, 'log lines were dropped').map(line => Number(line.dropped))
    const filling = linesOf(program, '"filling"').length
    expect(filling + dropped.reduce((sum, each) => sum + each, 0)).toBeGreaterThanOrEqual(500)
  })

  it('does not keep the program from exiting when standard error is not read', async () => {
    const { program, api } = await start({ unread: true })
    await api.get(`${routes}/fill`)
    program.child.kill('SIGTERM')
    expect(await once(program.child, 'exit')).toEqual([0, null])
  })

  it('has the warnings of Node.js as lines, deprecations at the level debug', async () => {
    const { program, api } = await start()
    await api.get(`${routes}/warn`)
    await program.says(/slow disk/, 'stderr')
    const { stderr } = await program.kill('SIGTERM')
    for (const line of stderr.trimEnd().split('\n')) expect(() => JSON.parse(line)).not.toThrow()
    expect(stderr).not.toContain('old call')
  })

  it('begins with the versions and the settings, and ends with the reason of the exit', async () => {
    const file = join(dir, 'setpoint.yaml')
    await writeFile(file, 'lease: mine\n')
    const { program } = await start({ args: ['--config', file] })
    const { stderr } = await program.kill('SIGTERM')
    const lines = stderr.trimEnd().split('\n')
    expect(fieldsOf(JSON.parse(lines[0] ?? ''))).toMatchObject({
      level: 'info',
      msg: 'starting',
      version: '0.1.0',
      node: process.version,
      config: file,
      role: 'all',
      listen: '127.0.0.1:0',
      tls: false,
      authentication: [],
      plugins: [plugin],
      store: { kind: 'embedded', dataDir: expect.stringContaining(dir) },
    })
    expect(lines.at(-2)).toContain('"msg":"stopped"')
    expect(fieldsOf(JSON.parse(lines.at(-1) ?? ''))).toMatchObject({
      msg: 'exiting',
      reason: 'SIGTERM',
      code: 0,
    })
  })

  it('says at its end that a plugin has called process.exit()', async () => {
    const { program, api } = await start()
    await api.get(`${routes}/exit`).catch(() => {})
    const { code, stderr } = await program.ended
    expect(code).toBe(3)
    expect(fieldsOf(JSON.parse(stderr.trimEnd().split('\n').at(-1) ?? ''))).toMatchObject({
      msg: 'exiting',
      reason: 'process.exit() was called',
      code: 3,
    })
  })

  it('repeats a failure caused by requests only a bounded number of times', async () => {
    const { program, api } = await start()
    for (let at = 0; at < 50; at++) expect((await api.get(`${routes}/fail`)).status).toBe(500)
    expect(await droppedOf(api, 'repeated')).toBeGreaterThan(0)
    await program.kill('SIGTERM')
    expect(linesOf(program, 'route failed').length).toBeLessThan(50)
  })

  it('is text if --log-format or the environment says so', async () => {
    const { program } = await start({ env: { SETPOINT_LOG_FORMAT: 'text' } })
    const { stderr } = await program.kill('SIGTERM')
    for (const line of stderr.trimEnd().split('\n')) expect(line).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}\S/)
  })
})
