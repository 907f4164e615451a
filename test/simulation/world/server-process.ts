import type { Logger } from '@setpoint/controller-runtime'
import { ApiServerNode, type ServedContent } from './api-server-node.ts'
import type { Network } from './network.ts'
import type { WorldNode } from './node.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoreCore } from './store-core.ts'
import { StoreLink } from './store-link.ts'
import type { StoreService } from './store-service.ts'
import { TokenAccess } from './token-access.ts'
import {
  type Held,
  type LeaderWrite,
  type SeededRandom,
  type ServedRelease,
  tokensMs,
  type WorldToken,
} from './world.ts'
import type { WorldProcess } from './world-process.ts'

interface Incarnation {
  readonly node: WorldNode
  readonly link: StoreLink
  /** Undefined until its first turn. */
  server: ApiServerNode | undefined
  access: TokenAccess | undefined
}

/** A server that can be killed and started again, with nothing but the store in between. */
export class ServerProcess implements WorldProcess {
  readonly name: string
  readonly #content: ServedContent
  readonly #scheduler: Scheduler
  readonly #core: StoreCore
  readonly #service: StoreService
  readonly #network: Network
  readonly #random: SeededRandom
  readonly #log: Logger
  /** Of the controllers that run in it. */
  readonly writes: LeaderWrite[] = []
  #running: Incarnation | undefined
  readonly #startedAt: number[] = []
  #tokens: readonly WorldToken[] = []

  constructor(parts: {
    name: string
    content: ServedContent
    scheduler: Scheduler
    core: StoreCore
    service: StoreService
    network: Network
    random: SeededRandom
    log: Logger
  }) {
    this.name = parts.name
    this.#content = parts.content
    this.#scheduler = parts.scheduler
    this.#core = parts.core
    this.#service = parts.service
    this.#network = parts.network
    this.#random = parts.random
    this.#log = parts.log
  }

  get node(): WorldNode | undefined {
    return this.#running?.node
  }

  get isReady(): boolean {
    const { node, server } = this.#running ?? {}
    if (node === undefined || server === undefined) return false
    // The lag is measured with the clock of the node.
    const trouble = this.#scheduler.enter(node, () => server.rooms.follower.trouble)
    return server.hasStarted && trouble === undefined && node.pausedUntil <= this.#scheduler.now
  }

  /** Returns true if its caches have all changes up to a revision. */
  hasSeen(revision: number): boolean {
    const position = this.#running?.server?.rooms.follower.position
    return position !== undefined && position >= revision
  }

  /** Undefined while it does not run. */
  get held(): Omit<Held, 'server'> | undefined {
    const { node, server } = this.#running ?? {}
    if (node === undefined || server === undefined) return undefined
    return {
      ...this.#scheduler.enter(node, () => server.held),
      sockets: this.#network.socketsOf(node),
      events: this.#scheduler.eventsOf(node),
    }
  }

  /** When it was started. */
  get starts(): readonly number[] {
    return this.#startedAt
  }

  /** True if the store was replaced since its start, so that it refuses all requests. */
  get isOfEarlierStore(): boolean {
    return this.#running !== undefined && this.#running.link.life !== this.#core.life
  }

  start(): void {
    if (this.#running !== undefined) return
    const node = this.#scheduler.node(this.name)
    const link = new StoreLink({
      scheduler: this.#scheduler,
      core: this.#core,
      service: this.#service,
      random: this.#random,
      node,
    })
    const identity = `${this.name}_${this.#startedAt.push(this.#scheduler.now)}`
    const running: Incarnation = { node, link, server: undefined, access: undefined }
    this.#running = running
    this.#scheduler.schedule(node, 0, () => {
      const access = new TokenAccess(this.#tokens)
      const server = new ApiServerNode({
        storage: link,
        content: this.#content,
        ...{ access, identity, log: this.#log },
        wrote: path => this.writes.push({ at: this.#scheduler.now, identity, path }),
      })
      running.server = server
      running.access = access
      this.#network.listen({ node, accept: socket => server.accept(socket) })
    })
  }

  /** As its file of tokens changes: a process that runs notices it later. */
  setTokens(tokens: readonly WorldToken[]): void {
    this.#tokens = tokens
    const running = this.#running
    if (running === undefined) return
    this.#scheduler.schedule(running.node, this.#random.next() * tokensMs, () =>
      running.access?.set(this.#tokens),
    )
  }

  /** The releases of the plugin that its processes may have served. */
  get served(): readonly ServedRelease[] {
    return this.#content.plugins.flatMap(({ served }) => served)
  }

  /** As the folder of the plugin changes, and the operator asks for a reload. */
  reload(release: number): void {
    for (const plugin of this.#content.plugins) {
      plugin.install(release)
      const running = this.#running
      if (running !== undefined)
        this.#scheduler.schedule(running.node, 0, () => void running.server?.reload(plugin))
    }
  }

  /** Ends the process at once. */
  kill(): void {
    if (this.#running === undefined) return
    const { node, link, server } = this.#running
    this.#running = undefined
    for (const plugin of this.#content.plugins) plugin.end()
    node.die()
    this.#service.detach(link)
    this.#network.end(node)
    this.#scheduler.enter(node, () => server?.release())
  }
}
