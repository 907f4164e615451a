import { type Span, withRequestSpan } from '@setpoint/controller-runtime/internal'
import { type Context, type Middleware, type RequestState, statusOf } from '../request-state.ts'

/**
 * Runs each request in a span, if the process has an OpenTelemetry SDK. Attributes have the names of its conventions
 * for HTTP servers. The span ends when the response has been sent, and that of a watch when it has started.
 */
export function tracing(): Middleware {
  return (ctx, next) => {
    const { method, req } = ctx
    return withRequestSpan({ method, target: req.url ?? '', headers: req.headers }, span =>
      span === undefined ? next() : next().finally(() => describe(span, ctx)),
    )
  }
}

function describe(span: Span, ctx: Context): void {
  // A request that is refused early does not have all of its state.
  const { record, info, caller }: Partial<RequestState> = ctx.state
  const resource = record?.kind?.title
  const code = statusOf(ctx)
  if (resource !== undefined) span.updateName(`${record?.verb} ${resource}`)
  if (code !== undefined && code >= 500) span.setAttribute('error.type', String(code))
  span.setAttributes({
    'url.scheme': ctx.protocol,
    'client.address': ctx.req.socket.remoteAddress,
    'user_agent.original': ctx.req.headers['user-agent'],
    'http.response.status_code': code,
    'setpoint.verb': info?.verb,
    'setpoint.resource': resource,
    'setpoint.user': caller?.user.name,
  })
}
