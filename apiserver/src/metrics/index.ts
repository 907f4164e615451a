/**
 * What this server tells of itself to Prometheus, under the names that Kubernetes dashboards know. Requests are
 * counted as they are answered; everything else is asked of the rooms when somebody scrapes, and costs nothing in
 * between. Every server has a registry of its own: nothing here is global.
 */
export * from './metrics.ts'
export * from './request-metrics.ts'
