import { Histogram, type Registry } from 'prom-client'

/** Returns a function that counts a request to a webhook for conversion, under the name of Kubernetes. */
export function countConversions(registry: Registry): (seconds: number, succeeded: boolean) => void {
  const duration = new Histogram({
    name: 'apiserver_conversion_webhook_duration_seconds',
    help: 'Time that webhooks for conversion take, in seconds.',
    labelNames: ['result'],
    buckets: [0.005, 0.02, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30],
    registers: [registry],
  })
  return (seconds, succeeded) => duration.observe({ result: succeeded ? 'success' : 'failure' }, seconds)
}
