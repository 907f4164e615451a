import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type Client, createClient, HttpTransport } from '@setpoint/controller-runtime'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Probe, type ProbeObject } from './probe.ts'
import { Target, until } from './testing/target.ts'

const program = fileURLToPath(new URL('../../../apiserver/bin/setpoint.js', import.meta.url))
const plugin = fileURLToPath(new URL('..', import.meta.url))

let folder: string
let server: ChildProcess
let url: string
let client: Client
const targets: Target[] = []

/** Starts the built program with the built plugin, as a user would. */
async function startServer(): Promise<void> {
  const { SETPOINT_CONFIG: _, ...env } = process.env
  const flags = ['--listen', '127.0.0.1:0', '--data-dir', join(folder, 'data'), '--plugin', plugin]
  server = spawn(process.execPath, [program, 'serve', ...flags], {
    env: { ...env, UPTIME_JOURNAL_DIR: join(folder, 'journal') },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (server.stdout === null) throw new Error('the program has no standard output')
  for await (const line of createInterface(server.stdout)) {
    const listening = /^setpoint listening on (\S+)$/.exec(line)?.[1]
    if (listening === undefined) continue
    url = listening
    client = createClient(new HttpTransport({ server: url }))
    return
  }
  throw new Error('the program ended before it served')
}

async function stopServer(): Promise<void> {
  const exited = once(server, 'exit')
  server.kill('SIGTERM')
  await exited
}

async function target(...answer: Parameters<typeof Target.start>): Promise<Target> {
  const started = await Target.start(...answer)
  targets.push(started)
  return started
}

function create(name: string, spec: ProbeObject['spec']): Promise<ProbeObject> {
  return client.create(Probe, { metadata: { name }, spec })
}

async function untilStatus(
  name: string,
  holds: (status: NonNullable<ProbeObject['status']>) => boolean,
): Promise<ProbeObject> {
  let probe = await client.get(Probe, name)
  await until(`the status of ${name}`, async () => {
    probe = await client.get(Probe, name)
    return probe.status !== undefined && holds(probe.status)
  })
  return probe
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'uptime-server-'))
  await startServer()
})

afterEach(async () => {
  await Promise.all(targets.splice(0).map(each => each.stop()))
})

afterAll(async () => {
  await stopServer()
  await rm(folder, { recursive: true })
})

test('the plugin starts without problems, and the probes that it ships are checked', async () => {
  const answer = await fetch(new URL('/apis/plugins.setpoint.dev/v1/plugins/uptime', url))
  expect(await answer.json()).toMatchObject({ status: { phase: 'Started', problems: [] } })
  for (const name of ['setpoint-healthz', 'setpoint-readyz']) {
    await untilStatus(name, ({ lastCheckTime }) => lastCheckTime !== undefined)
  }
})

test('a probe is checked once: its own status does not wake it, and a watcher sees each change once', async () => {
  const site = await target()
  const watch = await client.watch(Probe, { name: 'once' })
  const seen: [type: string, version: string, state: string | undefined][] = []
  const watching = (async () => {
    for await (const { type, object } of watch) {
      if (type === 'BOOKMARK' || type === 'ERROR') continue
      seen.push([type, object.metadata.version, object.status?.state])
    }
  })()
  await create('once', { url: site.url, intervalSeconds: 3600 })
  await untilStatus('once', ({ state }) => state === 'Up')
  // A label wakes the reconciler; nothing is due.
  await client.patch(Probe, 'once', { metadata: { labels: { team: 'a' } } })
  await until('the watcher sees the label', () => seen.length >= 4)
  await new Promise(resolve => setTimeout(resolve, 300))
  watch.close()
  await watching
  expect(site.requests).toBe(1)
  expect(seen.map(([type, , state]) => [type, state])).toEqual([
    ['ADDED', undefined],
    // The finalizer, the status, the label.
    ['MODIFIED', undefined],
    ['MODIFIED', 'Up'],
    ['MODIFIED', 'Up'],
  ])
  expect(new Set(seen.map(([, version]) => version)).size).toBe(seen.length)
})

test('a changed spec is checked at once', async () => {
  const site = await target()
  await create('changed', { url: site.url, intervalSeconds: 3600 })
  await untilStatus('changed', ({ state }) => state === 'Up')
  await client.patch(Probe, 'changed', { spec: { expectStatus: 204 } })
  const { status } = await untilStatus('changed', ({ state }) => state === 'Down')
  expect(status).toMatchObject({ message: 'HTTP 200, expected 204', consecutiveFailures: 1 })
})

test('it comes back after the interval', async () => {
  const site = await target()
  await create('again', { url: site.url, intervalSeconds: 5 })
  await untilStatus('again', ({ history = [] }) => history.length === 2)
  expect(site.requests).toBe(2)
})

test('a restarted server does not check again what is not due', async () => {
  const site = await target()
  await create('restarted', { url: site.url, intervalSeconds: 3600 })
  await untilStatus('restarted', ({ state }) => state === 'Up')
  const other = await target()
  await stopServer()
  await startServer()
  await create('after-the-restart', { url: other.url })
  await untilStatus('after-the-restart', ({ state }) => state === 'Up')
  expect(site.requests).toBe(1)
})

test('a deleted probe takes its journal with it', async () => {
  const site = await target()
  const { metadata } = await create('deleted', { url: site.url })
  const files = () => readdir(join(folder, 'journal'))
  await until('the journal is written', async () => (await files()).includes(`${metadata.uid}.jsonl`))
  await client.delete(Probe, 'deleted')
  await until('the probe is gone', async () => (await client.getIfExists(Probe, 'deleted')) === undefined)
  expect((await files()).filter(file => file.startsWith(metadata.uid))).toEqual([])
})

test('probes are found by tag and state, and the summary counts them', async () => {
  const up = await target()
  const down = await target((_, response) => response.writeHead(500).end())
  await create('counted-up', { url: up.url, tags: ['counted', 'a,b'] })
  await create('counted-down', { url: down.url, tags: ['counted'] })
  await untilStatus('counted-up', ({ state }) => state === 'Up')
  await untilStatus('counted-down', ({ state }) => state === 'Down')
  const list = await client.list(Probe, { fieldSelector: ['spec.tags=counted', 'status.state=Down'] })
  expect(list.items.map(({ metadata }) => metadata.name)).toEqual(['counted-down'])
  const summary = async (query: string): Promise<unknown> =>
    (await fetch(new URL(`/apis/console.api.uptime.example.com/v1alpha1/summary${query}`, url))).json()
  expect(await summary('?tag=counted')).toMatchObject({ total: 2, states: { Up: 1, Down: 1, Unknown: 0 } })
  expect(await summary('?tag=a,b')).toMatchObject({ total: 1, states: { Up: 1 } })
  expect(await summary('')).toMatchObject({ total: (await client.list(Probe)).total })
})

test('what breaks the rules is refused, with every field named', async () => {
  await expect(
    create('bad', {
      url: 'ftp://127.0.0.1/',
      intervalSeconds: 4,
      timeoutSeconds: 61,
      expectStatus: 99,
      tags: [''],
    }),
  ).rejects.toMatchObject({
    reason: 'Invalid',
    details: {
      causes: [
        'spec.url',
        'spec.intervalSeconds',
        'spec.timeoutSeconds',
        'spec.expectStatus',
        'spec.tags[0]',
      ].map(field => expect.objectContaining({ field })),
    },
  })
  for (const badUrl of [
    'http://',
    'http:///path',
    'http://user:secret@host/',
    'http://a b/',
    'javascript:1',
  ]) {
    await expect(create('bad', { url: badUrl }), badUrl).rejects.toMatchObject({ reason: 'Invalid' })
  }
})

test('two probes never have one URL', async () => {
  const { url: taken } = await target()
  await create('first', { url: taken })
  await expect(create('second', { url: taken })).rejects.toMatchObject({
    reason: 'AlreadyExists',
    details: { causes: [{ reason: 'FieldValueDuplicate', field: 'spec.url' }] },
  })
})
