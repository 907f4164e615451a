import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import { Histogram, type Registry } from 'prom-client'

/** The queues of requests, as far as metrics need them. */
interface Queues {
  loads(): Iterable<{ class: string; waiting: number }>
  readonly bodies: { readonly bytes: number }
  readonly routeBodies: { readonly bytes: number }
  tallies(): Iterable<{
    class: string
    kind: string
    tally: { dispatched: number; full: number; late: number; cancelled: number; bodies: number }
  }>
  onWaited: (requestClass: string, kind: string, seconds: number) => void
}

/**
 * Registers the metrics of the queues, under the names of Kubernetes' API Priority and Fairness: the priority level is
 * the class of a request, the flow schema the kind of its identity.
 */
export function describeQueues(registry: Registry, queues: Queues): void {
  const scraped = new ScrapedMetrics(registry)
  const labelNames = ['priority_level', 'flow_schema'] as const
  scraped.counter(
    'apiserver_flowcontrol_dispatched_requests_total',
    'Requests that were admitted, at once or after waiting.',
    labelNames,
    () => Array.from(queues.tallies(), ({ class: level, kind, tally }) => [tally.dispatched, level, kind]),
  )
  scraped.counter(
    'apiserver_flowcontrol_rejected_requests_total',
    'Requests that were refused: queue-full, time-out and bodies-full got 429, cancelled means that the client left.',
    [...labelNames, 'reason'],
    // From 0 on, because Prometheus does not see the increase of a counter that appears with 1.
    function* () {
      for (const { class: level, kind, tally } of queues.tallies()) {
        yield [tally.full, level, kind, 'queue-full']
        yield [tally.late, level, kind, 'time-out']
        yield [tally.cancelled, level, kind, 'cancelled']
        yield [tally.bodies, level, kind, 'bodies-full']
      }
    },
  )
  scraped.gauge(
    'apiserver_flowcontrol_current_inqueue_requests',
    'Requests that wait to be admitted.',
    ['priority_level'],
    () => Array.from(queues.loads(), ({ class: level, waiting }) => [waiting, level]),
  )
  scraped.gauge(
    'setpoint_flowcontrol_held_bytes',
    'Bytes of request bodies, from their arrival until the response is ready.',
    [],
    () => [[queues.bodies.bytes + queues.routeBodies.bytes]],
  )
  const waits = new Histogram({
    name: 'apiserver_flowcontrol_request_wait_duration_seconds',
    help: 'Seconds that admitted requests have waited, without those that were admitted at once.',
    labelNames,
    buckets: [0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15],
    registers: [registry],
  })
  queues.onWaited = (priority_level, flow_schema, seconds) =>
    waits.observe({ priority_level, flow_schema }, seconds)
}
