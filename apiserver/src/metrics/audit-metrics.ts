import { Counter, type Registry } from 'prom-client'

/** The counts of an audit log. */
interface AuditCounts {
  readonly events: number
  /** Requests by level. */
  readonly requests: Readonly<Record<string, number>>
  readonly sinks: readonly { readonly name: string; readonly dropped: number }[]
}

/** Registers the counts of the audit log, under the names of Kubernetes. */
export function describeAudit(registry: Registry, audit: AuditCounts): void {
  const registers = [registry]
  new Counter({
    name: 'apiserver_audit_event_total',
    help: 'Audit events, including those that were dropped later.',
    registers,
    collect() {
      this.reset()
      this.inc(audit.events)
    },
  })
  new Counter({
    name: 'apiserver_audit_error_total',
    help: 'Audit events that were dropped: the buffer was full, or the file or the webhook failed.',
    labelNames: ['plugin'],
    registers,
    collect() {
      this.reset()
      for (const { name: plugin, dropped } of audit.sinks) this.inc({ plugin }, dropped)
    },
  })
  new Counter({
    name: 'apiserver_audit_level_total',
    help: 'Requests by the level that the audit policy gives them.',
    labelNames: ['level'],
    registers,
    collect() {
      this.reset()
      for (const [level, count] of Object.entries(audit.requests)) this.inc({ level }, count)
    },
  })
}
