import type { Registry } from 'prom-client'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import type { Informer } from '../cache/informer.ts'
import { type InformerLease, InformerPool } from '../cache/informer-pool.ts'
import { type Client, createClient } from '../client/client.ts'
import type { Transport } from '../client/transport.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { ControllerBuilder } from '../controller/builder.ts'
import { Controller } from '../controller/controller.ts'
import { type Logger, silentLogger } from '../logger.ts'
import { ControllerMetrics } from '../metrics/index.ts'
import { unlessAborted } from '../unless-aborted.ts'
import { type EventLoopDelayMeter, EventLoopWatch, measureEventLoopDelay } from './event-loop-watch.ts'
import { FencedTransport } from './fenced-transport.ts'
import { type HealthCheck, healthOf, type ManagerHealth } from './health.ts'
import { LeaderElector } from './leader-election.ts'
import { describeElection } from './leader-election-metrics.ts'
import { type LeaderElectionOptions, readLeaderElectionOptions } from './leader-election-options.ts'
import { type Runnable, RunnableHost } from './runnable.ts'

/** Times of a manager. */
export const managerDefaults = Object.freeze({
  /** How long runs may take to finish once the manager stops: below the 30 s that Kubernetes leaves a process. */
  drainTimeoutMs: 25_000,
  /** How long a manager waits for its caches before it takes part in the election: one kind that is away holds up no other. */
  warmUpTimeoutMs: 10_000,
  /** How long informers get to close their watches: a transport that does not let go must not keep the manager. */
  informersTimeoutMs: 1_000,
  /** How long forced runs and runnables get to heed their signals. */
  forcedGraceMs: 1_000,
})

/** What a manager works with. */
export interface ManagerOptions {
  /** The way to the server; either this or `client`. */
  readonly transport?: Transport
  readonly client?: Client
  readonly log?: Logger
  readonly clock?: Clock
  /** Where the metrics of controllers and election go; without it there are none. One manager for each registry. */
  readonly registry?: Registry
  /** Default `managerDefaults.drainTimeoutMs`. */
  readonly drainTimeoutMs?: number
  /** With it, of all managers that name the same lease one works at a time. It needs a transport. */
  readonly leaderElection?: LeaderElectionOptions
  /** Default: Node's own measurement, where there is an election. */
  readonly eventLoopDelay?: EventLoopDelayMeter
}

/** Where a manager stands in the election. */
export interface Leadership {
  /** Name of the lease. */
  readonly lease: string
  readonly identity: string
  readonly isLeader: boolean
  /** Who holds the lease, as far as is known here. */
  readonly leader: string | undefined
  /** Renewals that had to read the lease first, since the start. */
  readonly slowPaths: number
}

/** @throws TypeError when neither a transport nor a client is given; TypeError, RangeError for a lease that makes no sense. */
export function createManager(options: ManagerOptions): Manager {
  return new Manager(options)
}

/**
 * Runs controllers, over one shared informer for each model. It needs no server to start: whatever is away is tried
 * again until it is there.
 *
 *     start:   informers ──▶ caches filled ──▶ election ──▶ controllers and runnables
 *     lost:    controllers and runnables are aborted ──▶ election; informers go on
 *     stop:    no new work ──▶ runs finish, or are aborted ──▶ informers ──▶ the lease is given up
 *
 * Guarantees
 * - While it stands by, nothing that needs to lead runs, but its caches are filled and follow: the work begins without
 *   a list.
 * - A manager that stops while it stands by never begins to work.
 * - Each step of `stop` has a bound, and the lease is given up last, and only when every run has ended.
 */
export class Manager {
  /** Acts as nobody in particular: a plugin's controllers have their own. Where there is an election its writes are fenced. */
  readonly client: Client
  /**
   * To be called before anything that only the leader may do. Without an election it does nothing.
   * @throws LeadershipLostError unless this manager leads and its last renewal is recent enough.
   */
  readonly fence: () => void
  /** For controllers that are built elsewhere; those that `controller` builds have it. */
  readonly metrics: ControllerMetrics | undefined
  readonly #log: Logger
  readonly #clock: Clock
  readonly #drainTimeoutMs: number
  readonly #pool: InformerPool
  /** Not fenced. */
  readonly #openClient: Client
  readonly #elector: LeaderElector | undefined
  readonly #eventLoop: EventLoopWatch | undefined
  /** Of each controller, by its name. */
  readonly #leases = new Map<string, InformerLease[]>()
  readonly #controllers = new Set<Controller>()
  readonly #runnables = new Set<RunnableHost>()
  readonly #stopping = new AbortController()
  readonly #forced = new AbortController()
  #started = false
  /** Whether what needs to lead runs. */
  #working = false
  #stopped: Promise<void> | undefined

  constructor(options: ManagerOptions) {
    const { transport, client, leaderElection } = options
    const open = client ?? (transport && createClient(transport))
    if (open === undefined) throw new TypeError('a manager needs a transport or a client')
    this.#openClient = open
    this.#log = options.log ?? silentLogger
    this.#clock = options.clock ?? systemClock
    this.metrics = options.registry && new ControllerMetrics(options.registry)
    this.#drainTimeoutMs = options.drainTimeoutMs ?? managerDefaults.drainTimeoutMs
    this.#pool = new InformerPool({ client: open, log: this.#log, clock: this.#clock })
    if (leaderElection === undefined) {
      this.fence = () => {}
      this.client = open
      return
    }
    if (transport === undefined) {
      throw new TypeError('leader election needs a transport: the fence stands before it')
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
    this.fence = () => elector.fence()
    this.client = createClient(new FencedTransport(transport, this.fence))
    const { eventLoopDelay } = options
    this.#eventLoop = new EventLoopWatch({
      clock: this.#clock,
      log: this.#log,
      measure: eventLoopDelay === undefined ? measureEventLoopDelay : () => eventLoopDelay,
      limitMs: settings.retryPeriodMs,
    })
  }

  /** Undefined without an election: the manager then always works. */
  get leadership(): Leadership | undefined {
    if (this.#elector === undefined) return undefined
    const { lease, identity, isLeader, leader, slowPaths } = this.#elector
    return { lease, identity, isLeader, leader, slowPaths }
  }

  /**
   * The shared cache of a model's objects, kept until the manager stops. It starts with the manager, or at once where
   * that has started.
   */
  informer<T extends ApiObject>(model: Model<T>): Informer<T> {
    if (this.#stopped !== undefined) throw new Error('the manager has stopped')
    return this.#pool.acquire(model).informer
  }

  /** Builds a controller that acts through the manager's client, and adds it. */
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
      fence: this.fence,
      ...(this.metrics && { metrics: this.metrics }),
    })
    this.add(controller)
    return controller
  }

  /**
   * Starts a controller or runnable with the manager, or at once where that has started; what needs to lead, whenever
   * this process leads.
   * @throws Error when the manager has stopped, or has something else of that name.
   */
  add<T extends ApiObject>(part: Controller<T> | Runnable): void {
    if (this.#stopped !== undefined) throw new Error('the manager has stopped')
    for (const other of [...this.#controllers, ...this.#runnables]) {
      if (other.name !== part.name) continue
      const what = other instanceof Controller ? 'controller' : 'runnable'
      throw new Error(`there is a ${what} ${part.name} already`)
    }
    if (part instanceof Controller) this.#addController(part)
    else this.#addRunnable(part)
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
    const host = new RunnableHost(runnable, { client, clock: this.#clock, log: this.#log })
    this.#runnables.add(host)
    if (host.needsLeader ? this.#working : this.#started) host.start()
  }

  /** Stops one controller as `stop` does, and its informer where nobody else uses it. */
  async remove<T extends ApiObject>(controller: Controller<T>): Promise<void> {
    for (const known of this.#controllers) {
      if (known.name !== controller.name) continue
      this.#controllers.delete(known)
      await known.stop(this.#drainTimeoutMs)
      const leases = this.#leases.get(known.name) ?? []
      this.#leases.delete(known.name)
      await Promise.all(leases.map(lease => lease.release()))
    }
  }

  /** Starts everything that was added and returns at once; `synced` tells when the caches are filled. */
  start(): void {
    if (this.#started || this.#stopped !== undefined) return
    this.#started = true
    this.#pool.start()
    for (const host of this.#runnables) if (!host.needsLeader) host.start()
    this.#eventLoop?.start()
    if (this.#elector === undefined) this.#work()
    else void this.#warmUp().then(() => this.#elector?.start())
    this.#log.debug({ controllers: this.#controllers.size }, 'the manager has started')
  }

  /**
   * Resolves once every informer that is there by now holds its model's objects: with a server that is away, not
   * before it is back.
   * @throws the signal's reason when aborted, AbortError when the manager stops meanwhile.
   */
  async synced(signal?: AbortSignal): Promise<void> {
    const all = Promise.all(this.#pool.informers.map(informer => informer.synced))
    await (signal === undefined ? all : unlessAborted(all, signal))
  }

  health(): ManagerHealth {
    const trouble = this.#elector?.trouble
    const election: HealthCheck = {
      name: 'leader-election',
      ...(trouble !== undefined && { problem: trouble }),
    }
    return healthOf({
      liveness: this.#elector === undefined ? [] : [election],
      readiness: this.#pool.informers.map(({ model: { plural, group }, hasSynced }) => ({
        name: `informer/${plural}.${group}`,
        ...(!hasSynced && { problem: 'the cache is not filled yet' }),
      })),
    })
  }

  /**
   * Drains: no new work is taken, current runs finish within `drainTimeoutMs`, then their signals are aborted; with
   * `force`, also on a later call, at once. Resolves when that is done; calling it again answers the same promise. A
   * stopped manager cannot start again.
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
    const runnables = [...this.#runnables].filter(({ isRunning }) => isRunning).map(({ name }) => name)
    const drained = runs === 0 && runnables.length === 0
    if (!drained) this.#log.warn({ runs, runnables }, 'not everything has ended')
    await this.#within(this.#pool.stop(), managerDefaults.informersTimeoutMs)
    // What has not ended may still do something; others then wait for the lease to run out.
    await this.#elector?.end({ release: drained })
    this.#eventLoop?.stop()
    this.#controllers.clear()
    this.#log.info({}, 'the manager has stopped')
  }

  /** Lets runs and runnables end, in time or when forced. */
  async #endWork(reason: DOMException): Promise<void> {
    const { forcedGraceMs } = managerDefaults
    const controllers = [...this.#controllers]
    const runnables = [...this.#runnables].map(host => host.stop(reason))
    const ended = Promise.all([
      ...controllers.map(controller => controller.stop(this.#drainTimeoutMs)),
      this.#within(Promise.all(runnables), this.#drainTimeoutMs),
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
    await Promise.race([ended, force.then(() => this.#within(ended, forcedGraceMs))])
  }

  async #warmUp(): Promise<void> {
    const { warmUpTimeoutMs } = managerDefaults
    const synced = Promise.allSettled(this.#pool.informers.map(informer => informer.synced))
    await this.#within(synced, warmUpTimeoutMs, this.#stopping.signal)
  }

  /** Begins what needs to lead. */
  #work(): void {
    if (this.#stopped !== undefined) return
    this.#working = true
    for (const controller of this.#controllers) controller.start()
    for (const host of this.#runnables) if (host.needsLeader) host.start()
  }

  /** Ends it, at once. Settles when no runnable is left; a run that goes on keeps its object locked. */
  async #standBy(reason: Error): Promise<void> {
    this.#working = false
    for (const controller of this.#controllers) controller.standBy(reason)
    const leading = [...this.#runnables].filter(({ needsLeader }) => needsLeader)
    await Promise.all(leading.map(host => host.stop(reason)))
  }

  /** Resolves when the work has settled, after `ms`, or when aborted. */
  async #within(work: Promise<unknown>, ms: number, aborted?: AbortSignal): Promise<void> {
    const patience = new AbortController()
    const signal = aborted === undefined ? patience.signal : AbortSignal.any([patience.signal, aborted])
    await Promise.race([work, sleep(this.#clock, ms, signal)]).catch(() => {})
    patience.abort()
  }
}
