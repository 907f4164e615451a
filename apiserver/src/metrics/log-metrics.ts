import { Counter, type Registry } from 'prom-client'
import type { LogLosses } from '../log/index.ts'

/** Registers the count of log lines that were not written. */
export function describeLog(registry: Registry, losses: () => LogLosses): void {
  new Counter({
    name: 'setpoint_log_lines_dropped_total',
    help: 'Log lines that were not written: standard error was not read fast enough, or the same message came too often.',
    labelNames: ['reason'],
    registers: [registry],
    collect() {
      const { bufferFull, repeated } = losses()
      this.reset()
      this.inc({ reason: 'buffer_full' }, bufferFull)
      this.inc({ reason: 'repeated' }, repeated)
    },
  })
}
