import { Histogram } from 'prom-client'
import { requestDefaults } from './request-metrics.ts'

/** Calls to etcd under Kubernetes' name. The storage opens before the metrics, so it registers afterwards. */
export class EtcdMetrics {
  readonly histogram = new Histogram({
    name: 'etcd_request_duration_seconds',
    help: 'Seconds that a call to etcd took, with its retries, by operation and object type.',
    labelNames: ['operation', 'type'],
    buckets: [...requestDefaults.buckets],
    registers: [],
  })

  /** An observer for the etcd storage. `key` is the key or prefix that the call concerned. */
  readonly observe = (operation: string, key: string, seconds: number): void => {
    this.histogram.observe({ operation, type: typeOf(key) }, seconds)
  }
}

/** Returns `<plural>.<group>` for keys of objects; for others, the first part of the key. */
function typeOf(key: string): string {
  const [room = '', group, plural] = key.split('/', 4)
  return room === 'objects' && group && plural ? `${plural}.${group}` : room
}
