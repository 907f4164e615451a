import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { Api, Collection, listOf } from './support/api.ts'
import { startEtcd } from './support/etcd.ts'
import { fieldsOf } from './support/json.ts'
import { leasesOf } from './support/kinds.ts'
import { pluginStates, writePlugin } from './support/plugins.ts'
import { type Running, spawnProgram, startServer } from './support/server.ts'
import { eventually } from './support/worlds.ts'

const patience = 600_000
const takeoverMs = 180_000

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

/** A plugin that writes what its runnables and its schedule do into a file. */
async function writeJobs(extra = ''): Promise<{ dir: string; lines: () => Promise<string[]> }> {
  const folder = await mkdtemp(join(tmpdir(), 'setpoint-jobs-'))
  const file = join(folder, 'lines')
  const dir = await writePlugin({
    'index.js': `import { appendFileSync } from 'node:fs'
import { definePlugin } from '@setpoint/controller-runtime'
const who = process.env.JOBS_WHO ?? 'server'
const note = text => appendFileSync(${JSON.stringify(file)}, who + ' ' + text + '\\n')
const until = what => async ({ signal }) => {
  note(what + ' begins')
  await new Promise(resolve => signal.addEventListener('abort', resolve))
  note(what + ' ends')
}
export default definePlugin({
  name: 'small-jobs',
  setup(plugin) {
    const ticks = plugin.metrics.counter({ name: 'ticks_total', help: 'Runs of the schedule.', labelNames: ['who'] })
    plugin.runnable('leads', until('leads'))
    plugin.runnable('everywhere', until('everywhere'), { leaderElected: false })
    plugin.schedule('tick', '1s', () => {
      ticks.inc({ who })
      note('ticks')
    })
    ${extra}
  },
})
`,
  })
  for (const path of [folder, dir]) cleanups.push(() => rm(path, { recursive: true, force: true }))
  return { dir, lines: async () => (await readFile(file, 'utf8').catch(() => '')).split('\n').slice(0, -1) }
}

const says = (lines: () => Promise<string[]>, line: string | RegExp) =>
  eventually(async () => expect((await lines()).join('\n')).toMatch(line), takeoverMs)

describe('in the process of the server', () => {
  it('runnables and schedules start with the plugin, end with it, and have their metrics in /metrics', async () => {
    const { dir, lines } = await writeJobs()
    const server = await startServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const metrics = async () => (await new Api(server.url).get('/metrics')).text
    for (const line of [/server leads begins/, /server everywhere begins/, /server ticks/])
      await says(lines, line)
    await eventually(async () => {
      const text = await metrics()
      expect(text).toMatch(/^plugin_small_jobs_ticks_total\{who="server"\} [1-9]/m)
      expect(text).toMatch(/^setpoint_runnable_running\{runnable="small-jobs\/leads"\} 1$/m)
      expect(text).toMatch(
        /^setpoint_schedule_runs_total\{schedule="small-jobs\/tick",result="success"\} [1-9]/m,
      )
    })
    expect((await server.kill('SIGTERM')).code).toBe(0)
    expect(await lines()).toEqual(expect.arrayContaining(['server leads ends', 'server everywhere ends']))
  })

  it('failures are problems of the plugin until the work succeeds', async () => {
    const { dir } = await writeJobs(`
    const check = async () => {
      const { readFile } = await import('node:fs/promises')
      const text = await readFile(process.env.JOBS_ORDERS, 'utf8')
      if (text !== 'work') throw new Error(text)
    }
    plugin.runnable('careful', check)
    plugin.schedule('checks', '1s', check)`)
    const orders = join(dir, 'orders')
    await writeFile(orders, `wait ${'longer '.repeat(100)}`)
    const server = await startServer({ plugins: [dir], env: { JOBS_ORDERS: orders } })
    cleanups.push(() => server.stop())
    const problems = async () => {
      const { object } = (await pluginStates(new Api(server.url))).get('small-jobs') ?? {}
      return fieldsOf(object?.status).problems
    }
    await eventually(async () =>
      expect(await problems()).toEqual([
        {
          source: 'runnable careful',
          message: expect.stringMatching(/^it fails and is restarted with back-off: wait longer .{0,300}…$/),
        },
        {
          source: 'schedule checks',
          message: expect.stringMatching(/^its last run has failed: wait longer /),
        },
      ]),
    )
    await writeFile(orders, 'work')
    await eventually(async () => expect(await problems()).toEqual([]), takeoverMs)
  })

  it('the role apiserver runs none of them, and has the metrics of the plugin', async () => {
    const { dir, lines } = await writeJobs("plugin.metrics.gauge({ name: 'up', help: 'One.' }).set(1)")
    const server = await startServer({ plugins: [dir], args: ['--role', 'apiserver'] })
    cleanups.push(() => server.stop())
    expect((await pluginStates(new Api(server.url))).get('small-jobs')?.phase).toBe('Started')
    expect((await new Api(server.url).get('/metrics')).text).toMatch(/^plugin_small_jobs_up 1$/m)
    expect((await server.kill('SIGTERM')).code).toBe(0)
    expect(await lines()).toEqual([])
  })

  it.each([
    [
      "plugin.schedule('bad', '61 * * * *', () => {})",
      'schedule bad: the expression "61 * * * *" is not valid',
    ],
    ["plugin.runnable('leads', () => {})", 'a runnable or schedule named "leads" already exists'],
    ["plugin.metrics.counter({ name: 'a b', help: 'x' })", 'the metric name "a b" must consist of letters'],
  ])('%s makes the plugin Failed, and its status says why', async (extra, message) => {
    const { dir } = await writeJobs(extra)
    const server = await startServer({ plugins: [dir] })
    cleanups.push(() => server.stop())
    const state = (await pluginStates(new Api(server.url))).get('small-jobs')
    expect(state?.phase).toBe('Failed')
    expect(state?.message).toContain(message)
    expect((await new Api(server.url).get('/metrics')).text).not.toContain('plugin_small_jobs')
  })
})

it("the guide's plugin runs its schedule", async () => {
  const guide = await readFile(new URL('../docs/guides/background-work.md', import.meta.url), 'utf8')
  const [, source = ''] = /^```js index\.js\n([\s\S]*?)^```$/m.exec(guide) ?? []
  const dir = await writePlugin({ 'index.js': source })
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  const server = await startServer({ plugins: [dir] })
  cleanups.push(() => server.stop())
  const sessions = new Collection(new Api(server.url), 'sessions.example.com/v1', 'Session', 'sessions')
  await sessions.create('kept', { expires: '9999-01-01T00:00:00Z' })
  await sessions.create('old', { expires: '2020-01-01T00:00:00Z' })
  await eventually(async () => expect((await sessions.list()).names).toEqual(['kept']))
  // The plugin counts a deletion after its response.
  await eventually(async () =>
    expect((await sessions.api.get('/metrics')).text).toMatch(/^plugin_sessions_deleted_total 1$/m),
  )
})

describe('in two processes of controllers on one etcd', () => {
  it('the leader runs them, and the next leader takes over', {
    timeout: patience,
  }, async () => {
    const { dir, lines } = await writeJobs()
    const etcd = await startEtcd({ unsafeNoFsync: true })
    cleanups.push(() => etcd.stop())
    const server = await startServer({ store: 'etcd', etcd, args: ['--role', 'apiserver'] })
    cleanups.push(() => server.stop())
    const api = new Api(server.url)
    const start = async (who: string): Promise<{ running: Running; metrics: () => Promise<string> }> => {
      const running = spawnProgram(
        [
          ...['serve', '--role', 'controllers', '--server', server.url],
          ...['--plugin', dir, '--health-listen', '127.0.0.1:0'],
        ],
        { env: { JOBS_WHO: who } },
      )
      cleanups.push(() => running.kill('SIGKILL'))
      const [, url] = await running.says(/"url":"([^"]+)".*serving health and metrics/, 'stderr')
      return { running, metrics: async () => (await fetch(`${url}/metrics`)).text() }
    }
    const a = await start('a')
    await says(lines, /^a leads begins$/m)
    const b = await start('b')
    await says(lines, /^b everywhere begins$/m)
    await says(lines, /^a ticks$/m)
    await eventually(async () => {
      expect(await a.metrics()).toMatch(/^plugin_small_jobs_ticks_total\{who="a"\} [1-9]/m)
      expect(await a.metrics()).toMatch(/^setpoint_runnable_running\{runnable="small-jobs\/leads"\} 1$/m)
      expect(await b.metrics()).toMatch(/^setpoint_runnable_running\{runnable="small-jobs\/leads"\} 0$/m)
    })
    expect(await lines()).not.toContain('b leads begins')
    expect((await a.running.kill('SIGTERM')).code).toBe(0)
    await says(lines, /^b leads begins$/m)
    await says(lines, /^b ticks$/m)
    const story = await lines()
    const positions = ['a leads ends', 'b leads begins'].map(line => story.indexOf(line))
    expect(positions).toEqual([...positions].sort((left, right) => left - right))
    expect(positions[0]).toBeGreaterThan(0)
    const { items } = listOf(await api.get(leasesOf(api).path))
    const record = items.find(({ metadata }) => metadata.name === 'schedule-small-jobs--tick')
    expect(fieldsOf(record?.spec).holderIdentity).toBe('small-jobs/tick')
  })
})
