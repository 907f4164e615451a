/**
 * Metrics for Prometheus, under the names that Kubernetes dashboards know. Requests are counted as they complete; all
 * other values are collected from the rooms at each scrape and cost nothing in between. Every server has its own
 * registry.
 */

export * from './admission-metrics.ts'
export * from './audit-metrics.ts'
export * from './authentication-metrics.ts'
export * from './conversion-metrics.ts'
export * from './fairness-metrics.ts'
export * from './log-metrics.ts'
export * from './metrics.ts'
export * from './process-metrics.ts'
export * from './program-metrics.ts'
export * from './request-metrics.ts'
export * from './space-metrics.ts'
export * from './storage-metrics.ts'
