import { Agent, request as httpRequest } from 'node:http'
import { type ClientWatch, SocketWatch, StreamWatch } from './client-watch.ts'
import { domain } from './network.ts'
import type { WorldNode } from './node.ts'
import { parse, readBody } from './read-body.ts'
import type { Scheduler } from './scheduler.ts'
import { SharedSocket } from './shared-socket.ts'
import { ConnectionLost, type WatchTransport, type WorldRequest, type WorldResponse } from './world.ts'

/** A client of the servers: kept-alive connections and watches of its own. All calls happen in its node. */
export class WorldClient {
  readonly node: WorldNode
  /** It leaves idle connections before a server does after 75 s, which could close one just as a request is sent on it. */
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 8, timeout: 60_000 })
  /** Sockets with many watches, by server and credentials. */
  readonly #shared = new Map<string, SharedSocket>()

  readonly #scheduler: Scheduler

  constructor(scheduler: Scheduler, name: string) {
    this.#scheduler = scheduler
    this.node = scheduler.node(name)
  }

  request(server: string, request: WorldRequest): Promise<WorldResponse> {
    return new Promise((resolve, reject) => {
      this.#later(() => this.#send(server, request).then(resolve, reject))
    })
  }

  watch(
    server: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    over: WatchTransport = 'socket',
  ): ClientWatch {
    const target = { host: `${server}${domain}`, path, headers }
    if (over === 'socket') return new SocketWatch(target, this.#later)
    if (over === 'lines' || over === 'events') return new StreamWatch(target, over, this.#later)
    const key = `${server} ${headers.authorization ?? ''}`
    const known = this.#shared.get(key)
    const socket = known === undefined || known.isClosed ? new SharedSocket(target, this.#later) : known
    this.#shared.set(key, socket)
    return socket.subscribe(path)
  }

  /** What its caller awaits may run elsewhere, but the client acts in its node. */
  readonly #later = (run: () => void): void => {
    this.#scheduler.schedule(this.node, 0, run)
  }

  #send(server: string, { method, path, headers = {}, body }: WorldRequest): Promise<WorldResponse> {
    const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body)
    return new Promise((resolve, reject) => {
      const lost = (error: Error) => reject(new ConnectionLost(`${method} ${path}: ${error.message}`))
      const outgoing = httpRequest({
        host: `${server}${domain}`,
        method,
        path,
        agent: this.#agent,
        headers: {
          ...(text !== undefined && {
            'content-type': 'application/json',
            'content-length': String(Buffer.byteLength(text)),
          }),
          ...headers,
        },
      })
      outgoing.on('error', lost)
      outgoing.on('response', incoming => {
        readBody(incoming).then(read => {
          const { statusCode = 0, headers: received } = incoming
          resolve({ status: statusCode, headers: received, body: parse(read) })
        }, lost)
      })
      outgoing.end(text)
    })
  }
}
