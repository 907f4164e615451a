import type { AuditedRequest, AuditLog, AuditSubject } from '../../audit/index.ts'
import { anonymousUser } from '../../security/index.ts'
import { callersOf, subjectOfObjects, subjectOfPath } from '../audit-subject.ts'
import type { Context, Middleware, RequestState } from '../request-state.ts'

/** Records the request in the audit log, with the status of its response. */
export function auditing(log: AuditLog): Middleware {
  return async (ctx, next) => {
    const { req, res, state } = ctx
    const audit = log.begin({
      uri: req.url ?? '',
      headers: req.headers,
      remoteAddress: req.socket.remoteAddress,
    })
    state.audit = audit
    await next()
    const { response, resource } = state
    const code = response?.status ?? (res.headersSent || ctx.respond !== false ? ctx.status : undefined)
    if (!audit.isDescribed) describe(audit, ctx, code)
    if (response !== undefined) {
      audit.completed({ code, body: response.body, location: response.headers.location })
      return
    }
    // A watch is open, or Koa sends the body.
    if (!res.headersSent) ctx.set('Audit-ID', audit.id)
    if (resource?.verb === 'watch' && code !== undefined) audit.started(code)
    const completed = () => audit.completed({ code, body: jsonBodyOf(ctx) })
    if (res.destroyed) completed()
    else res.once('close', completed)
  }
}

/** Records that the request has been authorized, before anything is done for it. */
export function auditingAllowed(): Middleware {
  return (ctx, next) => {
    const { audit } = ctx.state
    if (audit !== undefined) {
      describe(audit, ctx, undefined)
      audit.allowed()
    }
    return next()
  }
}

/** @param code the status of the response, if there is one yet */
function describe(audit: AuditedRequest, ctx: Context, code: number | undefined): void {
  // A request that is refused early does not have all of its state.
  const state: Partial<RequestState> = ctx.state
  if (state.identity !== undefined) audit.identified(...callersOf(state.identity))
  else if (code !== 401 && code !== 403) audit.identified(anonymousUser)
  audit.concerns(subjectOf(ctx.method, state))
}

function subjectOf(method: string, { resource, path, target }: Partial<RequestState>): AuditSubject {
  if (resource !== undefined) return subjectOfObjects(resource)
  return subjectOfPath(path ?? target?.path ?? '', method)
}

/** Returns the body that Koa sends, if it is JSON in memory. */
function jsonBodyOf({ body, type }: Context): Buffer | undefined {
  if (type !== 'application/json') return undefined
  return typeof body === 'string' ? Buffer.from(body) : Buffer.isBuffer(body) ? body : undefined
}
