import { setMaxListeners } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { Router } from '@koa/router'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { HostedPlugin, Route, RouteGroup } from '@setpoint/controller-runtime/internal'
import { decodeDocument } from '../model/index.ts'
import { headerOf } from './api-request.ts'
import { pluginError } from './error-response.ts'
import { parseMediaType } from './media-type.ts'
import { readBodyInTurn } from './request-seat.ts'
import type { Context, RequestState } from './request-state.ts'
import type { RouteCallers } from './route-callers.ts'
import { RouteConflictError, titleOf } from './route-conflicts.ts'
import type { RouteRequests } from './route-requests.ts'
import { respond } from './route-response.ts'

/** The `Retry-After` of the routes of a plugin that is stopping, is disabled or has failed. */
export const retryAfterSeconds = 5

/** What serves the routes of a plugin. */
interface RouteHost {
  readonly hosted: HostedPlugin
  readonly callers: RouteCallers
  readonly requests: RouteRequests
}

/** Returns a router for a group of routes. @throws RouteConflictError for a malformed pattern */
export function routerOf(host: RouteHost, { groupVersion, routes }: RouteGroup): Router<RequestState> {
  const { hosted } = host
  const router = new Router<RequestState>({ sensitive: true })
  // One listener for each request in flight.
  setMaxListeners(0, hosted.signal)
  for (const route of routes) {
    const { method, pattern } = route
    const title = `${method} /apis/${groupVersion}${pattern}`
    try {
      router.register(pattern, [method], (ctx: Context) => serve(ctx, route, title, host))
    } catch (error) {
      const problem = error instanceof Error ? error.message.replace(/; visit .*/, '') : String(error)
      throw new RouteConflictError(
        hosted.plugin.name,
        `its ${titleOf(route, groupVersion)} has no valid pattern: ${problem}; write a parameter as :name, and the rest of the path as *name`,
        { cause: error },
      )
    }
  }
  return router
}

/**
 * Calls the handler of a route. @throws ApiError as the handler or its client, 400, 413, 429; 500, 503 for any other
 * error
 */
async function serve(
  ctx: Context,
  { handler }: Route,
  title: string,
  { hosted, callers, requests }: RouteHost,
): Promise<void> {
  const over = new AbortController()
  const stop = () => over.abort(hosted.signal.reason)
  if (hosted.signal.aborted) stop()
  // AbortSignal.any would leak memory in the plugin's signal with every request.
  hosted.signal.addEventListener('abort', stop, { once: true })
  const { target, caller, audit } = ctx.state
  const user = callers.enter(caller.user)
  requests.begin()
  ctx.res.on('close', () => {
    requests.end()
    callers.leave(user)
    hosted.signal.removeEventListener('abort', stop)
    over.abort()
    // The client has left, and the handler may never return.
    if (!ctx.res.writableEnded) audit?.completed({ code: undefined })
  })
  const body = await readBody(ctx)
  audit?.onDocument?.(body)
  const request = {
    method: ctx.method,
    path: target.path,
    params: ctx.params,
    query: new URLSearchParams(target.query),
    headers: headersForHandler(ctx.headers),
    body,
    user,
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
    if (over.signal.aborted) hosted.log.debug({ route: title, err: error }, 'route aborted')
    else hosted.log.error({ route: title, err: error ?? String(error) }, 'route failed')
    if (hosted.signal.aborted)
      throw new ApiError('ServiceUnavailable', `plugin ${name} is stopping`, { retryAfterSeconds })
    throw pluginError(name, error)
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
