import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Registry } from 'prom-client'
import { connectionDefaults } from './connection.ts'
import { type HealthAnswer, healthAnswer, leadershipNotes, type ManagerState } from './health.ts'

/** Bytes of a request's line and headers together: probes and scrapers send a few hundred. */
const serverOptions = Object.freeze({ maxHeaderSize: 16 * 1024 })

export interface HealthEndpointParts {
  /** Called for every request. Returns undefined while plugins load: the process is alive but not ready. */
  readonly manager: () => ManagerState | undefined
  readonly registry: Registry
}

/**
 * `/livez`, `/healthz`, `/readyz` and `/metrics` of a process without an API. Callers need no credentials: responses
 * contain names of kinds and controllers and counts, but no objects.
 */
export class HealthEndpoint {
  readonly #parts: HealthEndpointParts
  readonly #server: Server
  #draining = false

  constructor(parts: HealthEndpointParts) {
    this.#parts = parts
    this.#server = createServer(serverOptions, (request, response) => {
      const send = (status: number, type: string, text: string) => {
        response.writeHead(status, { 'content-type': type })
        response.end(text)
      }
      // `new URL` throws for targets that scanners send, such as `//`.
      const [pathname, query] = (request.url ?? '/').split('?', 2)
      const probe = ({ status, text }: HealthAnswer) => send(status, 'text/plain; charset=utf-8', text)
      const verbose = new URLSearchParams(query).has('verbose')
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.setHeader('allow', 'GET, HEAD')
        send(405, 'text/plain; charset=utf-8', 'only GET and HEAD are allowed here\n')
      } else if (pathname === '/livez' || pathname === '/healthz') probe(this.#live(verbose))
      else if (pathname === '/readyz') probe(this.#ready(verbose))
      else if (pathname === '/metrics') {
        this.#parts.registry.metrics().then(
          text => send(200, this.#parts.registry.contentType, text),
          () => send(500, 'text/plain; charset=utf-8', 'failed to collect metrics\n'),
        )
      } else send(404, 'text/plain; charset=utf-8', 'not found; try /livez, /readyz, /healthz or /metrics\n')
    })
    // By default, Node waits forever for a client that does not read.
    this.#server.timeout = connectionDefaults.responseStallMs
  }

  /** Resolves with `http://host:port` with the actual port. @throws the error of `listen` */
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

  /** Makes the process unready. */
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
    return healthAnswer('livez', [{ name: 'ping' }, ...election], { verbose, detailed: true })
  }

  #ready(verbose: boolean): HealthAnswer {
    const manager = this.#parts.manager()
    const checks = [
      { name: 'ping' },
      { name: 'shutdown', problem: this.#draining ? 'the process is shutting down' : undefined },
      { name: 'startup', problem: manager === undefined ? 'plugins are still loading' : undefined },
      ...(manager?.health().readiness ?? []),
    ]
    return healthAnswer('readyz', checks, { verbose, detailed: true }, leadershipNotes(manager))
  }
}
