import { setMaxListeners } from 'node:events'
import { type IncomingHttpHeaders, validateHeaderName, validateHeaderValue } from 'node:http'
import { Router } from '@koa/router'
import type { RouteResponse } from '@setpoint/controller-runtime'
import {
  ApiError,
  isRecord,
  isReservedGroup,
  type Model,
  unknownKeys,
} from '@setpoint/controller-runtime/api'
import {
  type HostedPlugin,
  type Route,
  type RouteGroup,
  type RouteMethod,
  routeResponseKeys,
} from '@setpoint/controller-runtime/internal'
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
        route: makeRouter(hosted, group, this.#callers).routes(),
      })
    }
    this.#changes++
    this.#mounted.push(...mounted)
  }

  remove(hosted: HostedPlugin): void {
    this.#changes++
    for (let at = this.#mounted.length - 1; at >= 0; at--) {
      if (this.#mounted[at]?.hosted === hosted) this.#mounted.splice(at, 1)
    }
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

/** The segments of a pattern, with `*` for every parameter. */
function shapeOf(pattern: string): string[] {
  return segmentsOf(pattern).map(part => (/[:*{(]/.test(part) ? '*' : part))
}

function segmentsOf(pattern: string): string[] {
  return pattern.split('/').filter(part => part !== '')
}

/** Returns true if a pattern can match a generated path of a kind, in a namespace or not. */
function matchesGenerated(pattern: string, { plural, scope }: Model): boolean {
  const shape = shapeOf(pattern)
  // A pattern with a parameter in place of `namespaces`; no route begins with the word itself.
  const isInNamespace = scope === 'Namespaced' && shape[0] === '*' && matchesKind(shape.slice(2), plural)
  return isInNamespace || matchesKind(shape, plural)
}

/** Returns true if a shape can match `<plural>`, `<plural>/<name>` or `<plural>/<name>/status`. */
function matchesKind([first, , third, ...deeper]: readonly string[], plural: string): boolean {
  if (first === undefined) return false
  if (first !== plural && first !== '*') return false
  return deeper.length === 0 && (third === undefined || third === 'status' || third === '*')
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

function overlap(left: string, right: string): boolean {
  return pathsOf(left).some(a => pathsOf(right).some(b => fit(a, b)))
}

/** Returns true if a path matches both. A parameter such as `*rest` matches one or more segments, also in the middle. */
function fit([first, ...others]: readonly string[], [second, ...rest]: readonly string[]): boolean {
  if (first === undefined || second === undefined) return first === second
  const [isRest, isOtherRest] = [first.includes('*'), second.includes('*')]
  if (isRest && rest.length > 0 && fit([first, ...others], rest)) return true
  if (isOtherRest && others.length > 0 && fit(others, [second, ...rest])) return true
  return (isParameter(first) || isParameter(second) || first === second) && fit(others, rest)
}

function isParameter(part: string): boolean {
  return /[:*(]/.test(part)
}

function shapesOf(pattern: string): string[][] {
  return variantsOf(pattern).map(shapeOf)
}

function pathsOf(pattern: string): string[][] {
  return variantsOf(pattern).map(segmentsOf)
}

/** The pattern without and with its optional parts, `{/:name}`. */
function variantsOf(pattern: string): string[] {
  const [, before, optional, after] = /^(.*?)\{(.*?)\}(.*)$/.exec(pattern) ?? []
  if (before === undefined) return [pattern]
  return [...variantsOf(`${before}${after}`), ...variantsOf(`${before}${optional}${after}`)]
}

function makeRouter(hosted: HostedPlugin, group: RouteGroup, callers: RouteCallers): Router<RequestState> {
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
      ctx.res.on('close', () => {
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

/** Headers that say where a response ends. A wrong one would make the rest of the connection unreadable. */
const framingHeaders: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** @throws TypeError naming the mistake in what a handler returned */
function checkResponse(response: unknown): asserts response is RouteResponse | undefined | null {
  if (response === undefined || response === null) return
  const prototype: unknown = typeof response === 'object' ? Object.getPrototypeOf(response) : undefined
  if (typeof response !== 'object' || (prototype !== Object.prototype && prototype !== null)) {
    const what = typeof response === 'object' ? (response.constructor?.name ?? 'object') : typeof response
    throw new TypeError(`the handler must return { status?, headers?, body? } or nothing, not a ${what}`)
  }
  const problems = unknownKeys(response, routeResponseKeys, "the handler's result")
  if (problems.length > 0) {
    throw new TypeError(
      `the handler must return { status?, headers?, body? }, with the content in body: ${problems.slice(0, 3).join('; ')}`,
    )
  }
  const { status, headers = {} }: { status?: unknown; headers?: unknown } = response
  if (!isRecord(headers)) throw new TypeError('the headers must be an object of names and values')
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name)
    validateHeaderValue(name, String(value))
    if (framingHeaders.has(name.toLowerCase()))
      throw new TypeError(`the header ${name} must not be set: the server determines it from the body`)
  }
  const isStatus = Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599
  if (status !== undefined && !isStatus)
    throw new TypeError(`the status must be an integer from 200 to 599, is ${JSON.stringify(status)}`)
}

function respond(ctx: Context, response: unknown): void {
  checkResponse(response)
  const { status, headers = {}, body } = response ?? {}
  const content = contentOf(body)
  ctx.status = status ?? (body === undefined ? 204 : 200)
  if (content !== undefined) ctx.body = content.bytes
  if (content?.isJson) ctx.type = 'application/json'
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() === 'vary') ctx.vary(value)
    else ctx.set(name, value)
  }
  // Koa removes the framing of a response with this status, so only the end of the connection ends it.
  if (ctx.status === 205) ctx.set('connection', 'close')
}

/** @throws TypeError for a body that cannot be sent */
function contentOf(body: unknown): { bytes: string | Buffer; isJson: boolean } | undefined {
  if (body === undefined) return undefined
  if (typeof body === 'string') return { bytes: body, isJson: false }
  if (body instanceof Uint8Array) return { bytes: Buffer.from(body), isJson: false }
  const isStream = typeof body === 'object' && body !== null && Symbol.asyncIterator in body
  const json = isStream ? undefined : JSON.stringify(body)
  if (json === undefined)
    throw new TypeError('the body must be a string, bytes, or a value that JSON can express')
  return { bytes: json, isJson: true }
}
