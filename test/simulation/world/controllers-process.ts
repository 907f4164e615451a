import {
  type Clock,
  Collector,
  createManager,
  DiscoveredKinds,
  HttpTransport,
  type Logger,
  type Manager,
  systemClock,
} from '@setpoint/controller-runtime'
import { EventKeeper } from '@setpoint/controller-runtime/internal'
import { nodeDefaults } from './api-server-node.ts'
import { recordWrites } from './leader-writes.ts'
import { balancer, domain, type Network } from './network.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import type { LeaderWrite } from './world.ts'
import type { WorldProcess } from './world-process.ts'

/** Discovery takes a dozen requests. Here it comes every 30 s instead of every ten, as in Kubernetes' collector. */
const rareDiscovery: Clock = {
  ...systemClock,
  setTimeout: (callback, ms, options) => systemClock.setTimeout(callback, ms < 10_000 ? ms : 30_000, options),
}

interface Running {
  readonly node: WorldNode
  /** Undefined until its first turn. */
  manager: Manager | undefined
}

/**
 * The program's role `controllers`: the collector and the keeper of events, over HTTP and WebSocket through a load
 * balancer. Of several such processes the holder of the lease works.
 */
export class ControllersProcess implements WorldProcess {
  readonly name: string
  readonly #scheduler: Scheduler
  readonly #network: Network
  readonly #log: Logger
  readonly writes: LeaderWrite[] = []
  #running: Running | undefined
  #starts = 0

  constructor(parts: {
    name: string
    scheduler: Scheduler
    network: Network
    log: Logger
  }) {
    this.name = parts.name
    this.#scheduler = parts.scheduler
    this.#network = parts.network
    this.#log = parts.log
  }

  get node(): WorldNode | undefined {
    return this.#running?.node
  }

  /** True if it leads, or stands by beside a leader. */
  get isReady(): boolean {
    const { node, manager } = this.#running ?? {}
    if (node === undefined || manager === undefined) return false
    const leadership = this.#scheduler.enter(node, () => manager.leadership)
    return leadership?.unready === undefined && node.pausedUntil <= this.#scheduler.now
  }

  /** Its informers list again after a restore; only servers must be restarted. */
  get isOfEarlierStore(): boolean {
    return false
  }

  start(): void {
    if (this.#running !== undefined) return
    const node = this.#scheduler.node(this.name)
    const identity = `${this.name}_${++this.#starts}`
    const running: Running = { node, manager: undefined }
    this.#running = running
    this.#scheduler.schedule(node, 0, () => {
      running.manager = this.#run(identity)
    })
  }

  kill(): void {
    if (this.#running === undefined) return
    const { node } = this.#running
    this.#running = undefined
    node.die()
    this.#network.end(node)
  }

  #run(identity: string): Manager {
    const log = this.#log
    const http = new HttpTransport({ server: `http://${balancer}${domain}` })
    const transport = recordWrites(http, path =>
      this.writes.push({ at: this.#scheduler.now, identity, path }),
    )
    const manager = createManager({ transport, log, leaderElection: { ...nodeDefaults.election, identity } })
    const { reservedDomain } = nodeDefaults
    manager.add(
      new Collector({ kinds: new DiscoveredKinds({ transport, log, clock: rareDiscovery }), reservedDomain }),
    )
    manager.add(new EventKeeper())
    manager.start()
    return manager
  }
}
