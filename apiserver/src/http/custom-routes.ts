import type { Router } from '@koa/router'
import { ApiError, type Model } from '@setpoint/controller-runtime/api'
import type { HostedPlugin, RouteMethod } from '@setpoint/controller-runtime/internal'
import type { Next } from 'koa'
import type { ModelRegistry } from '../model/index.ts'
import { MethodNotAllowedError } from './error-response.ts'
import type { Context, RequestState } from './request-state.ts'
import type { RouteCallers } from './route-callers.ts'
import { checkRoutes, type PluginRoutes } from './route-conflicts.ts'
import { retryAfterSeconds, routerOf } from './route-handler.ts'
import { matchesGenerated, shapeOf } from './route-patterns.ts'
import { RouteRequests } from './route-requests.ts'

interface Mounted extends PluginRoutes {
  readonly hosted: HostedPlugin
  /** `/apis/<group>/<version>/` */
  readonly prefix: string
  readonly route: ReturnType<Router<RequestState>['routes']>
}

/** What the API documents say about one route of a plugin. */
interface RouteDescription {
  readonly plugin: string
  /** `<group>/<version>` */
  readonly groupVersion: string
  readonly method: RouteMethod
  /** Below the group version, with parameters as `:name`. */
  readonly pattern: string
  readonly summary: string | undefined
}

/** The routes of plugins, below `/apis/<group>/<version>`. */
export class CustomRoutes {
  readonly #mounted: Mounted[] = []
  readonly #requests = new WeakMap<HostedPlugin, RouteRequests>()
  #changes = 0
  /** The group versions of plugins that are disabled or have failed, and the reason, by plugin. */
  readonly #closed = new Map<string, { readonly groupVersions: readonly string[]; readonly why: string }>()
  readonly #models: ModelRegistry
  readonly #reservedDomain: string
  readonly #callers: RouteCallers

  constructor(models: ModelRegistry, reservedDomain: string, callers: RouteCallers) {
    this.#models = models
    this.#reservedDomain = reservedDomain
    this.#callers = callers
  }

  /** Rises whenever routes come or go. */
  get changes(): number {
    return this.#changes
  }

  /** Mounts all routes of a plugin or none. @throws RouteConflictError naming both routes that clash */
  add(hosted: HostedPlugin): void {
    const plugin = hosted.plugin.name
    const requests = this.#requests.get(hosted) ?? new RouteRequests()
    this.#requests.set(hosted, requests)
    const mounted: Mounted[] = []
    for (const group of hosted.routes) {
      checkRoutes(
        { plugin, group },
        {
          models: this.#models,
          reservedDomain: this.#reservedDomain,
          others: [...this.#mounted, ...mounted],
        },
      )
      const router = routerOf({ hosted, callers: this.#callers, requests }, group)
      mounted.push({ hosted, plugin, group, prefix: `/apis/${group.groupVersion}/`, route: router.routes() })
    }
    this.#changes++
    this.#mounted.push(...mounted)
  }

  /** Takes no new requests for the routes of a plugin. Those in its handlers go on. */
  remove(hosted: HostedPlugin): void {
    this.#changes++
    for (let at = this.#mounted.length - 1; at >= 0; at--) {
      if (this.#mounted[at]?.hosted === hosted) this.#mounted.splice(at, 1)
    }
  }

  /** Resolves when no request is in a plugin's handlers, when it has stopped, and at the latest after `limitMs`. */
  async drained(hosted: HostedPlugin, limitMs: number): Promise<void> {
    await this.#requests.get(hosted)?.drained(limitMs, hosted.signal)
  }

  /** Responds with 503 and `why` below these group versions, where nothing else is served, until `open`. */
  close(plugin: string, groupVersions: readonly string[], why: string): void {
    this.#closed.set(plugin, { groupVersions, why })
  }

  open(plugin: string): void {
    this.#closed.delete(plugin)
  }

  /** Returns a description of every route. */
  describe(): RouteDescription[] {
    return this.#mounted.flatMap(({ plugin, group: { groupVersion, routes } }) =>
      routes.map(({ method, pattern, summary }) => ({ plugin, groupVersion, method, pattern, summary })),
    )
  }

  /** Returns a message that names the route which clashes with a path of this model, or undefined. */
  clashWith(groupVersion: string, model: Model): string | undefined {
    for (const { plugin, group } of this.#mounted) {
      if (group.groupVersion !== groupVersion) continue
      const route = group.routes.find(({ pattern }) => matchesGenerated(pattern, model))
      if (route !== undefined) {
        return `the generated paths of ${model.kind} in ${groupVersion} would shadow the route ${route.method} ${route.pattern} of plugin ${JSON.stringify(plugin)}`
      }
    }
    return undefined
  }

  /** Returns true if a plugin has a route that begins with `watch`, or with a parameter, in the group version of a path. */
  mayServeWatch(path: string): boolean {
    return this.#mounted.some(
      ({ prefix, group }) =>
        path.startsWith(prefix) &&
        group.routes.some(({ pattern }) => ['watch', '*'].includes(shapeOf(pattern)[0] ?? '')),
    )
  }

  /**
   * Runs the route that matches a request below /apis, or else `next`.
   * @throws MethodNotAllowedError; ApiError 503 for the routes of a plugin that is disabled or has failed
   */
  async handle(ctx: Context, otherwise: Next): Promise<void> {
    const { path = '' } = ctx.state
    const next = () => {
      this.#refuseClosed(path)
      return otherwise()
    }
    const mounted = this.#mounted.filter(({ prefix }) => path.startsWith(prefix))
    if (mounted.length === 0) return next()
    ctx.matched = []
    const run = async (at: number): Promise<void> => {
      const { prefix, route } = mounted[at] ?? {}
      if (prefix !== undefined && route !== undefined) {
        ctx.newRouterPath = path.slice(prefix.length - 1)
        await route(ctx, () => run(at + 1))
        return
      }
      const allowed = new Set(ctx.matched?.flatMap(({ methods }) => methods))
      if (allowed.size > 0) throw new MethodNotAllowedError(ctx.method, [...allowed])
      await next()
    }
    return run(0)
  }

  #refuseClosed(path: string): void {
    for (const { groupVersions, why } of this.#closed.values()) {
      if (groupVersions.some(each => path.startsWith(`/apis/${each}/`)))
        throw new ApiError('ServiceUnavailable', why, { retryAfterSeconds })
    }
  }
}
