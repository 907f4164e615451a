import { Counter, Gauge, Histogram, type Registry } from 'prom-client'

/** The queues of requests, as far as metrics need them. */
interface Queues {
  loads(): Iterable<{ class: string; waiting: number }>
  readonly bodies: { readonly bytes: number }
  readonly routeBodies: { readonly bytes: number }
  tallies(): Iterable<{
    class: string
    kind: string
    tally: { dispatched: number; full: number; late: number; cancelled: number }
  }>
  onWaited: (requestClass: string, kind: string, seconds: number) => void
}

/**
 * Registers the metrics of the queues, under the names of Kubernetes' API Priority and Fairness: the priority level is the
 * class of a request, the flow schema the kind of its identity.
 */
export function describeQueues(registry: Registry, queues: Queues): void {
  const registers = [registry]
  const labelNames = ['priority_level', 'flow_schema']
  new Counter({
    name: 'apiserver_flowcontrol_dispatched_requests_total',
    help: 'Requests that were admitted, at once or after waiting.',
    labelNames,
    registers,
    collect() {
      this.reset()
      for (const { class: priority_level, kind: flow_schema, tally } of queues.tallies())
        this.inc({ priority_level, flow_schema }, tally.dispatched)
    },
  })
  new Counter({
    name: 'apiserver_flowcontrol_rejected_requests_total',
    help: 'Requests that were not admitted: queue-full and time-out got 429, cancelled means that the client left.',
    labelNames: [...labelNames, 'reason'],
    registers,
    collect() {
      this.reset()
      for (const { class: priority_level, kind: flow_schema, tally } of queues.tallies()) {
        const labels = { priority_level, flow_schema }
        if (tally.full > 0) this.inc({ ...labels, reason: 'queue-full' }, tally.full)
        if (tally.late > 0) this.inc({ ...labels, reason: 'time-out' }, tally.late)
        if (tally.cancelled > 0) this.inc({ ...labels, reason: 'cancelled' }, tally.cancelled)
      }
    },
  })
  new Gauge({
    name: 'apiserver_flowcontrol_current_inqueue_requests',
    help: 'Requests that wait to be admitted.',
    labelNames: ['priority_level'],
    registers,
    collect() {
      for (const { class: priority_level, waiting } of queues.loads()) this.set({ priority_level }, waiting)
    },
  })
  new Gauge({
    name: 'setpoint_flowcontrol_held_bytes',
    help: 'Bytes of request bodies, from their arrival until the response is ready.',
    registers,
    collect() {
      this.set(queues.bodies.bytes + queues.routeBodies.bytes)
    },
  })
  const waits = new Histogram({
    name: 'apiserver_flowcontrol_request_wait_duration_seconds',
    help: 'Seconds that admitted requests have waited, without those that were admitted at once.',
    labelNames,
    buckets: [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15],
    registers,
  })
  queues.onWaited = (priority_level, flow_schema, seconds) =>
    waits.observe({ priority_level, flow_schema }, seconds)
}
