import { setMaxListeners } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { Router } from '@koa/router'
import { ApiError, isReservedGroup, type Model } from '@setpoint/controller-runtime/api'
import type { HostedPlugin, Route, RouteGroup, RouteMethod } from '@setpoint/controller-runtime/internal'
import type { Next } from 'koa'
import type { ModelRegistry } from '../model/index.ts'
import { decodeDocument } from '../model/index.ts'
import { headerOf } from './api-request.ts'
import { MethodNotAllowedError, pluginError } from './error-response.ts'
import { parseMediaType } from './media-type.ts'
import { readBodyInTurn } from './request-seat.ts'
import type { Context, RequestState } from './request-state.ts'
import { readTarget } from './request-target.ts'
import type { RouteCallers } from './route-callers.ts'
import { matchesGenerated, overlap, shapeOf, shapesOf } from './route-patterns.ts'
import { RouteRequests } from './route-requests.ts'
import { respond } from './route-response.ts'

/** A plugin's route that clashes with another route or with the path of a kind. */
export class RouteConflictError extends Error {
  override readonly name = 'RouteConflictError'
}

/** The `Retry-After` of the routes of a plugin that is stopping, is disabled or has failed. */
const retryAfterSeconds = 5

interface Mounted {
  readonly hosted: HostedPlugin
  readonly plugin: string
  readonly group: RouteGroup
  /** `/apis/<group>/<version>/` */
  readonly prefix: string
  readonly route: ReturnType<Router<RequestState>['routes']>
}

/** What the API documents say about one route of a plugin. */
export interface RouteDescription {
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
      this.#checkGroup(plugin, group)
      for (const other of [...this.#mounted, ...mounted]) checkShadowing(plugin, group, other)
      checkRepetition(plugin, group)
      const prefix = `/apis/${group.groupVersion}/`
      mounted.push({
        hosted,
        plugin,
        group,
        prefix,
        route: makeRouter(hosted, group, this.#callers, requests).routes(),
      })
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

  #checkGroup(plugin: string, { groupVersion, routes }: RouteGroup): void {
    const [group = '', version] = groupVersion.split('/')
    if (isReservedGroup(group, this.#reservedDomain)) {
      throw new RouteConflictError(
        `plugin ${JSON.stringify(plugin)}: the group of its routes, ${JSON.stringify(group)}, is reserved for the service; use a sub-domain of your own`,
      )
    }
    const root = routes.find(({ pattern }) => shapesOf(pattern).some(shape => shape.length === 0))
    if (root !== undefined) {
      throw new RouteConflictError(
        `plugin ${JSON.stringify(plugin)}: its route ${root.method} ${root.pattern} in ${groupVersion} would serve /apis/${groupVersion}/, which is a path of discovery that every authenticated caller may get; give it a segment, such as /summary`,
      )
    }
    const reserved = routes.find(({ pattern }) => shapeOf(pattern)[0] === 'namespaces')
    if (reserved !== undefined) {
      throw new RouteConflictError(
        `plugin ${JSON.stringify(plugin)}: its route ${reserved.method} ${reserved.pattern} in ${groupVersion} begins with namespaces, which is reserved for namespaced kinds`,
      )
    }
    for (const { model, versions, plugin: owner } of this.#models.all()) {
      if (!versions.some(each => each.group === group && each.name === version)) continue
      const route = routes.find(({ pattern }) => matchesGenerated(pattern, model))
      if (route !== undefined) {
        throw new RouteConflictError(
          `plugin ${JSON.stringify(plugin)}: its route ${route.method} ${route.pattern} in ${groupVersion} would shadow the generated paths of ${model.kind} (${owner === undefined ? 'the server' : `plugin ${JSON.stringify(owner)}`})`,
        )
      }
    }
  }
}

function checkShadowing(plugin: string, group: RouteGroup, other: Mounted): void {
  if (other.group.groupVersion !== group.groupVersion) return
  for (const route of group.routes) {
    const clash = other.group.routes.find(
      theirs => theirs.method === route.method && overlap(theirs.pattern, route.pattern),
    )
    if (clash === undefined) continue
    throw new RouteConflictError(
      `plugin ${JSON.stringify(plugin)}: its route ${route.method} ${route.pattern} in ${group.groupVersion} would clash with ${clash.pattern} of plugin ${JSON.stringify(other.plugin)}`,
    )
  }
}

function checkRepetition(plugin: string, { groupVersion, routes }: RouteGroup): void {
  const seen = new Set<string>()
  for (const { method, pattern } of routes) {
    for (const shape of shapesOf(pattern)) {
      const id = `${method} ${shape.join('/')}`
      if (seen.has(id))
        throw new RouteConflictError(
          `plugin ${JSON.stringify(plugin)}: the route ${method} ${pattern} in ${groupVersion} is declared twice`,
        )
      seen.add(id)
    }
  }
}

function makeRouter(
  hosted: HostedPlugin,
  group: RouteGroup,
  callers: RouteCallers,
  requests: RouteRequests,
): Router<RequestState> {
  const router = new Router<RequestState>({ sensitive: true })
  // One listener for each request in flight.
  setMaxListeners(0, hosted.signal)
  for (const { method, pattern, handler } of group.routes) {
    const route = `${method} /apis/${group.groupVersion}${pattern}`
    register(router, hosted, group, { method, pattern }, async ctx => {
      const over = new AbortController()
      const stop = () => over.abort(hosted.signal.reason)
      if (hosted.signal.aborted) stop()
      // AbortSignal.any would leak memory in the plugin's signal with every request.
      hosted.signal.addEventListener('abort', stop, { once: true })
      const { caller, audit } = ctx.state
      requests.begin()
      ctx.res.on('close', () => {
        requests.end()
        hosted.signal.removeEventListener('abort', stop)
        over.abort()
        // The client has left, and the handler may never return.
        if (!ctx.res.writableEnded) audit?.completed({ code: undefined })
      })
      const body = await readBody(ctx)
      audit?.onDocument?.(body)
      const request = {
        method: ctx.method,
        path: readTarget(ctx.req).path,
        params: ctx.params,
        query: new URLSearchParams(ctx.querystring),
        headers: headersForHandler(ctx.headers),
        body,
        user: callers.enter(caller.user, ctx.res),
        client: hosted.client,
        log: hosted.log,
        signal: over.signal,
      }
      try {
        respond(ctx, await handler(request))
      } catch (error) {
        // Thrown on purpose by the handler or by its client.
        if (error instanceof ApiError) throw error
        const { name } = hosted.plugin
        if (over.signal.aborted) hosted.log.debug({ route, err: error }, 'route aborted')
        else hosted.log.error({ route, err: error ?? String(error) }, 'route failed')
        if (hosted.signal.aborted)
          throw new ApiError('ServiceUnavailable', `plugin ${name} is stopping`, { retryAfterSeconds })
        throw pluginError(name)
      }
    })
  }
  return router
}

/** @throws RouteConflictError for a malformed pattern */
function register(
  router: Router<RequestState>,
  hosted: HostedPlugin,
  { groupVersion }: RouteGroup,
  { method, pattern }: Pick<Route, 'method' | 'pattern'>,
  handle: (ctx: Context) => Promise<void>,
): void {
  try {
    router.register(pattern, [method], handle)
  } catch (error) {
    const problem = error instanceof Error ? error.message.replace(/; visit .*/, '') : String(error)
    throw new RouteConflictError(
      `plugin ${JSON.stringify(hosted.plugin.name)}: its route ${method} ${pattern} in ${groupVersion} has no valid pattern: ${problem}; write a parameter as :name, and the rest of the path as *name`,
      { cause: error },
    )
  }
}

/** Decodes a JSON or YAML body, and returns other text and bytes unchanged. Returns undefined for an empty body. */
async function readBody(ctx: Context): Promise<unknown> {
  const bytes = await readBodyInTurn(ctx)
  if (bytes.length === 0) return undefined
  const type = parseMediaType(headerOf(ctx.headers, 'content-type') ?? 'application/json')?.type ?? ''
  if (type === 'application/yaml') return decodeDocument(bytes, 'yaml')
  if (type === 'application/json' || type.endsWith('+json')) return decodeDocument(bytes, 'json')
  return type.startsWith('text/') ? bytes.toString() : bytes
}

/** Headers with a caller's credentials. They would let a plugin impersonate its callers. */
const credentialHeaders: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'cookie',
  'sec-websocket-protocol',
])

function headersForHandler(headers: IncomingHttpHeaders): Record<string, string | undefined> {
  const names = Object.keys(headers).filter(name => !credentialHeaders.has(name))
  return Object.fromEntries(names.map(name => [name, headerOf(headers, name)]))
}
