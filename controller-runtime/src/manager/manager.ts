import type { Registry } from 'prom-client'
import { groupResource } from '../api/group-resource.ts'
import { type KeysOf, refuseUnknownKeys } from '../api/known-keys.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Informer } from '../cache/informer.ts'
import { type InformerLease, InformerPool } from '../cache/informer-pool.ts'
import type { Client } from '../client/client.ts'
import { createClient } from '../client/create-client.ts'
import { logWarnings } from '../client/log-warnings.ts'
import type { Transport } from '../client/transport.ts'
import { type Clock, systemClock } from '../clock.ts'
import { ControllerBuilder } from '../controller/builder.ts'
import { Controller } from '../controller/controller.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { ControllerMetrics } from '../metrics/index.ts'
import type { Runnable } from '../runnable.ts'
import { settledWithin } from '../settled-within.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { type EventLoopDelayMeter, EventLoopWatch, measureEventLoopDelay } from './event-loop-watch.ts'
import { GuardedTransport } from './guarded-transport.ts'
import { type HealthCheck, healthOf, type ManagerHealth } from './health.ts'
import { LeaderElector } from './leader-election.ts'
import { describeElection } from './leader-election-metrics.ts'
import { type LeaderElectionOptions, readLeaderElectionOptions } from './leader-election-options.ts'
import { RunnableHost } from './runnable-host.ts'

/** Times of a manager, in ms. */
export const managerDefaults = Object.freeze({
  /** Time for runs to finish at shutdown: less than the 30 s grace period of Kubernetes. */
  drainTimeoutMs: 25_000,
  /** How long a manager waits for its caches before it joins the election, so that one missing kind blocks no other. */
  warmUpTimeoutMs: 10_000,
  /** Time for informers to close their watches at shutdown. */
  informersTimeoutMs: 1_000,
  /** Time for runs and runnables to react to an abort at a forced shutdown. */
  forcedGraceMs: 1_000,
})

/** Options of a manager. */
export interface ManagerOptions {
  /** The transport to the server; either this or `client`. */
  readonly transport?: Transport
  readonly client?: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Registry for the metrics of controllers and election. Default: no metrics. One manager per registry. */
  readonly registry?: Registry
  /** Default `managerDefaults.drainTimeoutMs`. */
  readonly drainTimeoutMs?: number
  /** If set, only one of the managers with the same lease is active. Requires `transport`. */
  readonly leaderElection?: LeaderElectionOptions
  /** Default: Node's measurement if there is an election. */
  readonly eventLoopDelay?: EventLoopDelayMeter
}

const managerKeys: KeysOf<ManagerOptions> = {
  transport: true,
  client: true,
  log: true,
  clock: true,
  registry: true,
  drainTimeoutMs: true,
  leaderElection: true,
  eventLoopDelay: true,
}

/** The state of a manager in the election. */
export interface Leadership {
  /** Name of the lease. */
  readonly lease: string
  readonly identity: string
  readonly isLeader: boolean
  /** The holder of the lease, as last observed. */
  readonly leader: string | undefined
  /** Why this process neither leads nor stands by beside a live leader. Undefined if it does. */
  readonly unready: string | undefined
  /** Number of renewals since the start that had to read the lease first. */
  readonly slowPaths: number
}

/**
 * @throws TypeError without a transport or a client, and for an unknown option; TypeError, RangeError for invalid
 * leader
 *   election options.
 */
export function createManager(options: ManagerOptions): Manager {
  return new Manager(options)
}

/**
 * Runs controllers over shared informers. It starts without a server and retries until there is one.
 *
 *     start:   informers ──▶ caches synced ──▶ election ──▶ controllers and runnables
 *     lost:    controllers and runnables are aborted ──▶ election; informers continue
 *     stop:    no new work ──▶ runs finish, or are aborted ──▶ informers ──▶ the lease is released
 *
 * Guarantees
 * - A standby runs nothing that needs the leader, but keeps its caches synced: it takes over without a list.
 * - A manager that is stopped while on standby never becomes active.
 * - Each step of `stop` has a timeout. The lease is released last, and only if every run has ended.
 */
export class Manager {
  /**
   * Acts for no plugin; plugins' controllers have their own client. With an election the leadership guard checks its
   * writes.
   */
  readonly client: Client
  /**
   * Call this before anything that only the leader may do. Does nothing without an election.
   * @throws LeadershipLostError unless this manager is the leader and its last renewal is recent enough.
   */
  readonly leadershipGuard: () => void
  /** For controllers built elsewhere; `controller` passes them on. */
  readonly metrics: ControllerMetrics | undefined
  readonly #log: Logger
  readonly #clock: Clock
  readonly #drainTimeoutMs: number
  readonly #pool: InformerPool
  /** The client without the leadership guard. */
  readonly #openClient: Client
  readonly #elector: LeaderElector | undefined
  readonly #eventLoop: EventLoopWatch | undefined
  /** By the controller's name. */
  readonly #leases = new Map<string, InformerLease[]>()
  readonly #controllers = new Set<Controller>()
  readonly #runnables = new Set<RunnableHost>()
  /** Removed runnables that have not ended. */
  readonly #deaf = new Set<RunnableHost>()
  readonly #stopping = new AbortController()
  readonly #forced = new AbortController()
  #started = false
  /** Whether controllers and runnables that need the leader are running. */
  #working = false
  #stopped: Promise<void> | undefined

  constructor(options: ManagerOptions) {
    refuseUnknownKeys(options, managerKeys, 'the options of the manager')
    const { transport, client, leaderElection } = options
    const onWarning = logWarnings(options.log ?? silentLogger)
    const open = client ?? (transport && createClient(transport, { onWarning }))
    if (open === undefined) throw new TypeError('a manager needs a transport or a client')
    this.#openClient = open
    this.#log = options.log ?? silentLogger
    this.#clock = options.clock ?? systemClock
    this.metrics = options.registry && new ControllerMetrics(options.registry)
    this.#drainTimeoutMs = options.drainTimeoutMs ?? managerDefaults.drainTimeoutMs
    this.#pool = new InformerPool({ client: open, log: this.#log, clock: this.#clock })
    if (leaderElection === undefined) {
      this.leadershipGuard = () => {}
      this.client = open
      return
    }
    if (transport === undefined) {
      throw new TypeError('leader election needs a transport, which the leadership guard wraps')
    }
    const settings = readLeaderElectionOptions(leaderElection)
    const elector = new LeaderElector({
      client: open,
      clock: this.#clock,
      log: this.#log,
      settings,
      onStarted: () => this.#work(),
      onLost: reason => this.#standBy(reason),
    })
    this.#elector = elector
    if (options.registry !== undefined) describeElection(options.registry, elector)
    this.leadershipGuard = () => elector.leadershipGuard()
    this.client = createClient(new GuardedTransport(transport, this.leadershipGuard), { onWarning })
    const { eventLoopDelay } = options
    this.#eventLoop = new EventLoopWatch({
      clock: this.#clock,
      log: this.#log,
      measure: eventLoopDelay === undefined ? measureEventLoopDelay : () => eventLoopDelay,
      limitMs: settings.retryPeriodMs,
    })
  }

  /** Undefined without an election: the manager is then always active. */
  get leadership(): Leadership | undefined {
    if (this.#elector === undefined) return undefined
    const { lease, identity, isLeader, leader, unready, slowPaths } = this.#elector
    return { lease, identity, isLeader, leader, unready, slowPaths }
  }

  /**
   * Returns the shared informer of a model, which runs until the manager stops. It starts with the manager, or at once
   * if the manager is running.
   */
  informer<T extends ApiObject>(model: Model<T>): Informer<T> {
    if (this.#stopped !== undefined) throw new Error('the manager is stopped')
    return this.#pool.acquire(model).informer
  }

  /** Builds a controller that uses the manager's client, and adds it. */
  controller<T extends ApiObject>(
    model: Model<T>,
    build: (controller: ControllerBuilder<T>) => unknown,
  ): Controller<T> {
    const builder = new ControllerBuilder(model)
    build(builder)
    const controller = new Controller(builder.build(), {
      client: this.client,
      log: this.#log,
      clock: this.#clock,
      leadershipGuard: this.leadershipGuard,
      metrics: this.metrics,
    })
    this.add(controller)
    return controller
  }

  /**
   * Adds a controller or runnable, which starts with the manager, or at once if it is running. With `needsLeader` it
   * runs only while this process is the leader.
   * @throws Error if the manager is stopped, or the name is taken.
   */
  add<T extends ApiObject>(added: Controller<T> | Runnable): void {
    if (this.#stopped !== undefined) throw new Error('the manager is stopped')
    for (const other of [...this.#controllers, ...this.#runnables]) {
      if (other.name !== added.name) continue
      const type = other instanceof Controller ? 'controller' : 'runnable'
      throw new Error(`a ${type} named ${added.name} already exists`)
    }
    if (added instanceof Controller) this.#addController(added)
    else this.#addRunnable(added)
  }

  #addController<T extends ApiObject>(controller: Controller<T>): void {
    const leases: InformerLease[] = []
    this.#leases.set(controller.name, leases)
    controller.attach({
      informer: (model, selection) => {
        const lease = this.#pool.acquire(model, selection)
        leases.push(lease)
        return lease.informer
      },
    })
    this.#controllers.add(controller)
    if (this.#working) controller.start()
  }

  #addRunnable(runnable: Runnable): void {
    const client = runnable.needsLeader === false ? this.#openClient : this.client
    const metrics = this.metrics?.runnables
    const host = new RunnableHost(runnable, { client, clock: this.#clock, log: this.#log, metrics })
    this.#runnables.add(host)
    if (host.needsLeader ? this.#working : this.#started) host.start()
  }

  /**
   * Stops one controller as `stop` does, and its informers unless others use them; or aborts a runnable and waits until
   * it has ended, for `drainTimeoutMs` at most. Does nothing unless this very one was added: at a reload, another has
   * its name.
   */
  async remove<T extends ApiObject>(removed: Controller<T> | Runnable): Promise<void> {
    if (removed instanceof Controller) await this.#removeController(removed)
    else await this.#removeRunnable(removed)
  }

  async #removeController<T extends ApiObject>(controller: Controller<T>): Promise<void> {
    if (!this.#controllers.delete(controller)) return
    await controller.stop(this.#drainTimeoutMs)
    const leases = this.#leases.get(controller.name) ?? []
    this.#leases.delete(controller.name)
    await Promise.all(leases.map(lease => lease.release()))
  }

  async #removeRunnable(runnable: Runnable): Promise<void> {
    const { name } = runnable
    for (const host of this.#runnables) {
      if (host.runnable !== runnable) continue
      this.#runnables.delete(host)
      const stopped = host.stop(new DOMException(`runnable ${name} is stopping`, 'AbortError'))
      await settledWithin(this.#clock, stopped, this.#drainTimeoutMs)
      if (host.isRunning) {
        this.#log.warn({ runnable: name }, 'runnable has not ended in time')
        this.#deaf.add(host)
        void stopped.then(() => this.#deaf.delete(host))
      }
      this.metrics?.runnables.remove(name)
    }
  }

  /** Starts everything that was added, and returns at once; see `synced`. */
  start(): void {
    if (this.#started || this.#stopped !== undefined) return
    this.#started = true
    this.#pool.start()
    for (const host of this.#runnables) if (!host.needsLeader) host.start()
    this.#eventLoop?.start()
    if (this.#elector === undefined) this.#work()
    else void this.#warmUp().then(() => this.#elector?.start())
    this.#log.debug({ controllers: this.#controllers.size }, 'manager started')
  }

  /**
   * Resolves when all current informers have synced, which needs a server.
   * @throws the signal's reason when aborted; AbortError if the manager stops first.
   */
  async synced(signal?: AbortSignal): Promise<void> {
    const all = Promise.all(this.#pool.informers.map(informer => informer.synced))
    await unlessAborted(all, signal)
  }

  health(): ManagerHealth {
    const election = (problem: string | undefined): HealthCheck[] =>
      this.#elector === undefined ? [] : [{ name: 'leader-election', problem }]
    return healthOf({
      liveness: election(this.#elector?.trouble),
      readiness: [
        ...this.#pool.informers.map(({ model, hasSynced }) => ({
          name: `informer/${groupResource(model)}`,
          problem: hasSynced ? undefined : 'the cache has not synced',
        })),
        ...election(this.#elector?.unready),
      ],
    })
  }

  /**
   * Stops: takes no new work, lets runs finish for up to `drainTimeoutMs`, then aborts them; with `force`, also in a
   * later call, at once. Resolves when done; further calls return the same promise. A stopped manager cannot be
   * restarted.
   */
  stop({ force = false }: { readonly force?: boolean } = {}): Promise<void> {
    if (force) this.#forced.abort()
    this.#stopped ??= this.#drain()
    return this.#stopped
  }

  async #drain(): Promise<void> {
    const reason = new DOMException('the manager is stopping', 'AbortError')
    this.#stopping.abort(reason)
    this.#elector?.withdraw()
    await this.#endWork(reason)
    const runs = [...this.#controllers].reduce((sum, { queue }) => sum + queue.processing, 0)
    const hosts = [...this.#runnables, ...this.#deaf]
    const runnables = hosts.filter(({ isRunning }) => isRunning).map(({ name }) => name)
    const drained = runs === 0 && runnables.length === 0
    if (!drained) this.#log.warn({ runs, runnables }, 'some runs or runnables have not ended')
    await settledWithin(this.#clock, this.#pool.stop(), managerDefaults.informersTimeoutMs)
    // If something has not ended, it may still write; others must wait for the lease to expire.
    await this.#elector?.end({ release: drained })
    this.#eventLoop?.stop()
    this.#controllers.clear()
    this.#log.info({}, 'manager stopped')
  }

  /** Waits until runs and runnables have ended, up to the timeout or until forced. */
  async #endWork(reason: DOMException): Promise<void> {
    const { forcedGraceMs } = managerDefaults
    const controllers = [...this.#controllers]
    const runnables = [...this.#runnables].map(host => host.stop(reason))
    const ended = Promise.all([
      ...controllers.map(controller => controller.stop(this.#drainTimeoutMs)),
      settledWithin(this.#clock, Promise.all(runnables), this.#drainTimeoutMs),
    ])
    const { signal } = this.#forced
    const force = new Promise<void>(resolve => {
      const onForce = () => {
        for (const controller of controllers) controller.standBy(reason)
        resolve()
      }
      if (signal.aborted) onForce()
      else signal.addEventListener('abort', onForce, { once: true })
    })
    await Promise.race([ended, force.then(() => settledWithin(this.#clock, ended, forcedGraceMs))])
  }

  async #warmUp(): Promise<void> {
    const { warmUpTimeoutMs } = managerDefaults
    const synced = Promise.allSettled(this.#pool.informers.map(informer => informer.synced))
    await settledWithin(this.#clock, synced, warmUpTimeoutMs, this.#stopping.signal)
  }

  /** Starts everything that needs the leader. */
  #work(): void {
    if (this.#stopped !== undefined) return
    this.#working = true
    for (const controller of this.#controllers) controller.start()
    for (const host of this.#runnables) if (host.needsLeader) host.start()
  }

  /**
   * Stops everything that needs the leader, at once. Resolves when all runnables have ended; runs keep their objects
   * locked.
   */
  async #standBy(reason: Error): Promise<void> {
    this.#working = false
    for (const controller of this.#controllers) controller.standBy(reason)
    const leading = [...this.#runnables, ...this.#deaf].filter(({ needsLeader }) => needsLeader)
    await Promise.all(leading.map(host => host.stop(reason)))
  }
}
