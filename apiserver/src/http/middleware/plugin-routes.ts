import type { CustomRoutes } from '../custom-routes.ts'
import type { Middleware } from '../request-state.ts'

/** Serves the routes that plugins have added. */
export function pluginRoutes(routes: CustomRoutes): Middleware {
  return (ctx, next) => (ctx.state.path?.startsWith('/apis/') ? routes.handle(ctx, next) : next())
}
