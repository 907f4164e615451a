import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import { connectionDefaults } from './connections.ts'
import { type HealthAnswer, healthAnswer, leadershipNotes, type ManagerState } from './health.ts'

export interface HealthEndpointParts {
  /** Asked anew by every request. Undefined as long as there is none: the process lives and is not ready. */
  readonly manager: () => ManagerState | undefined
  readonly registry: Registry
}

/**
 * `/livez`, `/healthz`, `/readyz` and `/metrics` of a process that serves no API, for probes and scrapers. Whoever
 * reaches it may ask: it tells names of kinds and controllers and numbers of them, and no object.
 */
export class HealthEndpoint {
  readonly #parts: HealthEndpointParts
  readonly #server: Server
  #draining = false

  constructor(parts: HealthEndpointParts) {
    this.#parts = parts
    this.#server = createServer((request, response) => {
      const send = (status: number, type: string, text: string) => {
        response.writeHead(status, { 'content-type': type })
        response.end(text)
      }
      // Not by URL, which throws for what some scanner may send, such as `//`.
      const [pathname, query] = (request.url ?? '/').split('?', 2)
      const probe = ({ status, text }: HealthAnswer) => send(status, 'text/plain; charset=utf-8', text)
      const verbose = new URLSearchParams(query).has('verbose')
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD')
        send(405, 'text/plain; charset=utf-8', 'only GET and HEAD are answered here\n')
      } else if (pathname === '/livez' || pathname === '/healthz') probe(this.#live(verbose))
      else if (pathname === '/readyz') probe(this.#ready(verbose))
      else if (pathname === '/metrics') {
        this.#parts.registry.metrics().then(
          text => send(200, this.#parts.registry.contentType, text),
          () => send(500, 'text/plain; charset=utf-8', 'the metrics cannot be told\n'),
        )
      } else send(404, 'text/plain; charset=utf-8', 'here are /livez, /readyz, /healthz and /metrics\n')
    })
    // Node's default is to wait for ever for a client that does not read.
    this.#server.timeout = connectionDefaults.answerStallMs
  }

  /** Resolves with `http://host:port`, with the real port. @throws the error of `listen` */
  listen({ host, port }: { readonly host: string; readonly port: number }): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject)
        const { address, port: real, family } = this.#server.address() as AddressInfo
        resolve(`http://${family === 'IPv6' ? `[${address}]` : address}:${real}`)
      })
    })
  }

  /** Not ready from now on. */
  drain(): void {
    this.#draining = true
  }

  close(): Promise<void> {
    return new Promise(resolve => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  #live(verbose: boolean): HealthAnswer {
    const election = this.#parts.manager()?.health().liveness ?? []
    return healthAnswer('livez', [{ name: 'ping' }, ...election], verbose)
  }

  #ready(verbose: boolean): HealthAnswer {
    const manager = this.#parts.manager()
    const checks = [
      { name: 'ping' },
      { name: 'shutdown', ...(this.#draining && { problem: 'the process is shutting down' }) },
      { name: 'startup', ...(manager === undefined && { problem: 'the plugins are being loaded' }) },
      ...(manager?.health().readiness ?? []),
    ]
    return healthAnswer('readyz', checks, verbose, leadershipNotes(manager))
  }
}
