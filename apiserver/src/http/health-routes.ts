import { setImmediate } from 'node:timers/promises'
import type { Router } from '@koa/router'
import { ApiError } from '@setpoint/controller-runtime/api'
import type { HealthAnswer, HealthForm } from './health.ts'
import type { Context, RequestState } from './request-state.ts'

export interface HealthRoutesParts {
  readonly health: {
    live(form: HealthForm): HealthAnswer
    ready(form: HealthForm): HealthAnswer | Promise<HealthAnswer>
  }
  readonly metrics: {
    readonly contentType: string
    text(): Promise<string>
  }
}

/** Adds the probes and `/metrics`. */
export function addHealthRoutes(router: Router<RequestState>, { health, metrics }: HealthRoutesParts): void {
  const probe =
    (check: (form: HealthForm) => HealthAnswer | Promise<HealthAnswer>) => async (ctx: Context) => {
      const query = new URLSearchParams(ctx.querystring)
      const { status, text } = await check({
        verbose: query.has('verbose'),
        detailed: ctx.state.mayReadDetails,
        only: ctx.params.check,
        excluded: query.getAll('exclude'),
      })
      ctx.status = status
      ctx.type = status === 404 ? 'application/json' : 'text/plain'
      // Errors have a Status on every path, also where no chain turns them into one.
      ctx.body = status === 404 ? JSON.stringify(new ApiError('NotFound', text).toStatus()) : text
    }
  const live = probe(form => health.live(form))
  router.get('/livez', live)
  router.get('/livez/*check', live)
  router.get('/healthz', live)
  router.get('/healthz/*check', live)
  const ready = probe(form => health.ready(form))
  router.get('/readyz', ready)
  router.get('/readyz/*check', ready)
  let scrape: Promise<string> | undefined
  router.get('/metrics', async (ctx: Context) => {
    // The text takes milliseconds to build. Scrapes that arrive in the same turn of the event loop share it.
    scrape ??= setImmediate().then(() => {
      scrape = undefined
      return metrics.text()
    })
    ctx.set('content-type', metrics.contentType)
    ctx.body = await scrape
  })
}
