import { randomUUID } from 'node:crypto'
import { cp, rm } from 'node:fs/promises'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Api, Collection, objectOf } from '../support/api.ts'
import { startEtcd } from '../support/etcd.ts'
import { arrayOf, fieldsOf } from '../support/json.ts'
import { pluginsPath } from '../support/kinds.ts'
import { writePlugin } from '../support/plugins.ts'
import { outcomeOf } from '../support/record.ts'
import { type ServerProcess, startServer } from '../support/server.ts'
import { eventually, type Store } from '../support/worlds.ts'
import { Gauge } from './gauge.ts'
import { type Say, startSaying } from './say.ts'

export const upgradeDefaults = Object.freeze({
  objects: 10_000,
  writers: 4,
  /** Objects created at once before the upgrade. */
  creators: 32,
  /** Longest time in milliseconds that a write may be refused. */
  promiseMs: 1_000,
  /** Milliseconds between two attempts at one write. */
  retryMs: 10,
  /** Milliseconds before an attempt without a response is given up. */
  requestMs: 10_000,
  /** Milliseconds for a server to start, or to migrate all objects. */
  patienceMs: 300_000,
})

/** The cost of one step of the upgrade for writers, in milliseconds. */
interface Step {
  readonly what: string
  /** True if the promise holds for this step. */
  readonly isPromised: boolean
  readonly tookMs: number
  /** Longest time without an acknowledged write of any writer. */
  readonly gapMs: number
  /** Longest time from the first failed attempt at a write to the attempt that was acknowledged. */
  readonly refusedMs: number
  /** Longest time from the first attempt at a write to its acknowledgement. It also shows how busy the machine is. */
  readonly longestMs: number
  readonly acknowledged: number
  /** Attempts that were refused, and those without a response. */
  readonly failed: number
}

/**
 * Upgrades a plugin under load: a release that adds a version, and one that changes the stored version, so that all
 * objects are migrated. On etcd two servers are restarted one after the other. The embedded store's one server is
 * restarted for the first release, which promises nothing, and reloads the plugin for the second. Prints the cost of
 * each step.
 * @returns true if no write was refused for longer than the promise, and none was lost
 */
export async function reportUpgrade(store: Store, objects: number): Promise<boolean> {
  const say = startSaying(store)
  say(`${objects} objects, load of the machine ${loadavg()[0]?.toFixed(1)}`)
  const { steps, problems } = await upgrade(store, objects, say)
  console.log(tableOf(steps))
  const { promiseMs } = upgradeDefaults
  for (const { what, isPromised, refusedMs } of steps)
    if (isPromised && refusedMs > promiseMs)
      problems.push(`${what}: a write was refused for ${Math.round(refusedMs)} ms`)
  for (const problem of problems) say(`VIOLATION: ${problem}`)
  say(`${problems.length === 0 ? 'no' : problems.length} violations, load ${loadavg()[0]?.toFixed(1)}`)
  return problems.length === 0
}

async function upgrade(
  store: Store,
  objects: number,
  say: Say,
): Promise<{ steps: Step[]; problems: string[] }> {
  const releases = await Promise.all(declarations.map((text, at) => release(`${at + 1}.0.0`, text)))
  const [first = '', second = '', third = ''] = releases
  const etcd = store === 'etcd' ? await startEtcd() : undefined
  const options = {
    store,
    plugins: [first],
    ...(etcd && { etcd, etcdPrefix: `/upgrade-${randomUUID().slice(0, 8)}` }),
  }
  const servers: ServerProcess[] = []
  let writers: Writers | undefined
  try {
    for (let n = 0; n < (store === 'etcd' ? 2 : 1); n++) servers.push(await startServer(options))
    const gauge = new Gauge()
    const load = new Writers(servers, gauge, objects)
    writers = load
    await load.fill()
    say('the objects are created')
    load.start()
    const steps: Step[] = []
    const step = async (what: string, run: () => Promise<unknown>, isPromised = true) => {
      gauge.read()
      load.longestRefusalMs = 0
      load.failures.clear()
      const began = performance.now()
      await run()
      await load.settled()
      const { writeGapMs: gapMs, requestMs: longestMs, succeeded: acknowledged, ...counts } = gauge.read()
      const tookMs = performance.now() - began
      const { longestRefusalMs: refusedMs } = load
      const failed = counts.refused + counts.unknown
      steps.push({ what, isPromised, tookMs, gapMs, refusedMs, longestMs, acknowledged, failed })
      const failures = [...load.failures].map(([why, count]) => `, ${why}: ${count}`).join('')
      say(`${what}: a write was refused for ${Math.round(refusedMs)} ms${failures}`)
    }
    await step('before', () => sleep(5_000))
    const restartAll = (plugin: string) => async () => {
      for (const server of servers) {
        await server.kill('SIGTERM')
        await server.restart({ plugins: [plugin] })
        await ready(server)
      }
    }
    await step('release 2, by restarts', restartAll(second), etcd !== undefined)
    if (etcd !== undefined) await step('release 3, by restarts', restartAll(third))
    else await step('release 3, by a reload', () => reload(servers, second, third))
    await step('the rest of the migration', () =>
      eventually(() => migrated(servers), upgradeDefaults.patienceMs),
    )
    await load.stop()
    return { steps, problems: await load.check() }
  } finally {
    await writers?.abort().catch(() => {})
    await Promise.all(servers.map(server => server.stop()))
    await etcd?.stop()
    await Promise.all(releases.map(dir => rm(dir, { recursive: true, force: true })))
  }
}

/** Replaces the code in the plugin's folder, and waits until the servers run it. */
async function reload(servers: readonly ServerProcess[], folder: string, next: string): Promise<void> {
  await cp(next, folder, { recursive: true })
  for (const { url } of servers) {
    const api = new Api(url)
    objectOf(await api.mergePatch(`${pluginsPath}/upgrade`, { spec: { reload: next } }))
    await eventually(async () => {
      const { status } = objectOf(await api.get(`${pluginsPath}/upgrade`))
      if (status.version !== '3.0.0' || status.phase !== 'Started') throw new Error(`${status.version} runs`)
    }, upgradeDefaults.patienceMs)
  }
}

async function ready({ url }: ServerProcess): Promise<void> {
  await eventually(async () => {
    const { status } = await fetch(`${url}/readyz`)
    if (status !== 200) throw new Error(`${url} is not ready`)
  }, upgradeDefaults.patienceMs)
}

/** @throws Error while the migration runs */
async function migrated(servers: readonly ServerProcess[]): Promise<void> {
  for (const { url } of servers) {
    const { status } = objectOf(await new Api(url).get(`${pluginsPath}/upgrade`))
    const [migration] = arrayOf(status.migrations ?? [])
    const { done, total, failed } = fieldsOf(migration ?? {})
    if (total === undefined || done !== total || failed !== 0) throw new Error(`migrated ${done} of ${total}`)
  }
}

const beta = `{ spec: { type: 'object', required: ['size'], properties: { size: { type: 'string', pattern: '^[0-9]+ mm$' } } } }`
const hub = (stored: string) => `version: 'v1', storedVersion: '${stored}',
  schema: { spec: { type: 'object', required: ['size', 'unit'], properties: { size: { type: 'integer' }, unit: { type: 'string' } } } },
  versions: [{
    name: 'v1beta1', schema: ${beta},
    toHub: ({ spec }) => { const [size, unit] = spec.size.split(' '); return { spec: { size: Number(size), unit } } },
    fromHub: ({ spec }) => ({ spec: { size: spec.size + ' ' + spec.unit } }) }]`

/** What each release declares. */
const declarations = [`version: 'v1beta1', schema: ${beta}`, hub('v1beta1'), hub('v1')]

function release(version: string, declaration: string): Promise<string> {
  const source = `import { defineModel, definePlugin } from '@setpoint/controller-runtime'
export default definePlugin({ name: 'upgrade', models: [defineModel({
  group: 'upgrade.example.com', kind: 'Gadget', singular: 'gadget', plural: 'gadgets', ${declaration} })] })`
  return writePlugin({ 'index.js': source }, { version })
}

function gadgetsOf({ url }: ServerProcess, version: string): Collection {
  return new Collection(new Api(url), `upgrade.example.com/${version}`, 'Gadget', 'gadgets')
}

/**
 * Clients that change one object after another, in the version that every release serves. A write that fails is tried
 * again at once on the next server.
 */
class Writers {
  /** Longest time from the first failed attempt at a write to the attempt that was acknowledged. */
  longestRefusalMs = 0
  /** Why attempts failed, with their numbers. */
  readonly failures = new Map<string, number>()
  readonly #servers: readonly ServerProcess[]
  readonly #gauge: Gauge
  readonly #objects: number
  /** The last acknowledged size of each object. */
  readonly #sizes = new Map<string, number>()
  #running: Promise<void>[] = []
  /** The write of each writer that is not acknowledged yet, or its last one. */
  readonly #current: Promise<number>[] = []
  #stopped = false
  #aborted = false

  constructor(servers: readonly ServerProcess[], gauge: Gauge, objects: number) {
    this.#servers = servers
    this.#gauge = gauge
    this.#objects = objects
  }

  /** Creates the objects. */
  async fill(): Promise<void> {
    const [server] = this.#servers
    if (server === undefined) return
    const gadgets = gadgetsOf(server, 'v1beta1')
    let next = 0
    const create = async () => {
      while (next < this.#objects) {
        const name = `gadget-${next++}`
        await gadgets.create(name, { size: '0 mm' })
        this.#sizes.set(name, 0)
      }
    }
    await Promise.all(Array.from({ length: upgradeDefaults.creators }, create))
  }

  start(): void {
    this.#running = Array.from({ length: upgradeDefaults.writers }, (_, n) => this.#write(n))
  }

  /** Resolves when the writes in progress are acknowledged. */
  async settled(): Promise<void> {
    await Promise.all(this.#current)
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#running)
  }

  /** Gives up the writes that are not acknowledged yet. */
  async abort(): Promise<void> {
    this.#aborted = true
    await this.stop()
  }

  /** Returns the acknowledged writes that are missing. Call it after `stop`. */
  async check(): Promise<string[]> {
    const problems: string[] = []
    for (const server of this.#servers) {
      const { items } = await gadgetsOf(server, 'v1').list()
      if (items.length !== this.#sizes.size)
        problems.push(`${items.length} objects of ${this.#sizes.size} are left`)
      const wrong = items.filter(({ metadata, spec }) => spec.size !== this.#sizes.get(metadata.name))
      for (const { metadata, spec } of wrong.slice(0, 5))
        problems.push(
          `${metadata.name} has ${spec.size}, last acknowledged ${this.#sizes.get(metadata.name)}`,
        )
    }
    return problems
  }

  /** Each writer has objects of its own, so the last acknowledged size is the present one. */
  async #write(writer: number): Promise<void> {
    const { writers } = upgradeDefaults
    const own = [...this.#sizes.keys()].filter((_, at) => at % writers === writer)
    let server = writer
    for (let round = 1; !this.#stopped; round++) {
      const name = own[round % own.length] ?? ''
      const change = this.#change(name, round, server)
      this.#current[writer] = change
      server = await change
    }
  }

  /** Writes until it is acknowledged. Returns the number of the server that did. */
  async #change(name: string, size: number, first: number): Promise<number> {
    const { retryMs, requestMs } = upgradeDefaults
    const began = performance.now()
    let refusedAt: number | undefined
    for (let at = first; ; at++) {
      if (this.#aborted) return at
      const server = this.#servers[at % this.#servers.length]
      if (server === undefined) return at
      const gadgets = gadgetsOf(server, 'v1beta1')
      const patch = { spec: { size: `${size} mm` } }
      const signal = AbortSignal.timeout(requestMs)
      const sentAt = performance.now()
      const outcome = await outcomeOf(() => gadgets.api.mergePatch(gadgets.at(name), patch, { signal }))
      if (outcome.kind === 'acknowledged') {
        this.#sizes.set(name, size)
        this.#gauge.succeeded('write')
        this.#gauge.request('succeeded', performance.now() - began)
        this.longestRefusalMs = Math.max(this.longestRefusalMs, sentAt - (refusedAt ?? sentAt))
        return at
      }
      refusedAt ??= performance.now()
      this.#gauge.request(outcome.kind, 0)
      const why = outcome.kind === 'refused' ? outcome.why : 'no response'
      this.failures.set(why, (this.failures.get(why) ?? 0) + 1)
      await sleep(retryMs)
    }
  }
}

/** Markdown, in milliseconds. */
function tableOf(steps: readonly Step[]): string {
  const rows = steps.map(({ what, tookMs, refusedMs, gapMs, longestMs, acknowledged, failed }) =>
    [what, ...[tookMs, refusedMs, gapMs, longestMs, acknowledged, failed].map(Math.round)].join(' | '),
  )
  return [
    '| step | took | a write was refused | no write acknowledged | longest write | writes | failed attempts |',
    '|---|---|---|---|---|---|---|',
    ...rows.map(row => `| ${row} |`),
  ].join('\n')
}
