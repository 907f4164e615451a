import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import {
  until as becomes,
  type Client,
  createClient,
  HttpTransport,
  waitFor,
} from '@setpoint/controller-runtime'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { Probe } from './probe.ts'
import { Target, until } from './testing/target.ts'

const program = fileURLToPath(new URL('../../../apiserver/bin/setpoint.js', import.meta.url))
const plugin = fileURLToPath(new URL('..', import.meta.url))

let folder: string
let server: ChildProcess
let url: string
let client: Client
const targets: Target[] = []

/** Starts the built program with the built plugin, as a user would. */
async function startSharedServer(): Promise<void> {
  const { SETPOINT_CONFIG: _, ...env } = process.env
  const flags = ['--listen', '127.0.0.1:0', '--data-dir', join(folder, 'data'), '--plugin', plugin]
  server = spawn(process.execPath, [program, 'serve', ...flags], {
    env: {
      ...env,
      UPTIME_JOURNAL_DIR: join(folder, 'journal'),
      SETPOINT_PLUGIN_UPTIME_ALLOWED_NETWORKS: '127.0.0.1/32',
    },
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

async function target(): Promise<Target> {
  const started = await Target.start()
  targets.push(started)
  return started
}

/** Creates a probe and waits until it has been checked. */
async function check(name: string, url: string): Promise<void> {
  await client.create(Probe, { metadata: { name }, spec: { url, intervalSeconds: 3600 } })
  await checked(name)
}

const checked = (name: string) =>
  waitFor(client, Probe, name, probe => probe?.status?.lastCheckTime !== undefined, { timeoutMs: 120_000 })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'uptime-server-'))
  await startSharedServer()
})

afterEach(async () => {
  await Promise.all(targets.splice(0).map(each => each.stop()))
})

afterAll(async () => {
  await stopServer()
  await rm(folder, { recursive: true })
})

test('the plugin starts without problems, and its shipped probes are checked', async () => {
  const state = async () => (await fetch(new URL('/apis/plugins.setpoint.dev/v1/plugins/uptime', url))).json()
  await expect.poll(state).toMatchObject({ status: { phase: 'Started', problems: [] } })
  await checked('setpoint-healthz')
  await checked('setpoint-readyz')
})

test('tables show the state of a probe with its reason', async () => {
  await check('tabled', (await target()).url)
  const headers = { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' }
  const path = '/apis/uptime.example.com/v1alpha1/probes/tabled'
  const table = await (await fetch(new URL(path, url), { headers })).json()
  expect(table).toMatchObject({
    columnDefinitions: expect.arrayContaining([expect.objectContaining({ name: 'Reason' })]),
    rows: [{ cells: expect.arrayContaining(['Up', 'Answered']) }],
  })
})

test('after a restart, probes are not checked before they are due', async () => {
  const site = await target()
  await check('restarted', site.url)
  await stopServer()
  await startSharedServer()
  await check('after-the-restart', (await target()).url)
  expect(site.requests).toBe(1)
})

test('a deleted probe takes its journal in UPTIME_JOURNAL_DIR with it', async () => {
  const files = () => readdir(join(folder, 'journal'))
  await check('deleted', (await target()).url)
  const { uid } = (await client.get(Probe, 'deleted')).metadata
  await until('the journal is written', async () => (await files()).includes(`${uid}.jsonl`))
  await client.delete(Probe, 'deleted')
  await waitFor(client, Probe, 'deleted', becomes.deleted(), { timeoutMs: 120_000 })
  expect((await files()).filter(file => file.startsWith(uid))).toEqual([])
})
