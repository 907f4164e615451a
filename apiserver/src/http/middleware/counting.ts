import type { RequestMetrics } from '../../metrics/index.ts'
import type { Middleware } from '../request-state.ts'

/** Counts requests, and measures the time until the response is ready to be sent. */
export function counting(metrics: Pick<RequestMetrics, 'begin'>): Middleware {
  return async (ctx, next) => {
    const record = metrics.begin(ctx.method)
    ctx.state.record = record
    await next()
    const { response } = ctx.state
    if (response !== undefined) record.answered(response.status)
    // A watch whose client left before it was opened has no response.
    else if (ctx.respond !== false || ctx.res.headersSent) record.answered(ctx.status)
  }
}
