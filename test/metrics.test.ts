import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Api, Collection } from './support/api.ts'
import { gadgetsOf, itemsOf } from './support/kinds.ts'
import { startServer } from './support/server.ts'
import { Watch } from './support/watch.ts'
import { copyFixture, createAll, eventually, startWorld, type World } from './support/worlds.ts'

const kind = { group: 'items.example.com', version: 'v1' }
const resource = { ...kind, resource: 'items' }

describe('/metrics', () => {
  let world: World
  let api: Api
  let items: Collection

  beforeAll(async () => {
    // Controllers also watch, and would be counted.
    world = await startWorld('embedded', ['items-plugin'], { args: ['--role', 'apiserver'] })
    api = world.api
    items = itemsOf(api)
  })
  afterAll(() => world?.end())
  beforeEach(() => items.clear())

  const scrape = () => scrapeOf(world.server.url)

  it('is Prometheus text', async () => {
    const answer = await api.get('/metrics')
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(answer.text).toContain('# TYPE apiserver_request_total counter')
    const [, resident] = /^process_resident_memory_bytes (\d+)$/m.exec(answer.text) ?? []
    if (process.platform === 'linux') {
      const [, anonymous] = /^setpoint_process_anonymous_memory_bytes (\d+)$/m.exec(answer.text) ?? []
      expect(Number(anonymous)).toBeGreaterThan(10_000_000)
      expect(Number(anonymous)).toBeLessThan(Number(resident))
    }
    expect((await api.post('/metrics', {})).status).toBe(405)
  })

  it('is refused to another site, like everything else', async () => {
    const answer = await api.get('/metrics', { headers: { origin: 'https://elsewhere.example.com' } })
    expect(answer.status).toBe(403)
  })

  it('counts requests by verb, kind and code', async () => {
    const cases = [
      ['POST', 201, () => api.post(items.path, items.body('one', {}))],
      ['POST', 409, () => api.post(items.path, items.body('one', {}))],
      ['GET', 200, () => api.get(items.at('one'))],
      ['GET', 200, () => api.request('HEAD', items.at('one'))],
      ['GET', 404, () => api.get(items.at('other'))],
      ['LIST', 200, () => api.get(items.path)],
      ['PATCH', 200, () => api.mergePatch(items.at('one'), { metadata: { labels: { a: 'b' } } })],
      ['DELETE', 200, () => api.delete(items.at('one'))],
      ['DELETECOLLECTION', 200, () => api.delete(items.path)],
      ['WATCH', 400, () => api.get(`${items.path}?watch=true&version=x`)],
    ] as const
    for (const [verb, code, ask] of cases) {
      const before = await scrape()
      expect((await ask()).status).toBe(code)
      const after = await scrape()
      const labels = { ...resource, verb, code: String(code) }
      const counted = (text: Scrape) => text.of('apiserver_request_total', labels) ?? 0
      expect([verb, code, counted(after) - counted(before)]).toEqual([verb, code, 1])
    }
  })

  it('counts a turn for each object of a collection that is deleted', async () => {
    for (const name of ['one', 'two', 'three']) await items.create(name, {})
    const admitted = async () => {
      const labels = { priority_level: 'writes', flow_schema: 'users' }
      return (await scrape()).of('apiserver_flowcontrol_dispatched_requests_total', labels) ?? 0
    }
    const before = await admitted()
    expect((await api.delete(items.path)).status).toBe(200)
    expect((await admitted()) - before).toBeGreaterThanOrEqual(1 + 3)
  })

  it('counts requests without a kind, and makes no series for unknown paths or methods', async () => {
    const labels = { group: '', version: '', resource: '' }
    await api.get('/nothing/here')
    await api.request('PROPFIND', '/nothing/there')
    const { of, text } = await scrape()
    expect(of('apiserver_request_total', { ...labels, verb: 'GET', code: '404' })).toBeGreaterThan(0)
    expect(of('apiserver_request_total', { ...labels, verb: 'other', code: '404' })).toBeGreaterThan(0)
    expect(text).not.toMatch(/nothing|PROPFIND/)
  })

  it('times requests, but not watches', async () => {
    const duration = 'apiserver_request_duration_seconds_count'
    const before = (await scrape()).of(duration, { ...resource, verb: 'LIST' }) ?? 0
    await items.list()
    const watching = await Watch.open(world.server.url, items.path)
    await watching.synced()
    await watching.cut()
    const after = await scrape()
    expect(after.of(duration, { ...resource, verb: 'LIST' })).toBe(before + 1)
    expect(after.of(duration, { ...resource, verb: 'WATCH' })).toBeUndefined()
  })

  it('reports the open watches and counts their events', async () => {
    await createAll(items, [{ name: 'a' }, { name: 'b' }])
    const opened = { ...resource, verb: 'WATCH', code: '101' }
    const open = (text: Scrape) =>
      text.of('apiserver_longrunning_requests', { ...resource, verb: 'WATCH' }) ?? 0
    // The previous test's watch has ended at the client, and may not have ended at the server.
    await eventually(async () => expect(open(await scrape())).toBe(0))
    const before = await scrape()
    const sent = (text: Scrape) => text.of('apiserver_watch_events_total', { ...kind, kind: 'Item' }) ?? 0
    const watching = await Watch.open(world.server.url, items.path)
    await watching.synced()
    const { metadata } = await items.create('c', {})
    await watching.reaches(metadata.version)
    const during = await scrape()
    expect(open(during) - open(before)).toBe(1)
    // Two objects, the bookmark after them, and the change.
    expect(sent(during) - sent(before)).toBe(4)
    expect(during.of('apiserver_request_total', opened)).toBe(
      (before.of('apiserver_request_total', opened) ?? 0) + 1,
    )
    expect(during.of('apiserver_terminated_watchers_total', resource)).toBe(0)
    await watching.cut()
    await eventually(async () => expect(open(await scrape())).toBe(open(before)))
  })

  it('reports the number of objects', async () => {
    const objects = async () =>
      (await scrape()).of('apiserver_resource_objects', { resource: 'items.items.example.com' })
    expect(await objects()).toBe(0)
    await createAll(items, [{ name: 'a' }, { name: 'b' }])
    await items.list()
    expect(await objects()).toBe(2)
  })
})

it("below a base path, /metrics reports the caches' reads and the phases of plugins, including one that cannot be loaded", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-metrics-'))
  const plugin = await copyFixture('items-plugin')
  const broken = join(dataDir, 'broken')
  await mkdir(broken)
  await writeFile(join(broken, 'package.json'), '{"type":"module","exports":"./index.js"}')
  await writeFile(join(broken, 'index.js'), 'throw new Error()')
  const args = ['--base-path', '/below']
  const server = await startServer({ dataDir, plugins: [plugin, broken], args })
  try {
    const body = { apiVersion: 'items.example.com/v1', kind: 'Item', metadata: { name: 'a' }, spec: {} }
    const created = await fetch(`${server.url}/apis/items.example.com/v1/items`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(created.status).toBe(201)
    const read = { resource: 'items.items.example.com' }
    expect((await scrapeOf(server.url)).of('setpoint_cache_objects_read', read)).toBe(0)
    await server.restart()
    const { of } = await scrapeOf(server.url)
    expect(of('setpoint_cache_objects_read', read)).toBe(1)
    const phase = (name: string, value: string) => of('setpoint_plugin_phase', { plugin: name, phase: value })
    expect(phase('items', 'Started')).toBe(1)
    expect(phase('items', 'Starting')).toBe(0)
    expect(phase('broken', 'Failed')).toBe(1)
    expect((await fetch(new URL('/metrics', server.url))).status).toBe(404)
  } finally {
    await server.stop()
    await Promise.all([dataDir, plugin].map(dir => rm(dir, { recursive: true, force: true })))
  }
})

it('/metrics reports the controllers of this process', async () => {
  const world = await startWorld('embedded', ['demo-plugin'])
  try {
    await gadgetsOf(world.api).create('a', { email: 'a@example.com' })
    const controller = 'demo/gadgets.demo.example.com'
    await eventually(async () => {
      const { of } = await scrapeOf(world.server.url)
      expect(
        of('controller_runtime_reconcile_total', { controller, result: 'requeue_after' }),
      ).toBeGreaterThan(0)
    })
    const { of, text } = await scrapeOf(world.server.url)
    expect(of('controller_runtime_max_concurrent_reconciles', { controller })).toBe(10)
    // A single process holds no election.
    expect(text).not.toContain('leader_election_master_status{')
  } finally {
    await world.end()
  }
})

it('/metrics measures the calls to etcd by operation and type', async () => {
  const world = await startWorld('etcd', ['items-plugin'])
  try {
    const items = itemsOf(world.api)
    await items.create('a', {})
    await world.api.delete(items.at('a'))
    const { of, text } = await scrapeOf(world.server.url)
    const count = (operation: string) =>
      of('etcd_request_duration_seconds_count', { operation, type: 'items.items.example.com' })
    expect([count('create'), count('delete')]).toEqual([1, 1])
    expect(text).toContain('# TYPE etcd_request_duration_seconds histogram')
  } finally {
    await world.end()
  }
})

interface Scrape {
  readonly text: string
  /** The value of the one series with exactly these labels. */
  readonly of: (name: string, labels: Readonly<Record<string, string>>) => number | undefined
}

async function scrapeOf(url: string): Promise<Scrape> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const key = (name: string, labels: readonly string[]) => `${name}{${[...labels].sort().join()}}`
  const series = new Map<string, number>()
  for (const [, name = '', labels = '', value] of text.matchAll(/^(\w+)\{(.*)\} (\S+)$/gm))
    series.set(key(name, labels.split(',')), Number(value))
  return {
    text,
    of: (name, labels) =>
      series.get(
        key(
          name,
          Object.entries(labels).map(([label, value]) => `${label}="${value}"`),
        ),
      ),
  }
}
