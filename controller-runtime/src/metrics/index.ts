/**
 * Prometheus metrics of controllers and work queues. Names are those of controller-runtime and client-go, so that their
 * dashboards work. Runs only increment plain numbers; metrics are built from them at each scrape.
 */
export {
  ControllerMetrics,
  type ControllerStatus,
  metricsDefaults,
  type QueueStatus,
} from './controller-metrics.ts'
export { ControllerRecorder, QueueRecorder, type ReconcileResultLabel } from './controller-recorder.ts'
