import { Counter, type Registry } from 'prom-client'
import type { CollectorCounts } from './defaults.ts'

/** Registers the metrics of a collector. @throws Error if the registry already has metrics of these names. */
export function describeCollector(registry: Registry, countsOf: () => Readonly<CollectorCounts>): void {
  const registers = [registry]
  new Counter({
    name: 'setpoint_collector_objects_total',
    help: 'Total number of objects processed by the garbage collector, by action.',
    labelNames: ['action'],
    registers,
    collect() {
      this.reset()
      const { deleted, released, ended } = countsOf()
      for (const [action, count] of Object.entries({ deleted, released, ended })) this.inc({ action }, count)
    },
  })
  new Counter({
    name: 'setpoint_collector_errors_total',
    help: 'Total number of failed attempts of the garbage collector, which are retried.',
    registers,
    collect() {
      this.reset()
      this.inc(countsOf().failed)
    },
  })
}
