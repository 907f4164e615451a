import { Counter, type Registry } from 'prom-client'
import type { CollectorCounts } from './defaults.ts'

/** Tells of a collector, whether it works or stands by. @throws Error when the registry has metrics of these names already. */
export function describeCollector(registry: Registry, countsOf: () => Readonly<CollectorCounts>): void {
  const registers = [registry]
  new Counter({
    name: 'setpoint_collector_objects_total',
    help: 'Objects that the collector of dependents has dealt with, by what it did.',
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
    help: 'Work of the collector of dependents that failed and was put off.',
    registers,
    collect() {
      this.reset()
      this.inc(countsOf().failed)
    },
  })
}
