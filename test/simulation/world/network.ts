import { Agent } from 'node:http'
import net from 'node:net'
import { GuardError } from './guard.ts'
import type { WorldNode } from './node.ts'
import { Pipe, type Route } from './pipe.ts'
import type { Replaced } from './replaced.ts'
import type { Scheduler } from './scheduler.ts'
import { WorldSocket } from './socket.ts'
import type { SeededRandom } from './world.ts'

/** The domain of the servers: `server-0.world`. */
export const domain = '.world'

/** The name of a load balancer before all servers. */
export const balancer = 'servers'

/** Takes the connections to a server. */
export interface Listener {
  readonly node: WorldNode
  accept(socket: WorldSocket): void
}

/** A connection between two nodes. */
interface Connection {
  readonly client: WorldSocket
  readonly server: WorldSocket
  readonly toServer: Pipe
  readonly toClient: Pipe
}

interface Partition {
  readonly one: string
  /** Undefined for all others. */
  readonly other: string | undefined
  readonly until: number
}

export const networkDefaults = Object.freeze({ minMs: 0.05, maxMs: 1 })

/** All connections of the world: how long bytes take, and which connections break. */
export class Network implements Route {
  readonly #scheduler: Scheduler
  readonly #random: SeededRandom
  readonly #listeners = new Map<string, Listener>()
  readonly #connections = new Set<Connection>()
  /** The sockets that are not closed. */
  readonly #sockets = new Set<WorldSocket>()
  readonly #partitions: Partition[] = []
  readonly #breaking: { readonly node: string; readonly direction: 'to' | 'from'; readonly bytes: number }[] =
    []
  readonly #kernel: WorldNode
  #slow: { readonly maxMs: number; readonly until: number } | undefined
  #ports = 40_000
  #arrivesBy = 0

  constructor(scheduler: Scheduler, random: SeededRandom) {
    this.#scheduler = scheduler
    this.#random = random
    this.#kernel = scheduler.node('kernel')
  }

  /** Sends connections of code in the world through this network. */
  replace(replaced: Replaced): void {
    const inside = () => this.#scheduler.current !== undefined
    for (const name of ['connect', 'createConnection'])
      replaced.method(net, name, inside, (_, args) => this.#connectFrom(args))
    replaced.method(Agent.prototype, 'createConnection', inside, (_, args) => this.#connectFrom(args))
  }

  listen(listener: Listener): void {
    this.#listeners.set(listener.node.name, listener)
  }

  /** Returns a socket that connects a node with a server, by its name. */
  connect(from: WorldNode, to: string): WorldSocket {
    const client = this.#socket(from, { port: 80, allowHalfOpen: false })
    client.connecting = true
    const server = to === balancer ? this.#balanced() : to
    // Kernels connect, also for processes that stand still.
    this.#scheduler.schedule(
      this.#kernel,
      this.latency(from, this.#listeners.get(server)?.node ?? this.#kernel),
      () => {
        const listener = this.#listeners.get(server)
        if (listener === undefined) this.#refuse(client)
        else this.#open(client, listener)
      },
    )
    return client
  }

  latency(from: WorldNode, to: WorldNode): number {
    const now = this.#scheduler.now
    const slowest =
      this.#slow !== undefined && this.#slow.until > now ? this.#slow.maxMs : networkDefaults.maxMs
    // Mostly short, now and then long.
    const share = this.#random.next()
    const ms = networkDefaults.minMs + share * share * (slowest - networkDefaults.minMs)
    const passes = Math.max(ms, this.#passableAt(from.name, to.name) - now + ms)
    this.#arrivesBy = Math.max(this.#arrivesBy, now + passes)
    return passes
  }

  /** When everything that is under way has arrived. */
  get arrivesBy(): number {
    return this.#arrivesBy
  }

  slowDown(maxMs: number, forMs: number): void {
    this.#slow = { maxMs, until: this.#scheduler.now + forMs }
  }

  part(one: string, other: string | undefined, forMs: number): void {
    this.#partitions.push({ one, other, until: this.#scheduler.now + forMs })
  }

  breakAfter(node: string, direction: 'to' | 'from', bytes: number): void {
    for (const connection of this.#connections)
      if (isOf(connection, node)) {
        this.#breakConnectionAfter(connection, node, direction, bytes)
        return
      }
    this.#breaking.push({ node, direction, bytes })
  }

  /** Breaks the connections of a node, or those between two. */
  cut(node: string, other?: string): void {
    for (const connection of [...this.#connections])
      if (isOf(connection, node) && (other === undefined || isOf(connection, other))) this.#break(connection)
  }

  /** Returns the number of open sockets of a node. */
  socketsOf(node: WorldNode): number {
    let sockets = 0
    for (const socket of this.#sockets) if (socket.node === node) sockets++
    return sockets
  }

  /** Frees what Node's HTTP keeps for sockets whose processes never hear of their end. Nothing may happen afterwards. */
  close(): void {
    for (const socket of this.#sockets) socket.release()
    this.#sockets.clear()
  }

  /** A process ended: its kernel closes its connections after what it has sent. */
  end(node: WorldNode): void {
    if (this.#listeners.get(node.name)?.node === node) this.#listeners.delete(node.name)
    for (const connection of [...this.#connections]) {
      const { client, server, toServer, toClient } = connection
      if (client.node === node) toServer.break()
      else if (server.node === node) toClient.break()
      else continue
      this.#connections.delete(connection)
    }
  }

  heal(): void {
    this.#partitions.length = 0
    this.#breaking.length = 0
    this.#slow = undefined
    for (const { toServer, toClient } of this.#connections)
      for (const pipe of [toServer, toClient]) pipe.breaksAfter = undefined
  }

  /** Also one that has ended since the balancer looked. */
  #balanced(): string {
    const names = [...this.#listeners.keys()].sort()
    return names.length === 0 ? balancer : this.#random.pick(names)
  }

  #passableAt(from: string, to: string): number {
    let at = 0
    for (const { one, other, until } of this.#partitions) {
      const concerns = other === undefined ? one === from || one === to : pairs(one, other, from, to)
      if (concerns) at = Math.max(at, until)
    }
    return at
  }

  #connectFrom(args: readonly unknown[]): WorldSocket {
    const from = this.#scheduler.current
    const [options, second] = args
    const host = typeof options === 'object' && options !== null ? Reflect.get(options, 'host') : second
    if (from === undefined || typeof host !== 'string' || !host.endsWith(domain))
      return this.#refuseHost(String(host))
    return this.connect(from, host.slice(0, -domain.length))
  }

  #refuseHost(host: string): never {
    const error = new GuardError(
      `${this.#scheduler.current?.name} connects to ${host}, which is not in the world`,
    )
    this.#scheduler.fail(error)
    throw error
  }

  #refuse(client: WorldSocket): void {
    const error = Object.assign(new Error('connect ECONNREFUSED'), {
      code: 'ECONNREFUSED',
      syscall: 'connect',
    })
    this.#scheduler.schedule(client.node, this.latency(this.#kernel, client.node), () =>
      client.destroy(error),
    )
  }

  #socket(node: WorldNode, options: { port: number; allowHalfOpen: boolean }): WorldSocket {
    const socket = new WorldSocket(node, options)
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    return socket
  }

  #open(client: WorldSocket, listener: Listener): void {
    const server = this.#socket(listener.node, { port: ++this.#ports, allowHalfOpen: true })
    const parts = { scheduler: this.#scheduler, random: this.#random, route: this }
    const toServer = new Pipe({ ...parts, from: client.node, to: server })
    const toClient = new Pipe({ ...parts, from: listener.node, to: client })
    const connection = { client, server, toServer, toClient }
    this.#connections.add(connection)
    for (const pipe of [toServer, toClient]) pipe.onBroken = () => this.#break(connection)
    toServer.onInVain = () => toClient.break()
    toClient.onInVain = () => toServer.break()
    let open = 2
    const closed = () => {
      if (--open === 0) this.#connections.delete(connection)
    }
    client.once('close', closed)
    server.once('close', closed)
    this.#breakIfAsked(connection)
    this.#scheduler.schedule(client.node, this.latency(listener.node, client.node), () => {
      if (!client.destroyed) client.connect({ out: toServer, in: toClient })
      else toServer.finish()
    })
    this.#scheduler.schedule(listener.node, 0, () => {
      if (server.destroyed) return
      server.connect({ out: toClient, in: toServer })
      listener.accept(server)
    })
  }

  #breakIfAsked(connection: Connection): void {
    const at = this.#breaking.findIndex(({ node }) => isOf(connection, node))
    const [asked] = at < 0 ? [] : this.#breaking.splice(at, 1)
    if (asked !== undefined) this.#breakConnectionAfter(connection, asked.node, asked.direction, asked.bytes)
  }

  #breakConnectionAfter(connection: Connection, node: string, direction: 'to' | 'from', bytes: number): void {
    const isClient = connection.client.node.name === node
    const pipe = isClient === (direction === 'to') ? connection.toClient : connection.toServer
    pipe.breaksAfter = bytes
  }

  #break(connection: Connection): void {
    this.#connections.delete(connection)
    connection.toServer.break()
    connection.toClient.break()
  }
}

function isOf({ client, server }: Connection, node: string): boolean {
  return client.node.name === node || server.node.name === node
}

function pairs(one: string, other: string, from: string, to: string): boolean {
  return (one === from && other === to) || (one === to && other === from)
}
