import { readFileSync } from 'node:fs'
import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import { collectDefaultMetrics, type Registry } from 'prom-client'

/** Registers the usual metrics of a process and of Node, and on Linux its memory without mapped files. */
export function describeProcess(registry: Registry): void {
  collectDefaultMetrics({ register: registry })
  if (process.platform !== 'linux') return
  new ScrapedMetrics(registry).gauge(
    'setpoint_process_anonymous_memory_bytes',
    'Resident memory of the process without files that it maps, such as that of the embedded store.',
    [],
    function* () {
      const [, kibibytes] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
      // Some sandboxes of containers do not tell it.
      if (kibibytes !== undefined) yield [Number(kibibytes) * 1024]
    },
  )
}
