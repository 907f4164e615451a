import type { IncomingMessage } from 'node:http'
import type { Origins } from '../../security/index.ts'
import { checkHeaders } from '../header-bounds.ts'
import type { Middleware } from '../request-state.ts'

/** The same for every path: what a caller may do is decided when its request arrives. */
const preflightHeaders = Object.freeze({
  'access-control-allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
  // The wildcard does not include `Authorization`. It is valid because credentials are never cookies.
  'access-control-allow-headers': 'Authorization, *',
  // Seconds. Origins are checked again with each request, so a stale preflight allows nothing.
  'access-control-max-age': '600',
})

/** Headers that pages of other origins may read, besides those that browsers always show. */
const exposedHeaders = 'Location, Warning, Retry-After, ETag'

/**
 * Rejects requests from pages that may not call, and responds to CORS preflights, which have no credentials. Other
 * responses to pages get the headers that let them read it, errors included.
 */
export function crossOrigin(origins: Origins): Middleware {
  return (ctx, next) => {
    const { req } = ctx
    const { headers } = req
    checkHeaders(headers)
    origins.check(headers)
    const { origin } = headers
    if (origin === undefined) return next()
    ctx.vary('Origin')
    ctx.set('access-control-allow-origin', origin)
    if (!isPreflight(req)) {
      ctx.set('access-control-expose-headers', exposedHeaders)
      return next()
    }
    ctx.set(preflightHeaders)
    if (headers['access-control-request-private-network'] === 'true')
      ctx.set('access-control-allow-private-network', 'true')
    ctx.status = 204
    return Promise.resolve()
  }
}

function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}
