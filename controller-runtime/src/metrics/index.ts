/**
 * Prometheus metrics of controllers and work queues. Names are those of controller-runtime and client-go, so that their
 * dashboards work. Runs only increment plain numbers; metrics are built from them at each scrape.
 *
 * `RunnableMetrics` are those of runnables and schedules, and `PluginMetricSet` has the metrics that a plugin declares.
 */
export {
  ControllerMetrics,
  type ControllerStatus,
  metricsDefaults,
  type QueueStatus,
} from './controller-metrics.ts'
export { ControllerRecorder, QueueRecorder, type ReconcileResultLabel } from './controller-recorder.ts'
export { Observations, ObservedHistogram } from './histogram.ts'
export {
  type HistogramDeclaration,
  type LabelValues,
  type MetricDeclaration,
  type PluginCounter,
  type PluginGauge,
  type PluginHistogram,
  PluginMetricSet,
  type PluginMetrics,
  pluginMetricsDefaults,
} from './plugin-metrics.ts'
export { RunnableMetrics, type ScheduleResult } from './runnable-metrics.ts'
export { ScrapedMetrics } from './scraped-metrics.ts'
