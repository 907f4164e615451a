import type { Access } from '../../security/index.ts'
import { headerOf } from '../api-request.ts'
import type { Middleware } from '../request-state.ts'

/** A plugin's client sends the name of the plugin in this header. */
const pluginHeader = 'x-setpoint-plugin'

/** Identifies the caller. */
export function identity(access: Access): Middleware {
  return (ctx, next) => {
    const { headers } = ctx.req
    const found = access.identify(headers)
    ctx.state.identity = found
    ctx.state.caller = { user: found.user, plugin: headerOf(headers, pluginHeader) || undefined }
    return next()
  }
}
