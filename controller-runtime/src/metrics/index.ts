/**
 * What controllers and their queues tell of themselves to Prometheus, under the names of controller-runtime and
 * client-go, so that their dashboards work. Runs only raise plain numbers; the rest is done when somebody scrapes.
 */
export {
  ControllerMetrics,
  type ControllerStatus,
  metricsDefaults,
  type QueueStatus,
} from './controller-metrics.ts'
export { ControllerRecorder, QueueRecorder, type ReconcileResultLabel } from './controller-recorder.ts'
