import { type Identity, type ImpersonatingAccess, payerOf } from '../../security/index.ts'
import { headerOf } from '../api-request.ts'
import type { Context, Middleware } from '../request-state.ts'

/** A plugin's client sends the name of the plugin in this header. */
const pluginHeader = 'x-setpoint-plugin'

/** Identifies the caller, and the user whom the caller impersonates. */
export function identity(access: ImpersonatingAccess): Middleware {
  return (ctx, next) => {
    const caller = access.authenticate(ctx.req)
    if (caller instanceof Promise) return caller.then(each => identified(ctx, access, each)).then(next)
    identified(ctx, access, caller)
    return next()
  }
}

function identified(ctx: Context, access: ImpersonatingAccess, caller: Identity): void {
  const { state, req } = ctx
  // The caller is recorded even if it may not impersonate.
  state.identity = caller
  state.audit?.identified(caller)
  const identity = access.impersonate(caller, req.headers)
  if (identity !== caller) {
    state.identity = identity
    state.audit?.identified(identity)
  }
  const plugin = headerOf(req.headers, pluginHeader) || undefined
  state.caller = { user: identity.user, payer: payerOf(identity), plugin }
}
