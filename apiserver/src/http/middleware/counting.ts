import type { RequestMetrics } from '../../metrics/index.ts'
import { type Middleware, statusOf } from '../request-state.ts'

/** Counts requests, and measures the time until the response is ready to be sent. */
export function counting(metrics: Pick<RequestMetrics, 'begin'>): Middleware {
  return async (ctx, next) => {
    const record = metrics.begin(ctx.method)
    ctx.state.record = record
    await next()
    const status = statusOf(ctx)
    if (status !== undefined) record.answered(status)
  }
}
