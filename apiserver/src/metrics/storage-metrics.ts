import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import { Histogram, type Registry } from 'prom-client'
import { requestDefaults } from './request-metrics.ts'

/** The calls of a store. It opens before the metrics, so they are registered afterwards. */
export class StorageMetrics {
  readonly #calls = new Histogram({
    name: 'etcd_request_duration_seconds',
    help: 'Seconds that a call to etcd took, with its retries, by operation and object type.',
    labelNames: ['operation', 'type'],
    buckets: [...requestDefaults.buckets],
    registers: [],
  })
  readonly #commits = new Histogram({
    name: 'setpoint_storage_commit_duration_seconds',
    help: 'Seconds that the embedded store took to write and sync a commit of one or more transactions.',
    buckets: [...requestDefaults.buckets],
    registers: [],
  })
  /** Every endpoint that has been used, and whether it is the present one. */
  readonly #members = new Map<string, boolean>()

  /** An observer for the etcd storage. `key` is the key or prefix that the call concerned. */
  readonly observe = (operation: string, key: string, seconds: number): void => {
    this.#calls.observe({ operation, type: typeOf(key) }, seconds)
  }

  /** An observer for the member of etcd that takes the calls. */
  readonly onMember = (endpoint: string): void => {
    for (const known of this.#members.keys()) this.#members.set(known, false)
    this.#members.set(endpoint, true)
  }

  /** An observer for the embedded store. */
  readonly onCommit = (seconds: number): void => {
    this.#commits.observe(seconds)
  }

  register(registry: Registry, kind: 'etcd' | 'embedded'): void {
    if (kind === 'embedded') {
      registry.registerMetric(this.#commits)
      return
    }
    registry.registerMetric(this.#calls)
    new ScrapedMetrics(registry).gauge(
      'setpoint_etcd_member_in_use',
      '1 for the member of etcd that takes the calls of this server, 0 for those that did before.',
      ['endpoint'],
      () => Array.from(this.#members, ([endpoint, isUsed]) => [isUsed ? 1 : 0, endpoint]),
    )
  }
}

/** Returns `<plural>.<group>` for keys of objects; for others, the first part of the key. */
function typeOf(key: string): string {
  const [room = '', group, plural] = key.split('/', 4)
  return room === 'objects' && group && plural ? `${plural}.${group}` : room
}
