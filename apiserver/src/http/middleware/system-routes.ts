import { setImmediate } from 'node:timers/promises'
import { Router } from '@koa/router'
import type { Metrics } from '../../metrics/index.ts'
import type { ModelRegistry } from '../../model/index.ts'
import type { ApiDocuments } from '../../openapi/index.ts'
import type { CustomRoutes } from '../custom-routes.ts'
import { group, groupList, resourceList } from '../discovery.ts'
import { MethodNotAllowedError } from '../error-response.ts'
import type { Health, HealthAnswer } from '../health.ts'
import { addOpenApiRoutes } from '../openapi-routes.ts'
import type { Paths } from '../paths.ts'
import type { Context, Middleware, RequestState } from '../request-state.ts'
import { versionInfo } from '../version-info.ts'

export interface SystemRoutesParts {
  readonly health: Health
  readonly metrics: Metrics
  readonly models: ModelRegistry
  readonly routes: CustomRoutes
  readonly documents: ApiDocuments
  readonly paths: Paths
}

/** Serves discovery, API documents, health and metrics, and rejects all other paths. */
export function systemRoutes(parts: SystemRoutesParts): Middleware {
  const { health, metrics, models, routes, paths } = parts
  const router = new Router<RequestState>({ sensitive: true })
  const probe = (check: (verbose: boolean) => Promise<HealthAnswer>) => async (ctx: Context) => {
    const { status, text } = await check(ctx.query.verbose !== undefined)
    ctx.status = status
    ctx.type = 'text/plain'
    ctx.body = text
  }
  const json = (make: (params: Readonly<Record<string, string>>) => object | undefined) => (ctx: Context) => {
    const body = make(ctx.params)
    if (body === undefined) throw paths.notServed(ctx.state.target.path)
    ctx.set('content-type', 'application/json')
    ctx.body = JSON.stringify(body)
  }
  const live = probe(verbose => health.live(verbose))
  const ready = probe(verbose => health.ready(verbose))
  router.get('/livez', live)
  router.get('/healthz', live)
  router.get('/readyz', ready)
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
  const version = json(() => versionInfo())
  const groups = json(() => groupList(models, routes))
  const oneGroup = json(({ group: name = '' }) => group(models, routes, name))
  const resources = json(({ group, version }) => resourceList(models, routes, `${group}/${version}`))
  router.get('/version', version)
  router.get('/apis', groups)
  router.get('/apis/:group', oneGroup)
  router.get('/apis/:group/:version', resources)
  addOpenApiRoutes(router, parts)
  const route = router.routes()
  return async ctx => {
    ctx.newRouterPath = ctx.state.path || '/'
    ctx.matched = []
    await route(ctx, async () => {
      if (ctx.matched?.length) throw new MethodNotAllowedError(ctx.method, ['GET', 'HEAD'])
      throw paths.notServed(ctx.state.target.path)
    })
  }
}
