import { Router } from '@koa/router'
import {
  aggregatedGroup,
  aggregatedVersions,
  Discovery,
  type DiscoveryDocument,
} from '../../kubernetes/index.ts'
import type { Logger } from '../../log/index.ts'
import type { ModelRegistry } from '../../model/index.ts'
import type { ApiDocuments } from '../../openapi/index.ts'
import { negotiate } from '../accept.ts'
import type { CustomRoutes } from '../custom-routes.ts'
import { addDebugRoutes, type DebugRoutesParts } from '../debug-routes.ts'
import { matchesEntityTag } from '../entity-tag.ts'
import { MethodNotAllowedError } from '../error-response.ts'
import { addHealthRoutes, type HealthRoutesParts } from '../health-routes.ts'
import { addIssuerRoutes, type IssuerRoutesParts } from '../issuer-routes.ts'
import { addOpenApiRoutes } from '../openapi-routes.ts'
import { addOperationsRoutes, type OperationsRoutesParts } from '../operations-routes.ts'
import { checkTimeout } from '../query-parameters.ts'
import { nothingServed } from '../request-info.ts'
import type { Context, Middleware, RequestState } from '../request-state.ts'
import { addSignInRoutes, type SignInRoutesParts } from '../sign-in-routes.ts'
import { versionInfo } from '../version-info.ts'

interface SystemRoutesParts
  extends HealthRoutesParts,
    DebugRoutesParts,
    IssuerRoutesParts,
    OperationsRoutesParts,
    SignInRoutesParts {
  readonly log: Logger
  readonly models: ModelRegistry
  readonly routes: CustomRoutes
  readonly documents: ApiDocuments
}

/**
 * Serves discovery, API documents, health, metrics, the issuer's keys, backups and what administrators look at, and
 * rejects all other paths.
 */
export function systemRoutes(parts: SystemRoutesParts): Middleware {
  const { models, routes } = parts
  const router = new Router<RequestState>({ sensitive: true })
  const discovered = (find: (ctx: Context) => DiscoveryDocument | undefined) => (ctx: Context) => {
    const document = find(ctx)
    if (document === undefined) throw nothingServedAt(ctx)
    sendDocument(ctx, document)
  }
  addHealthRoutes(router, parts)
  addDebugRoutes(router, parts)
  addOperationsRoutes(router, parts)
  router.get('/version', (ctx: Context) => {
    ctx.set('content-type', 'application/json')
    ctx.body = JSON.stringify(versionInfo())
  })
  const discovery = new Discovery({ models, routes })
  const all = (root: 'api' | 'apis') =>
    discovered(ctx => {
      const version = aggregatedVersionOf(ctx.req.headers.accept)
      return version === undefined ? discovery.groups(root) : discovery.aggregated(root, version)
    })
  router.get('/api', all('api'))
  router.get(
    '/api/:version',
    discovered(({ params: { version = '' } }) => discovery.resources('api', '', version)),
  )
  router.get('/apis', all('apis'))
  router.get(
    '/apis/:group',
    discovered(({ params: { group = '' } }) => discovery.group(group)),
  )
  router.get(
    '/apis/:group/:version',
    discovered(({ params: { group = '', version = '' } }) => discovery.resources('apis', group, version)),
  )
  addOpenApiRoutes(router, parts)
  addIssuerRoutes(router, parts)
  addSignInRoutes(router, parts)
  const route = router.routes()
  return async ctx => {
    const { query } = ctx.state.target
    if (query !== '') checkTimeout(new URLSearchParams(query))
    ctx.newRouterPath = ctx.state.path || '/'
    ctx.matched = []
    await route(ctx, async () => {
      if (ctx.matched?.length) throw new MethodNotAllowedError(ctx.method, ['GET', 'HEAD'])
      throw nothingServedAt(ctx)
    })
  }
}

function nothingServedAt({ state: { target, path, info } }: Context): Error {
  return nothingServed(target.path, path, info)
}

/** Returns the version of the aggregated document that a client prefers to the plain one, if any. */
function aggregatedVersionOf(accept = '*/*') {
  const found = negotiate(accept, ['application/json'], clause =>
    clause.get('as') === 'APIGroupDiscoveryList' && clause.get('g') === aggregatedGroup
      ? aggregatedVersions.find(version => version === clause.get('v'))
      : undefined,
  )
  return found?.form
}

/** Sends a document, or 304 to a client that has it. */
function sendDocument(ctx: Context, { contentType, etag, body }: DiscoveryDocument): void {
  const headers = { etag, vary: 'Accept, Accept-Encoding, Origin', 'cache-control': 'no-cache, private' }
  ctx.set(headers)
  if (matchesEntityTag(ctx.get('if-none-match'), etag)) ctx.status = 304
  else ctx.state.response = { status: 200, headers: { ...headers, 'content-type': contentType }, body }
}
