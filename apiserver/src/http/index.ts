/**
 * Serves the API over HTTP and WebSocket: `ApiServer` owns the sockets, `createChain` composes the middleware that
 * every request passes, `ResourceApi` and `WatchApi` serve objects. Every error becomes a Status. Writes are decided in
 * `registry/`, lists in `query/`, events in `watch/`.
 */
export { loadActionRules } from './action-schema.ts'
export * from './api-request.ts'
export { rightsOf } from './caller-rights.ts'
export { type CheckedRequest, passChecks } from './checks.ts'
export * from './custom-routes.ts'
export { requireDescriptors, watchLimitsWithin } from './descriptors.ts'
export { auditOutcomeOf, errorResponse, toApiError } from './error-response.ts'
export { type FreshKinds, readFresh } from './fresh-kinds.ts'
export * from './health.ts'
export * from './health-endpoint.ts'
export { consolePath } from './middleware/pages.ts'
export {
  asWatch,
  nothingServed,
  type RequestInfo,
  type ResourceRequest,
  readRequestInfo,
  type Served,
  targetOfPath,
} from './request-info.ts'
export { classOf, partyOfPlugin, RequestSeat } from './request-seat.ts'
export { splitTarget } from './request-target.ts'
export * from './resource-api.ts'
export { RouteCallers } from './route-callers.ts'
export * from './server.ts'
export { withWarnings } from './warning-headers.ts'
export { readWatchRequest } from './watch-parameters.ts'
