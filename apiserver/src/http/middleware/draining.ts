import type { Connections } from '../connections.ts'
import type { Middleware } from '../request-state.ts'

/** Drops requests that arrive behind the announced end of their connection (RFC 9112, 9.6). */
export function draining(connections: Connections): Middleware {
  return (ctx, next) => {
    if (connections.begin(ctx.req, ctx.res)) return next()
    ctx.respond = false
    return Promise.resolve()
  }
}
