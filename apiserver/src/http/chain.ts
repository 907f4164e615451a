import Koa from 'koa'
import type { AuditLog } from '../audit/index.ts'
import type { Logger } from '../log/index.ts'
import type { Metrics } from '../metrics/index.ts'
import type { ModelRegistry } from '../model/index.ts'
import type { ApiDocuments } from '../openapi/index.ts'
import type { RequestQueues } from '../scheduling/index.ts'
import type { Authorizer, ImpersonatingAccess, Origins } from '../security/index.ts'
import type { WatchHub } from '../watch/index.ts'
import type { CallerCounts } from './caller-counts.ts'
import type { Connections } from './connections.ts'
import type { CustomRoutes } from './custom-routes.ts'
import type { ExplainFault } from './error-response.ts'
import type { Health } from './health.ts'
import type { IssuerRoutesParts } from './issuer-routes.ts'
import { auditing } from './middleware/auditing.ts'
import { checks } from './middleware/checks.ts'
import { counting } from './middleware/counting.ts'
import { crossOrigin } from './middleware/cross-origin.ts'
import { errors } from './middleware/errors.ts'
import { negotiation } from './middleware/negotiation.ts'
import { objects } from './middleware/objects.ts'
import { openPaths } from './middleware/open-paths.ts'
import { pages } from './middleware/pages.ts'
import { pluginRoutes } from './middleware/plugin-routes.ts'
import { sending } from './middleware/sending.ts'
import { systemRoutes } from './middleware/system-routes.ts'
import { target } from './middleware/target.ts'
import { tracing } from './middleware/tracing.ts'
import { watches } from './middleware/watches.ts'
import type { OperationsRoutesParts } from './operations-routes.ts'
import type { Paths } from './paths.ts'
import type { Middleware } from './request-state.ts'
import type { ResourceApi } from './resource-api.ts'
import type { SignInRoutesParts } from './sign-in-routes.ts'
import type { SlowRequests } from './slow-requests.ts'
import type { WatchApi } from './watch-api.ts'

interface ChainParts extends IssuerRoutesParts, OperationsRoutesParts, SignInRoutesParts {
  readonly connections: Connections
  readonly paths: Paths
  readonly models: ModelRegistry
  readonly api: ResourceApi
  readonly watches: WatchApi
  readonly hub: WatchHub
  readonly routes: CustomRoutes
  readonly documents: ApiDocuments
  readonly origins: Origins
  readonly access: ImpersonatingAccess
  readonly authorizer: Authorizer
  readonly queues: RequestQueues
  readonly health: Health
  readonly metrics: Metrics
  /** The settings in force, without secrets. */
  readonly settings: object
  readonly callers: CallerCounts
  readonly slow: SlowRequests
  readonly log: Logger
  readonly audit?: AuditLog
  readonly explainFault?: ExplainFault
}

/** The Koa application that every request goes through, WebSocket handshakes included. */
export function createChain(parts: ChainParts): Koa {
  const { connections, paths, api, access, queues, log, audit } = parts
  const system = systemRoutes(parts)
  const chain: readonly Middleware[] = [
    ...(audit === undefined ? [] : [auditing(audit, paths)]),
    tracing(),
    sending(),
    counting(parts),
    errors(log, queues, parts.explainFault),
    crossOrigin(parts.origins),
    target(access, paths),
    pages(parts.routes.pages, parts.basePath),
    openPaths(parts, system),
    checks(parts),
    negotiation(),
    objects(api, parts.authorizer),
    watches(parts.watches, connections),
    pluginRoutes(parts.routes),
    system,
  ]
  const koa = new Koa()
  for (const middleware of chain) koa.use(middleware)
  koa.on('error', error => log.debug({ err: error }, 'failed to send response'))
  return koa
}
