import { inspect } from 'node:util'
import { type Logger, type Model, silentLogger } from '@setpoint/controller-runtime'
import { loadWebSockets } from '@setpoint/controller-runtime/internal'
import { loadRules } from '../../../apiserver/src/model/index.ts'
import { WorldClient } from './clients.ts'
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
  SeededRandom,
  StoreTruth,
  World,
  WorldCounts,
  WorldOptions,
  WorldRequest,
  WorldResponse,
  WorldWatch,
} from './world.ts'

let isOpen = false

/** Opens a world. Its servers start as time passes. Only one can be open at a time. */
export async function openWorld(options: WorldOptions): Promise<World> {
  if (isOpen) throw new Error('another world is open: close it first')
  isOpen = true
  // Modules are files, so they are loaded before.
  await Promise.all([
    loadRules([...options.models, ...(options.plugins ?? []).flatMap(({ models }) => models)]),
    loadWebSockets(),
  ])
  return new SimulatedWorld(options)
}

class SimulatedWorld implements World {
  readonly random: SeededRandom
  readonly failures: Error[] = []
  readonly #scheduler: Scheduler
  readonly #trace: Trace
  readonly #core: StoreCore
  readonly #service: StoreService
  readonly #network: Network
  readonly #replaced = new Replaced()
  readonly #servers: ServerProcess[]
  readonly #clients = new Map<string, WorldClient>()
  readonly #onRejection = (reason: unknown) => this.#failed(reason)
  readonly #faults: Faults
  /** What belongs to no process. */
  readonly #node: WorldNode
  #requests = 0
  /** The last revision that counts as a change, see `isRenewed`. */
  #changedAt = 0

  constructor({ seed, servers = 2, models, plugins = [], keepTrace = false }: WorldOptions) {
    this.random = seededRandom(seed)
    const scheduler = new Scheduler(seed)
    this.#scheduler = scheduler
    this.#node = scheduler.node('world')
    this.#trace = new Trace(keepTrace)
    this.#core = new StoreCore(() => scheduler.now)
    const random = (name: string) => this.random.fork(name)
    this.#service = new StoreService({
      scheduler,
      random: random('store'),
      core: this.#core,
      node: scheduler.node('store'),
    })
    this.#core.onCommit = ({ revision, by, changes }) => {
      this.trace(
        `${by} commits ${revision}: ${changes.map(({ key, value }) => (value === undefined ? `-${key}` : key)).join(' ')}`,
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
    process.on('unhandledRejection', this.#onRejection)
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
      return new ServerProcess({ ...parts, name, content: { models, plugins }, log: log(name) })
    })
    this.#faults = new Faults({ ...parts, servers: this.#servers, nodeOf: name => this.#nodeOf(name) })
    for (const server of this.#servers) server.start()
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

  get counts(): WorldCounts {
    return { events: this.#scheduler.events, requests: this.#requests, commits: this.#core.revision }
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
      const response = await this.#scheduler.enter(caller.node, () =>
        caller.request(`server-${server}`, request),
      )
      this.trace(`${client} #${number} got ${response.status}`)
      return response
    } catch (error) {
      this.trace(`${client} #${number} lost`)
      throw error
    }
  }

  watch(client: string, server: number, path: string): WorldWatch {
    const caller = this.#clientOf(client)
    this.trace(`${client} watches server-${server}: ${path}`)
    return this.#scheduler.enter(caller.node, () => caller.watch(`server-${server}`, path))
  }

  inject(fault: Fault): void {
    this.trace(`fault ${JSON.stringify(fault)}`)
    this.#faults.inject(fault)
  }

  heal(): void {
    this.trace('heal')
    this.#faults.heal()
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

  serveModels(server: number, models: readonly Model[]): void {
    const process = this.#serverAt(server)
    process.content = { ...process.content, models }
  }

  async close(): Promise<void> {
    for (const server of this.#servers) server.kill()
    for (const { node } of this.#clients.values()) node.die()
    this.#replaced.restore()
    process.off('unhandledRejection', this.#onRejection)
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
    const client = new WorldClient(this.#scheduler.node(name))
    this.#clients.set(name, client)
    return client
  }

  #nodeOf(name: string): WorldNode | undefined {
    return this.#servers.find(server => server.name === name)?.node ?? this.#clients.get(name)?.node
  }

  #failed(reason: unknown): void {
    this.failures.push(reason instanceof Error ? reason : new Error(String(reason)))
  }

  /** Warnings and errors become lines of the trace. */
  #logOf(name: string): Logger {
    const note = (level: string) => (fields: object, message: string) =>
      this.#trace.note(
        `${this.now().toFixed(3)} ${name} ${level}: ${message} ${inspect(fields, { breakLength: Infinity, depth: 2 })}`,
      )
    const log: Logger = { ...silentLogger, warn: note('warn'), error: note('error'), child: () => log }
    return log
  }
}

/** Returns true for what changes for ever: leases that are renewed, and the mark of the compaction. */
function isRenewed(key: string): boolean {
  return key.startsWith('objects/coordination.k8s.io/leases/') || key === 'compaction'
}

const settleDefaults = Object.freeze({ stepMs: 100, quietMs: 2_000 })
