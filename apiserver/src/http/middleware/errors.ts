import type { Logger } from '../../log/index.ts'
import { errorResponse, toApiError } from '../error-response.ts'
import type { Middleware } from '../request-state.ts'
import { withWarning } from '../warning-headers.ts'

/** Turns every error into a response with a Status. */
export function errors(log: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next()
    } catch (thrown) {
      const response = errorResponse(toApiError(thrown, log, { method: ctx.method, path: ctx.req.url }))
      const { resource } = ctx.state
      const warning = resource?.served.versionAt(resource.path).warning
      ctx.state.response = warning === undefined ? response : withWarning(response, warning)
    }
  }
}
