import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Manager, NewObjectOf, ReconcileReport, ReconcileResults } from '@setpoint/controller-runtime'
import { FakeClock, startTestServer, type TestServer } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Journal } from './journal.ts'
import { Probe, type ProbeObject, probeDefaults } from './probe.ts'
import { dueInMs, superviseProbes } from './reconciler.ts'
import { deadUrl, openPolicy, Target, until } from './testing/target.ts'

let folder: string
let target: Target
let clock: FakeClock
let server: TestServer
let manager: Manager
let results: ReconcileResults

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'uptime-'))
  target = await Target.start()
  clock = new FakeClock()
  server = await startTestServer({ models: [Probe] })
  manager = server.manager({ clock })
  const parts = { journal: new Journal(folder), policy: openPolicy }
  results = manager.controller(Probe, each => superviseProbes(each, parts)).results()
  manager.start()
})

afterEach(async () => {
  // First, so that no check waits for it.
  await target.stop()
  await server.close()
  await rm(folder, { recursive: true })
})

/** Creates the probe `p` and waits for its first check. */
async function create(
  spec: NewObjectOf<ProbeObject>['spec'],
  outcome?: ReconcileReport['outcome'],
): Promise<number | undefined> {
  await server.client.create(Probe, { metadata: { name: 'p' }, spec })
  // The run that adds the finalizer.
  await nextRun()
  return nextRun(outcome)
}

/** Waits for the next run, with that outcome. @returns ms until the probe is due again. */
async function nextRun(outcome: ReconcileReport['outcome'] = 'success'): Promise<number | undefined> {
  const { value: report } = await results.next()
  expect(report).toMatchObject({ object: 'p', outcome })
  return report?.nextRunInMs
}

const probe = () => server.client.get(Probe, 'p')
const status = async () => (await probe()).status
const change = (spec: Partial<ProbeObject['spec']>) => server.client.patch(Probe, 'p', { spec })
const wake = () => server.client.patch(Probe, 'p', { metadata: { annotations: { 'example.com/a': 'b' } } })

test('a new probe is checked at once, its status written, and requeued after the interval', async () => {
  expect(await create({ url: target.url, intervalSeconds: 30 })).toBe(30_000)
  const time = new Date(clock.now()).toISOString()
  const found = { state: 'Up', reason: 'Answered', httpStatus: 200, latencyMs: 0 }
  expect(await status()).toEqual({
    ...found,
    message: 'HTTP 200',
    lastCheckTime: time,
    lastTransitionTime: time,
    consecutiveFailures: 0,
    observedGeneration: 1,
    history: [{ ...found, time }],
  })
})

test('a run within the interval checks nothing and requeues for the rest', async () => {
  await create({ url: target.url, intervalSeconds: 30 })
  await clock.advance(10_000)
  await wake()
  expect(await nextRun()).toBe(20_000)
  expect(target.requests).toBe(1)
  await clock.advance(20_000)
  expect(await nextRun()).toBe(30_000)
  expect(target.requests).toBe(2)
})

test('a changed spec is checked at once', async () => {
  await create({ url: target.url })
  await change({ expectStatus: 404 })
  await nextRun()
  expect(await status()).toMatchObject({
    state: 'Down',
    message: 'HTTP 200, expected 404',
    observedGeneration: 2,
  })
  expect(target.requests).toBe(2)
})

test('consecutive failures are counted; a success resets them and removes old fields', async () => {
  await create({ url: target.url, intervalSeconds: 5 })
  await change({ url: await deadUrl() })
  const wentDownAt = new Date(clock.now()).toISOString()
  for (const failures of [1, 2, 3]) {
    await nextRun()
    expect(await status()).toMatchObject({
      state: 'Down',
      message: 'connection refused',
      consecutiveFailures: failures,
      lastTransitionTime: wentDownAt,
    })
    await clock.advance(failures < 3 ? 5_000 : 0)
  }
  expect(await status()).not.toHaveProperty('httpStatus')
  expect(await status()).not.toHaveProperty('latencyMs')
  await change({ url: target.url })
  await nextRun()
  expect(await status()).toMatchObject({ state: 'Up', consecutiveFailures: 0 })
})

test('the history keeps the last checks, newest first', async () => {
  await create({ url: target.url, intervalSeconds: 5 })
  for (let count = 0; count < probeDefaults.historyLength + 5; count++) {
    await clock.advance(5_000)
    await nextRun()
  }
  const { history = [], lastCheckTime } = (await status()) ?? {}
  const times = history.map(({ time }) => time)
  expect(times).toHaveLength(probeDefaults.historyLength)
  expect(times[0]).toBe(lastCheckTime)
  expect(times).toEqual(times.toSorted().reverse())
})

test('the interval is counted from the start of a check, however long the response takes', async () => {
  let respond = () => {}
  target.handler = (_, response) => {
    respond = () => response.end()
  }
  const checked = create({ url: target.url, intervalSeconds: 30 })
  await until('the request arrives', () => target.requests === 1)
  await clock.advance(3_000)
  respond()
  expect(await checked).toBe(27_000)
  expect((await status())?.latencyMs).toBe(3_000)
})

test('a timeout is limited by the interval', async () => {
  target.handler = () => {}
  const checked = create({ url: target.url, intervalSeconds: 5, timeoutSeconds: 60 })
  await until('the request arrives', () => target.requests === 1)
  await clock.advance(5_000)
  expect(await checked).toBe(0)
  expect(await status()).toMatchObject({
    state: 'Down',
    reason: 'TimedOut',
    message: 'no response within 5 s',
  })
})

test('an aborted run writes nothing', async () => {
  target.handler = () => {}
  void create({ url: target.url }).catch(() => {})
  await until('the request arrives', () => target.requests === 1)
  const stopped = manager.stop()
  await clock.advance(60_000)
  await stopped
  expect(await status()).toBeUndefined()
})

test('the result of a check of an outdated spec is not written', async () => {
  let respond = () => {}
  target.handler = (_, response) => {
    respond = () => response.end()
  }
  void create({ url: target.url }).catch(() => {})
  await until('the request arrives', () => target.requests === 1)
  const { metadata } = await change({ expectStatus: 204 })
  respond()
  await until('it is checked again', () => target.requests === 2)
  expect((await probe()).metadata.version).toBe(metadata.version)
})

test('the journal has a line for each change of state, and is removed with the probe', async () => {
  await create({ url: target.url, intervalSeconds: 5 })
  for (const code of [200, 500, 500, 200]) {
    target.handler = (_, response) => response.writeHead(code).end()
    await clock.advance(5_000)
    await nextRun()
  }
  const { uid } = (await probe()).metadata
  const lines = (await readFile(join(folder, `${uid}.jsonl`), 'utf8')).trim().split('\n')
  expect(lines.map(line => JSON.parse(line)).map(({ from, to }) => [from, to])).toEqual([
    [null, 'Up'],
    ['Up', 'Down'],
    ['Down', 'Up'],
  ])
  await server.client.delete(Probe, 'p')
  await nextRun()
  expect(await readdir(folder)).toEqual([])
})

test('a failed journal write is retried and affects nothing else', async () => {
  await rm(folder, { recursive: true })
  await writeFile(folder, 'a file where the folder should be')
  // The back-off of the controller, which is shorter than the interval.
  expect(await create({ url: target.url, intervalSeconds: 30 }, 'error')).toBeLessThan(5_000)
  expect((await status())?.state).toBe('Up')
  await rm(folder)
  await clock.advance(5_000)
  expect(await nextRun()).toBeGreaterThanOrEqual(25_000)
  expect(await readdir(folder)).toEqual([`${(await probe()).metadata.uid}.jsonl`])
  expect(target.requests).toBe(1)
})

test('setting the wall clock back does not delay checks', async () => {
  await create({ url: target.url })
  clock.jump(-3_600_000)
  expect(dueInMs(await probe(), clock)).toBe(0)
})
