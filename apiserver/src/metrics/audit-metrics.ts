import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'

/** The counts of an audit log. */
interface AuditCounts {
  readonly events: number
  /** Requests by level. */
  readonly requests: Readonly<Record<string, number>>
  readonly sinks: readonly { readonly name: string; readonly dropped: number }[]
}

/** Registers the counts of the audit log, under the names of Kubernetes. */
export function describeAudit(registry: Registry, audit: AuditCounts): void {
  const scraped = new ScrapedMetrics(registry)
  scraped.counter(
    'apiserver_audit_event_total',
    'Audit events, including those that were dropped later.',
    [],
    () => [[audit.events]],
  )
  scraped.counter(
    'apiserver_audit_error_total',
    'Audit events that were dropped: the buffer was full, or the file or the webhook failed.',
    ['plugin'],
    () => audit.sinks.map(({ name, dropped }) => [dropped, name]),
  )
  scraped.counter(
    'apiserver_audit_level_total',
    'Requests by the level that the audit policy gives them.',
    ['level'],
    () => Object.entries(audit.requests).map(([level, count]) => [count, level]),
  )
}
