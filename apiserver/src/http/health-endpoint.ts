import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Router } from '@koa/router'
import type { HealthCheck } from '@setpoint/controller-runtime/internal'
import Koa from 'koa'
import type { Registry } from 'prom-client'
import { connectionDefaults } from './connection.ts'
import {
  type HealthAnswer,
  type HealthForm,
  healthAnswer,
  leadershipNotes,
  type ManagerState,
} from './health.ts'
import { addHealthRoutes } from './health-routes.ts'
import type { RequestState } from './request-state.ts'

/** Bytes of a request's line and headers together: probes and scrapers send a few hundred. */
const serverOptions = Object.freeze({ maxHeaderSize: 16 * 1024 })

/** The health of a process without an API. */
export class ControllersHealth {
  readonly #manager: () => ManagerState | undefined
  #draining = false

  /** @param manager returns undefined while plugins load: the process is alive but not ready */
  constructor(manager: () => ManagerState | undefined) {
    this.#manager = manager
  }

  /** Makes the process unready. */
  drain(): void {
    this.#draining = true
  }

  liveChecks(): readonly HealthCheck[] {
    return [{ name: 'ping' }, ...(this.#manager()?.health().liveness ?? [])]
  }

  readyChecks(): readonly HealthCheck[] {
    const manager = this.#manager()
    return [
      { name: 'ping' },
      { name: 'shutdown', problem: this.#draining ? 'the process is shutting down' : undefined },
      { name: 'startup', problem: manager === undefined ? 'plugins are still loading' : undefined },
      ...(manager?.health().readiness ?? []),
    ]
  }

  live(form: HealthForm): HealthAnswer {
    return healthAnswer('livez', this.liveChecks(), form)
  }

  ready(form: HealthForm): HealthAnswer {
    return healthAnswer('readyz', this.readyChecks(), form, leadershipNotes(this.#manager()))
  }
}

/**
 * `/livez`, `/healthz`, `/readyz` and `/metrics` of a process without an API. Callers need no credentials: responses
 * contain names of kinds and controllers and counts, but no objects.
 */
export class HealthEndpoint {
  readonly #server: Server

  constructor({ health, registry }: { readonly health: ControllersHealth; readonly registry: Registry }) {
    const router = new Router<RequestState>({ sensitive: true })
    addHealthRoutes(router, {
      health,
      metrics: { contentType: registry.contentType, text: () => registry.metrics() },
    })
    const koa = new Koa<RequestState>()
    koa.silent = true
    koa.use((ctx, next) => {
      ctx.state.mayReadDetails = true
      return next()
    })
    koa.use(router.routes()).use(router.allowedMethods())
    this.#server = createServer(serverOptions, koa.callback())
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

  close(): Promise<void> {
    return new Promise(resolve => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }
}
