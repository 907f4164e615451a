import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createClient,
  type ReconcileContext,
  silentLogger,
  type Transport,
} from '@setpoint/controller-runtime'
import { FakeClock } from '@setpoint/controller-runtime/testing'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Journal } from './journal.ts'
import { Probe, type ProbeObject, type ProbeStatus, probeDefaults } from './probe.ts'
import { dueInMs, ProbeReconciler } from './reconciler.ts'
import { deadUrl, Target, until } from './testing/target.ts'

const uid = '6f0c6a9e-0b1f-4a53-9a43-7d1f3b0f7a11'

let folder: string
let target: Target
let clock: FakeClock
let reconciler: ProbeReconciler

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'uptime-'))
  target = await Target.start()
  clock = new FakeClock()
  reconciler = new ProbeReconciler(new Journal(join(folder, 'journal')), clock)
})

afterEach(async () => {
  await target.stop()
  await rm(folder, { recursive: true })
})

/** A stored probe and the part of a server that status patches need. */
class StoredProbe implements Transport {
  object: ProbeObject
  readonly patches: unknown[] = []
  /** The HTTP status of the next answers. */
  answers = 200

  constructor(spec: ProbeObject['spec']) {
    this.object = {
      apiVersion: Probe.apiVersion,
      kind: Probe.kind,
      metadata: {
        name: 'p',
        uid,
        version: '1',
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '2030-01-01T00:00:00.000Z',
      },
      spec,
    }
  }

  get status(): ProbeStatus {
    return this.object.status ?? {}
  }

  change(spec: ProbeObject['spec']): void {
    const { metadata } = this.object
    this.object = { ...this.object, spec, metadata: { ...metadata, generation: metadata.generation + 1 } }
  }

  async request({ method, path, body }: Parameters<Transport['request']>[0]) {
    expect([method, path]).toEqual(['PATCH', `/apis/${Probe.apiVersion}/probes/p/status`])
    if (this.answers !== 200) return { status: this.answers, headers: {}, body: '' }
    const patch: { status: Record<string, unknown> } = JSON.parse(body ?? '')
    this.patches.push(patch)
    const merged = Object.entries({ ...this.object.status, ...patch.status })
    const status: ProbeStatus = Object.fromEntries(merged.filter(([, value]) => value !== null))
    this.object = { ...this.object, status }
    return { status: 200, headers: {}, body: JSON.stringify(this.object) }
  }

  watch(): never {
    throw new Error('a reconcile does not watch')
  }
}

function run(stored: StoredProbe, signal = new AbortController().signal) {
  const context: ReconcileContext = { client: createClient(stored), signal, log: silentLogger, attempt: 1 }
  return reconciler.reconcile(stored.object, context)
}

test('a new probe is checked at once, its status written, and it comes back after the interval', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 30 })
  expect(await run(stored)).toEqual({ requeueAfterMs: 30_000 })
  const time = new Date(clock.now()).toISOString()
  const found = { state: 'Up', reason: 'Answered', httpStatus: 200, latencyMs: 0 }
  expect(stored.status).toEqual({
    ...found,
    message: 'HTTP 200',
    lastCheckTime: time,
    lastTransitionTime: time,
    consecutiveFailures: 0,
    observedGeneration: 1,
    history: [{ ...found, time }],
  })
})

test('whoever wakes it within the interval, it checks nothing and waits for the rest', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 30 })
  await run(stored)
  await clock.advance(10_000)
  expect(await run(stored)).toEqual({ requeueAfterMs: 20_000 })
  await clock.advance(19_999)
  expect(await run(stored)).toEqual({ requeueAfterMs: 1 })
  expect([target.requests, stored.patches.length]).toEqual([1, 1])
  await clock.advance(1)
  expect(await run(stored)).toEqual({ requeueAfterMs: 30_000 })
  expect(target.requests).toBe(2)
})

test('a changed spec is checked at once', async () => {
  const stored = new StoredProbe({ url: target.url })
  await run(stored)
  stored.change({ url: target.url, expectStatus: 404 })
  await run(stored)
  expect(stored.status).toMatchObject({
    state: 'Down',
    message: 'HTTP 200, expected 404',
    observedGeneration: 2,
  })
  await run(stored)
  expect(target.requests).toBe(2)
})

test('failures are counted in a row; an answer after them begins anew and leaves no old field', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 5 })
  const { url } = target
  await run(stored)
  stored.change({ url: await deadUrl(), intervalSeconds: 5 })
  const wentDownAt = new Date(clock.now()).toISOString()
  for (const failures of [1, 2, 3]) {
    await run(stored)
    expect(stored.status).toMatchObject({
      state: 'Down',
      message: 'connection refused',
      consecutiveFailures: failures,
      lastTransitionTime: wentDownAt,
    })
    await clock.advance(5_000)
  }
  expect(stored.status).not.toHaveProperty('httpStatus')
  expect(stored.status).not.toHaveProperty('latencyMs')
  stored.change({ url })
  await run(stored)
  expect(stored.status).toMatchObject({ state: 'Up', consecutiveFailures: 0 })
})

test('the history keeps the last checks, the newest first, and no more', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 5 })
  for (let count = 0; count < probeDefaults.historyLength + 5; count++) {
    await run(stored)
    await clock.advance(5_000)
  }
  const { history = [], lastCheckTime } = stored.status
  expect(history).toHaveLength(probeDefaults.historyLength)
  expect(history[0]?.time).toBe(lastCheckTime)
  expect(history.map(({ time }) => time)).toEqual(
    history
      .map(({ time }) => time)
      .sort()
      .reverse(),
  )
})

test('the interval runs from the start of a check, however long the answer takes', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 30 })
  let respond = () => {}
  target.answer = (_, response) => {
    respond = () => response.end()
  }
  const result = run(stored)
  await until('the request arrives', () => target.requests === 1)
  await clock.advance(3_000)
  respond()
  expect(await result).toEqual({ requeueAfterMs: 27_000 })
  expect(stored.status.latencyMs).toBe(3_000)
})

test('a timeout above the interval ends with the interval', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 5, timeoutSeconds: 60 })
  target.answer = () => {}
  const result = run(stored)
  await until('the request arrives', () => target.requests === 1)
  await clock.advance(5_000)
  expect(await result).toEqual({ requeueAfterMs: 0 })
  expect(stored.status).toMatchObject({ state: 'Down', reason: 'TimedOut', message: 'no answer within 5 s' })
})

test('a run that is aborted writes nothing', async () => {
  const stored = new StoredProbe({ url: target.url })
  target.answer = () => {}
  const controller = new AbortController()
  const result = run(stored, controller.signal)
  await until('the request arrives', () => target.requests === 1)
  controller.abort(new Error('stopping'))
  await expect(result).rejects.toThrow('stopping')
  expect(stored.patches).toEqual([])
})

test('a status is never written to a later probe of the same name', async () => {
  const stored = new StoredProbe({ url: target.url })
  await run(stored)
  expect(stored.patches).toMatchObject([{ metadata: { uid } }])
})

test('a status that cannot be written is an error, so that the controller tries again', async () => {
  const stored = new StoredProbe({ url: target.url })
  stored.answers = 503
  await expect(run(stored)).rejects.toMatchObject({ reason: 'ServiceUnavailable' })
})

test('a probe that has gone meanwhile is left', async () => {
  const stored = new StoredProbe({ url: target.url })
  stored.answers = 404
  expect(await run(stored)).toEqual({})
})

test('the journal has a line for each change of state, and is gone after finalize', async () => {
  const stored = new StoredProbe({ url: target.url, intervalSeconds: 5 })
  for (const status of [200, 200, 500, 500, 200]) {
    target.answer = (_, response) => response.writeHead(status).end()
    await run(stored)
    await clock.advance(5_000)
  }
  const text = await readFile(join(folder, 'journal', `${uid}.jsonl`), 'utf8')
  const lines = text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(lines.map(({ from, to }) => [from, to])).toEqual([
    [null, 'Up'],
    ['Up', 'Down'],
    ['Down', 'Up'],
  ])
  await reconciler.finalize(stored.object)
  expect(await readdir(join(folder, 'journal'))).toEqual([])
})

test('a journal that cannot be written does not keep the status from being written', async () => {
  await writeFile(join(folder, 'journal'), 'a file where the folder should be')
  const stored = new StoredProbe({ url: target.url })
  expect(await run(stored)).toEqual({ requeueAfterMs: 60_000 })
  expect(stored.status.state).toBe('Up')
})

test('a wall clock that was set back does not put checks off', () => {
  const { object } = new StoredProbe({ url: 'http://127.0.0.1/' })
  const lastCheckTime = new Date(clock.now() + 3_600_000).toISOString()
  expect(dueInMs({ ...object, status: { lastCheckTime, observedGeneration: 1 } }, clock.now())).toBe(0)
})
