import type { Access, Identity } from '../../security/index.ts'
import { headerOf } from '../api-request.ts'
import type { Context, Middleware } from '../request-state.ts'

/** A plugin's client sends the name of the plugin in this header. */
const pluginHeader = 'x-setpoint-plugin'

/** Identifies the caller. */
export function identity(access: Access): Middleware {
  return (ctx, next) => {
    const found = access.identify(ctx.req)
    if (found instanceof Promise) return found.then(identity => identified(ctx, identity)).then(next)
    identified(ctx, found)
    return next()
  }
}

function identified(ctx: Context, identity: Identity): void {
  ctx.state.identity = identity
  ctx.state.audit?.identified(identity)
  ctx.state.caller = { user: identity.user, plugin: headerOf(ctx.req.headers, pluginHeader) || undefined }
}
