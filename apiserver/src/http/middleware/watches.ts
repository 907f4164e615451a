import { headerOf } from '../api-request.ts'
import type { Connections } from '../connections.ts'
import type { Middleware } from '../request-state.ts'
import type { WatchApi } from '../watch-api.ts'

/** Serves watches over plain HTTP. Errors before the first event are ordinary responses. */
export function watches(api: WatchApi, connections: Connections): Middleware {
  return async (ctx, next) => {
    const { info, identity, streamForm, view, audit } = ctx.state
    if (info.served === undefined) return next()
    if (audit !== undefined) ctx.res.setHeader('Audit-ID', audit.id)
    const lastEventId = headerOf(ctx.req.headers, 'last-event-id')
    await api.stream({ ...info, view }, ctx.res, streamForm, identity, lastEventId)
    connections.streams(ctx.res)
    ctx.respond = false
  }
}
