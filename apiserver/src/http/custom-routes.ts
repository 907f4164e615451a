import type { Router } from '@koa/router'
import { type Action, ApiError, type Model } from '@setpoint/controller-runtime/api'
import type { HostedPlugin, RouteGroup, RouteMethod } from '@setpoint/controller-runtime/internal'
import type { Next } from 'koa'
import type { ModelRegistry } from '../model/index.ts'
import { MethodNotAllowedError } from './error-response.ts'
import { KindAction } from './kind-action.ts'
import { KindActions } from './kind-actions.ts'
import { PluginPages, type PluginPagesOptions } from './plugin-pages.ts'
import type { Context, RequestState } from './request-state.ts'
import type { RouteCallers } from './route-callers.ts'
import { checkRoutes, type PluginRoutes } from './route-conflicts.ts'
import { retryAfterSeconds, routerOf } from './route-handler.ts'
import { matchesGenerated, patternOfAction, shapeOf } from './route-patterns.ts'
import { RouteRequests } from './route-requests.ts'

interface Mounted extends PluginRoutes {
  readonly hosted: HostedPlugin
  readonly group: RouteGroup
  /** `/apis/<group>/<version>/` */
  readonly prefix: string
  readonly route: ReturnType<Router<RequestState>['routes']>
}

/** What the API documents say about one route of a plugin, or about an action in one version of its kind. */
interface RouteDescription {
  readonly plugin: string
  /** `<group>/<version>` */
  readonly groupVersion: string
  readonly method: RouteMethod
  /** Below the group version, with parameters as `:name`. */
  readonly pattern: string
  readonly summary: string | undefined
  readonly action?: Action
}

/** The routes of plugins, below `/apis/<group>/<version>`, the actions of their kinds, and their pages. */
export class CustomRoutes {
  /** Served by `ResourceApi`. */
  readonly actions = new KindActions()
  /** Served by the middleware `pages`. */
  readonly pages: PluginPages
  readonly #mounted: Mounted[] = []
  readonly #requests = new WeakMap<HostedPlugin, RouteRequests>()
  #changes = 0
  /** The group versions of plugins that are disabled or have failed, and the reason, by plugin. */
  readonly #closed = new Map<string, { readonly groupVersions: readonly string[]; readonly why: string }>()
  readonly #models: ModelRegistry
  readonly #reservedDomain: string
  readonly #callers: RouteCallers

  constructor(
    models: ModelRegistry,
    reservedDomain: string,
    callers: RouteCallers,
    pages: PluginPagesOptions = { basePath: '', issuerOrigins: [] },
  ) {
    this.pages = new PluginPages(pages)
    this.#models = models
    this.#reservedDomain = reservedDomain
    this.#callers = callers
  }

  /** Rises whenever routes come or go. */
  get changes(): number {
    return this.#changes
  }

  /** Mounts all routes, actions and pages of a plugin or none. @throws RouteConflictError naming both that clash */
  add(hosted: HostedPlugin): void {
    const plugin = hosted.plugin.name
    const requests = this.#requests.get(hosted) ?? new RouteRequests()
    this.#requests.set(hosted, requests)
    const callers = this.#callers
    const actions = hosted.actions.map(declared => new KindAction({ hosted, declared, callers, requests }))
    const known: PluginRoutes[] = [...this.#mounted, ...this.actions.all().flatMap(routesOfAction)]
    const check = (own: PluginRoutes) => {
      checkRoutes(own, { models: this.#models, reservedDomain: this.#reservedDomain, others: known })
      known.push(own)
    }
    for (const own of actions.flatMap(routesOfAction)) check(own)
    const mounted = hosted.routes.map(group => {
      check({ plugin, group })
      const route = routerOf({ hosted, callers, requests }, group).routes()
      return { hosted, plugin, group, prefix: `/apis/${group.groupVersion}/`, route }
    })
    this.pages.add(hosted)
    this.#changes++
    this.#mounted.push(...mounted)
    this.actions.add(actions)
  }

  /** Takes no new requests for the routes and actions of a plugin. Those in its handlers go on. */
  remove(hosted: HostedPlugin): void {
    this.#changes++
    this.actions.remove(hosted)
    this.pages.remove(hosted)
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

  /** Returns a description of every route, and of every action in each version of its kind. */
  describe(): RouteDescription[] {
    const routes = this.#mounted.flatMap(({ plugin, group: { groupVersion, routes } }) =>
      routes.map(({ method, pattern, summary }) => ({ plugin, groupVersion, method, pattern, summary })),
    )
    const actions = this.actions.all().flatMap(({ hosted, action }) =>
      versionsOf(action).map(groupVersion => ({
        plugin: hosted.plugin.name,
        groupVersion,
        method: 'POST' as const,
        pattern: patternOfAction(action),
        summary: action.summary,
        action,
      })),
    )
    return [...routes, ...actions]
  }

  /** Returns the path of the module that adds to the console for a kind, below the base path. */
  consoleModuleOf(group: string, plural: string): string | undefined {
    return this.pages.consoleModuleOf(group, plural)
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

  /**
   * Returns true if a plugin has a route that begins with `watch`, or with a parameter, in the group version of a path.
   */
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

/** Returns the path of an action in each version of its kind. */
function routesOfAction({ hosted, action, title }: KindAction): PluginRoutes[] {
  const route = { method: 'POST', pattern: patternOfAction(action), action: title } as const
  return versionsOf(action).map(groupVersion => ({
    plugin: hosted.plugin.name,
    group: { groupVersion, routes: [route] },
  }))
}

function versionsOf({ model }: Action): string[] {
  return [model, ...model.versions].map(({ apiVersion }) => apiVersion)
}
