import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'
import type { LogLosses } from '../log/index.ts'

/** Registers the count of log lines that were not written. */
export function describeLog(registry: Registry, losses: () => LogLosses): void {
  new ScrapedMetrics(registry).counter(
    'setpoint_log_lines_dropped_total',
    'Log lines that were not written: standard error was not read fast enough, or the same message came too often.',
    ['reason'],
    () => {
      const { bufferFull, repeated } = losses()
      return [
        [bufferFull, 'buffer_full'],
        [repeated, 'repeated'],
      ]
    },
  )
}
