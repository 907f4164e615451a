/**
 * What controllers and their queues tell of themselves to Prometheus, under the names of controller-runtime and
 * client-go, so that their dashboards work. Runs only raise plain numbers; the rest is done when somebody scrapes.
 */
export { ControllerMetrics, type ControllerStatus, metricsDefaults } from './controller-metrics.ts'
export { ControllerRecorder, type ReconcileResultLabel } from './controller-recorder.ts'
