import type { Registry } from 'prom-client'
import { ScrapedMetrics } from '../metrics/index.ts'
import type { CollectorCounts } from './defaults.ts'

/** Registers the metrics of a collector. @throws Error if the registry already has metrics of these names. */
export function describeCollector(registry: Registry, countsOf: () => Readonly<CollectorCounts>): void {
  const scraped = new ScrapedMetrics(registry)
  scraped.counter(
    'setpoint_collector_objects_total',
    'Total number of objects processed by the garbage collector, by action.',
    ['action'],
    () => {
      const { deleted, released, ended } = countsOf()
      return Object.entries({ deleted, released, ended }).map(([action, count]) => [count, action])
    },
  )
  scraped.counter(
    'setpoint_collector_errors_total',
    'Total number of failed attempts of the garbage collector, which are retried.',
    [],
    () => [[countsOf().failed]],
  )
}
