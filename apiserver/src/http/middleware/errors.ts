import type { Logger } from '../../log/index.ts'
import { errorResponse, toApiError } from '../error-response.ts'
import type { Middleware } from '../request-state.ts'

/** Turns every error into a response with a Status. */
export function errors(log: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next()
    } catch (thrown) {
      ctx.state.response = errorResponse(toApiError(thrown, log, { method: ctx.method, path: ctx.req.url }))
    }
  }
}
