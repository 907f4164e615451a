import { inspect } from 'node:util'
import { type Logger, silentLogger } from '@setpoint/controller-runtime'
import { loadWebSockets } from '@setpoint/controller-runtime/internal'
import { loadRules } from '../../../apiserver/src/model/index.ts'
import type { KeyValue } from '../../../apiserver/src/storage/index.ts'
import { WorldClient } from './clients.ts'
import { ControllersProcess } from './controllers-process.ts'
import type { Fault } from './fault.ts'
import { Faults } from './faults.ts'
import { guardTheReal, replaceRandomness } from './guard.ts'
import { Network } from './network.ts'
import type { WorldNode } from './node.ts'
import { replaceMeters } from './replace-meters.ts'
import { replaceTime } from './replace-time.ts'
import { Replaced } from './replaced.ts'
import { Scheduler } from './scheduler.ts'
import { seededRandom } from './seeded-random.ts'
import { ServerProcess } from './server-process.ts'
import { StoreCore } from './store-core.ts'
import { StoreService } from './store-service.ts'
import { Trace } from './trace.ts'
import type {
  Held,
  LeaderWrite,
  Release,
  SeededRandom,
  ServedRelease,
  StoreTruth,
  WatchOptions,
  World,
  WorldCounts,
  WorldOptions,
  WorldRequest,
  WorldResponse,
  WorldToken,
  WorldWatch,
} from './world.ts'
import { WorldPlugin } from './world-plugin.ts'
import type { WorldProcess } from './world-process.ts'

let isOpen = false
/** What a store has after the first start with certain releases, or without plugins. */
const contents = new WeakMap<readonly Release[], Promise<readonly KeyValue[]>>()
const withoutPlugins: readonly Release[] = []

/** Opens a world. Its servers start as time passes. Only one can be open at a time. */
export async function openWorld(options: WorldOptions): Promise<World> {
  // Modules are files, so they are loaded before.
  await Promise.all([loadRules(options.releases.flatMap(release => release())), loadWebSockets()])
  const content = {
    withPlugins: await contentAfterStart(options.releases),
    withoutPlugins: await contentAfterStart(withoutPlugins),
  }
  if (isOpen) throw new Error('another world is open: close it first')
  isOpen = true
  return new SimulatedWorld(options, content)
}

/** Returns what a server stores at its first start, as a store that was used before has it. */
function contentAfterStart(releases: readonly Release[]): Promise<readonly KeyValue[]> {
  const known = contents.get(releases)
  if (known !== undefined) return known
  const content = firstStart(releases)
  contents.set(releases, content)
  return content
}

async function firstStart(releases: readonly Release[]): Promise<readonly KeyValue[]> {
  // Closed also after an error, which nobody could print in it.
  await using world = new SimulatedWorld({ seed: 0, servers: 1, releases }, undefined)
  if (!(await world.settle(60_000))) throw new Error('the first start does not end')
  return world.content.filter(({ key }) => !isRenewed(key))
}

interface EarlierContent {
  readonly withPlugins: readonly KeyValue[]
  readonly withoutPlugins: readonly KeyValue[]
}

class SimulatedWorld implements World {
  readonly random: SeededRandom
  readonly failures: Error[] = []
  readonly tokens: { at: number; tokens: readonly WorldToken[] }[] = []
  readonly #scheduler: Scheduler
  readonly #trace: Trace
  readonly #core: StoreCore
  readonly #service: StoreService
  readonly #network: Network
  readonly #replaced = new Replaced()
  readonly #servers: readonly ServerProcess[]
  readonly #controllers: readonly ControllersProcess[]
  readonly #processes: readonly WorldProcess[]
  readonly #clients = new Map<string, WorldClient>()
  readonly #onUncaught = (reason: unknown) => this.#failed(reason)
  readonly #faults: Faults
  /** What belongs to no process. */
  readonly #node: WorldNode
  #requests = 0
  /** The last revision that counts as a change, see `isRenewed`. */
  #changedAt = 0

  constructor(options: WorldOptions, earlier: EarlierContent | undefined) {
    const { seed, servers = 2, controllers = 0, releases, keepTrace = false } = options
    this.random = seededRandom(seed)
    const scheduler = new Scheduler(seed)
    this.#scheduler = scheduler
    this.#node = scheduler.node('world')
    this.#trace = new Trace(keepTrace)
    this.#core = new StoreCore(() => scheduler.now)
    const random = (name: string) => this.random.fork(name)
    // A first start takes as much work as a hundred requests, so most worlds begin after one.
    const start = random('start').next()
    if (earlier !== undefined && start >= startsEmpty)
      this.#core.begin(start < startsWithout ? earlier.withoutPlugins : earlier.withPlugins)
    this.#service = new StoreService({
      scheduler,
      random: random('store'),
      core: this.#core,
      node: scheduler.node('store'),
    })
    this.#core.onCommit = ({ revision, by, isLate, changes }) => {
      this.trace(
        `${by} commits ${revision}${isLate ? ' late' : ''}: ${changes.map(({ key, value }) => (value === undefined ? `-${key}` : key)).join(' ')}`,
      )
      if (!changes.every(({ key }) => isRenewed(key))) this.#changedAt = revision
      this.#service.committed()
    }
    this.#network = new Network(scheduler, random('network'))
    replaceTime(this.#replaced, scheduler)
    replaceMeters(this.#replaced, scheduler)
    replaceRandomness(this.#replaced, scheduler, random('randomness'))
    guardTheReal(this.#replaced, scheduler)
    this.#network.replace(this.#replaced)
    this.#replaced.publish()
    for (const event of uncaught) process.on(event, this.#onUncaught)
    const log = keepTrace ? (name: string) => this.#logOf(name) : () => silentLogger
    const parts = {
      scheduler,
      core: this.#core,
      service: this.#service,
      network: this.#network,
      random: random('links'),
    }
    this.#servers = Array.from({ length: servers }, (_, n) => {
      const name = `server-${n}`
      const plugin = new WorldPlugin({ server: n, releases, now: () => scheduler.now })
      const plugins = releases.length === 0 ? [] : [plugin]
      const content = { plugins, runsControllers: controllers === 0 }
      return new ServerProcess({ ...parts, name, content, log: log(name) })
    })
    this.#controllers = Array.from({ length: controllers }, (_, n) => {
      const name = `controllers-${n}`
      return new ControllersProcess({ ...parts, name, log: log(name) })
    })
    this.#processes = [...this.#servers, ...this.#controllers]
    this.#faults = new Faults({ ...parts, processes: this.#processes, nodeOf: name => this.#nodeOf(name) })
    for (const each of this.#processes) each.start()
  }

  now(): number {
    return this.#scheduler.now
  }

  get lines(): readonly string[] {
    return this.#trace.lines
  }

  get traceHash(): string {
    return `${this.#trace.digest}-${this.#scheduler.digest.toString(16)}`
  }

  get store(): StoreTruth {
    return this.#core
  }

  get content(): readonly KeyValue[] {
    return [...this.#core.at(this.#core.revision).values()]
  }

  get leaderWrites(): readonly LeaderWrite[] {
    return [...this.#controllers, ...this.#servers].flatMap(({ writes }) => writes)
  }

  get held(): readonly Held[] {
    return this.#servers.flatMap(({ held }, server) => (held === undefined ? [] : { server, ...held }))
  }

  get counts(): WorldCounts {
    return { events: this.#scheduler.events, requests: this.#requests, commits: this.#core.revision }
  }

  get pauses(): World['pauses'] {
    return this.#faults.pauses.flatMap(({ node, ...times }) => {
      const server = this.#servers.findIndex(({ name }) => name === node)
      return server < 0 ? [] : [{ server, ...times }]
    })
  }

  get starts(): World['starts'] {
    return this.#servers.flatMap(({ starts }, server) => starts.map(at => ({ at, server })))
  }

  trace(line: string): void {
    this.#trace.add(`${this.now().toFixed(3)} ${line}`)
  }

  sleep(ms: number): Promise<void> {
    return new Promise(resolve => this.#scheduler.schedule(this.#node, ms, resolve))
  }

  async request(client: string, server: number, request: WorldRequest): Promise<WorldResponse> {
    const number = ++this.#requests
    const { method, path } = request
    this.trace(`${client} #${number} to server-${server}: ${method} ${path}`)
    const caller = this.#clientOf(client)
    try {
      const response = await caller.request(`server-${server}`, request)
      this.trace(`${client} #${number} got ${response.status}`)
      return response
    } catch (error) {
      this.trace(`${client} #${number} lost`)
      throw error
    }
  }

  watch(client: string, server: number, path: string, { headers, over }: WatchOptions = {}): WorldWatch {
    const caller = this.#clientOf(client)
    this.trace(`${client} watches server-${server}: ${path}`)
    return caller.watch(`server-${server}`, path, headers, over)
  }

  setTokens(tokens: readonly WorldToken[]): void {
    this.trace(`tokens ${tokens.map(({ token, user }) => `${token} of ${user}`).join(', ')}`)
    this.tokens.push({ at: this.now(), tokens })
    for (const server of this.#servers) server.setTokens(tokens)
  }

  inject(fault: Fault): void {
    this.trace(`fault ${JSON.stringify(fault)}`)
    const { life } = this.#core
    if (fault.type === 'tokens') this.setTokens(fault.tokens)
    this.#faults.inject(fault)
    if (fault.type === 'putBack' && this.#core.life !== life) this.#stopClients()
  }

  heal(): number {
    this.trace('heal')
    const pausedUntil = this.#faults.heal()
    return Math.max(this.now(), pausedUntil, this.#network.arrivesBy, this.#service.arrivesBy)
  }

  async advance(ms: number): Promise<void> {
    await this.#scheduler.advanceTo(this.now() + ms)
    const [failure] = this.failures
    if (failure !== undefined) throw failure
  }

  async settle(maxMs: number): Promise<boolean> {
    const until = this.now() + maxMs
    let quietSince = this.now()
    let revision = this.#changedAt
    while (this.now() < until) {
      await this.advance(Math.min(settleDefaults.stepMs, until - this.now()))
      const isSame =
        revision === this.#changedAt &&
        this.#servers.every(each => each.isReady && each.hasSeen(this.#changedAt))
      revision = this.#changedAt
      if (!isSame) quietSince = this.now()
      if (this.now() - quietSince >= settleDefaults.quietMs) return true
    }
    return false
  }

  isReady(server: number): boolean {
    return this.#serverAt(server).isReady
  }

  reload(server: number, release: number): void {
    this.trace(`server-${server} gets release ${release}`)
    this.#serverAt(server).reload(release)
  }

  get served(): readonly ServedRelease[] {
    return this.#servers.flatMap(({ served }) => served)
  }

  async close(): Promise<void> {
    for (const each of this.#processes) each.kill()
    for (const { node } of this.#clients.values()) node.die()
    this.#network.close()
    this.#replaced.restore()
    for (const event of uncaught) process.off(event, this.#onUncaught)
    isOpen = false
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #serverAt(server: number): ServerProcess {
    const found = this.#servers[server]
    if (found === undefined) throw new RangeError(`there is no server ${server}`)
    return found
  }

  #clientOf(name: string): WorldClient {
    const found = this.#clients.get(name)
    if (found !== undefined) return found
    const client = new WorldClient(this.#scheduler, name)
    this.#clients.set(name, client)
    return client
  }

  #nodeOf(name: string): WorldNode | undefined {
    return this.#processes.find(each => each.name === name)?.node ?? this.#clients.get(name)?.node
  }

  /** What they had sent and not received is lost, and their next requests come from processes that know nothing. */
  #stopClients(): void {
    for (const { node } of this.#clients.values()) {
      node.die()
      this.#network.end(node)
    }
    this.#clients.clear()
    this.#changedAt = this.#core.revision
  }

  #failed(reason: unknown): void {
    this.failures.push(reason instanceof Error ? reason : new Error(String(reason)))
  }

  /** Warnings and errors become lines of the trace. */
  #logOf(name: string): Logger {
    const note = (level: string) => (fields: object, message: string) => {
      const details = Object.entries(fields).map(([key, value]) => `${key}=${textOf(value)}`)
      this.#trace.note([this.now().toFixed(3), name, `${level}:`, message, ...details].join(' '))
    }
    const log: Logger = { ...silentLogger, warn: note('warn'), error: note('error'), child: () => log }
    return log
  }
}

function textOf(value: unknown): string {
  if (value instanceof Error) return `${value.name}: ${value.message}`
  return typeof value === 'string' ? value : inspect(value, { breakLength: Infinity, depth: 1 })
}

/** The program would end. */
const uncaught = ['unhandledRejection', 'uncaughtException'] as const

/** Returns true for what changes for ever: leases that are renewed, and the mark of the compaction. */
function isRenewed(key: string): boolean {
  return key.startsWith('objects/coordination.k8s.io/leases/') || key === 'compaction'
}

/** Worlds begin with an empty store, or with one of a server without plugins, if a random number is below these. */
const startsEmpty = 0.1
const startsWithout = 0.2

const settleDefaults = Object.freeze({ stepMs: 100, quietMs: 2_000 })
