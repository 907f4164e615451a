import type { AuditLog } from '../../audit/index.ts'
import { anonymousUser } from '../../security/index.ts'
import type { Paths } from '../paths.ts'
import { type Context, type Middleware, type RequestState, statusOf } from '../request-state.ts'

/** Records the request in the audit log, with the status of its response. */
export function auditing(log: AuditLog, paths: Paths): Middleware {
  return async (ctx, next) => {
    const { req, res, state } = ctx
    const audit = log.begin({
      uri: req.url ?? '',
      headers: req.headers,
      remoteAddress: req.socket.remoteAddress,
    })
    state.audit = audit
    await next()
    const { response } = state
    const code = statusOf(ctx)
    // A request that is refused early does not have all of its state.
    const { identity, info = paths.readEarly(ctx.method, req.url ?? '') }: Partial<RequestState> = state
    if (identity === undefined && code !== 401 && code !== 403)
      audit.identified({ user: anonymousUser, credential: undefined })
    audit.setSubject(info)
    if (response !== undefined) {
      audit.completed({ code, body: response.body, location: response.headers.location })
      return
    }
    // A watch is open, or Koa sends the body.
    if (!res.headersSent) ctx.set('Audit-ID', audit.id)
    const isWatch = code === 101 || (info.served !== undefined && info.verb === 'watch')
    if (isWatch && code !== undefined) audit.started(code)
    const completed = () => audit.completed({ code, body: jsonBodyOf(ctx) })
    if (res.destroyed) completed()
    else res.once('close', completed)
  }
}

/** Returns the body that Koa sends, if it is JSON in memory. */
function jsonBodyOf({ body, type }: Context): Buffer | undefined {
  if (type !== 'application/json') return undefined
  return typeof body === 'string' ? Buffer.from(body) : Buffer.isBuffer(body) ? body : undefined
}
