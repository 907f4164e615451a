import type { PluginMetrics } from '@setpoint/controller-runtime'

/** The metrics of the plugin; their names get the prefix `plugin_webhooks_`. */
export type Metrics = ReturnType<typeof declareMetrics>

export function declareMetrics(metrics: PluginMetrics) {
  return {
    attempts: metrics.counter({
      name: 'attempts_total',
      help: 'Requests to receivers by result: success or failure.',
      labelNames: ['subscription', 'result'],
    }),
    duration: metrics.histogram({
      name: 'attempt_duration_seconds',
      help: 'Duration of requests to receivers, without the wait for a free slot.',
    }),
    deadLetters: metrics.counter({
      name: 'dead_letters_total',
      help: 'Deliveries that became dead letters.',
      labelNames: ['subscription'],
    }),
    resyncs: metrics.counter({
      name: 'resyncs_total',
      help: 'Times that the current state was delivered, because changes could no longer be read.',
      labelNames: ['subscription'],
    }),
    pending: metrics.gauge({
      name: 'pending_deliveries',
      help: 'Changes that were read and are neither delivered nor dead letters.',
      labelNames: ['subscription'],
    }),
    oldest: metrics.gauge({
      name: 'oldest_pending_timestamp_seconds',
      help: 'When the oldest of them was read, in seconds since the epoch. 0 if there are none.',
      labelNames: ['subscription'],
    }),
  }
}

/** Removes the gauges of a subscription that this process no longer serves, and its counters if it has ended. */
export function forgetSubscription(
  metrics: Metrics,
  subscription: string,
  { ended }: { ended: boolean },
): void {
  metrics.pending.remove({ subscription })
  metrics.oldest.remove({ subscription })
  if (!ended) return
  for (const result of ['success', 'failure']) metrics.attempts.remove({ subscription, result })
  metrics.deadLetters.remove({ subscription })
  metrics.resyncs.remove({ subscription })
}
