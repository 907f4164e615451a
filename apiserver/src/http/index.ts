/**
 * How requests come in: paths, negotiation, bodies, limits, and the one form of every refusal. It means nothing by
 * itself; the registry says what a write means, the query what a list answers, the hub what a watch sends.
 */
export * from './api-request.ts'
export * from './custom-routes.ts'
export * from './health.ts'
export * from './health-endpoint.ts'
export * from './resource-api.ts'
export * from './server.ts'
