import type { RequestMetrics } from '../../metrics/index.ts'
import type { CallerCounts } from '../caller-counts.ts'
import { type Middleware, type RequestState, statusOf } from '../request-state.ts'
import type { SlowRequests } from '../slow-requests.ts'

interface CountingParts {
  readonly metrics: { readonly requests: Pick<RequestMetrics, 'begin'> }
  readonly callers: CallerCounts
  readonly slow: SlowRequests
}

/**
 * Counts requests by kind and by caller, measures the time until the response is ready to be sent, and logs slow ones.
 */
export function counting({ metrics, callers, slow }: CountingParts): Middleware {
  return async (ctx, next) => {
    const { state } = ctx
    const record = metrics.requests.begin(ctx.method)
    state.record = record
    let code: number | undefined
    try {
      await next()
      code = statusOf(ctx)
    } finally {
      const ms = record.end(code)
      // Undefined for a request that is refused early.
      const { caller }: Partial<RequestState> = state
      callers.count(caller?.payer, { ms, queueMs: record.queueMs, code })
      slow.check(ctx, ms, code)
    }
  }
}
