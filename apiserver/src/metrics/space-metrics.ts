import { ScrapedMetrics } from '@setpoint/controller-runtime/internal'
import type { Registry } from 'prom-client'

/** Sizes in bytes, as of the latest look; undefined if the store did not tell. */
interface SpaceSource {
  readonly latest:
    | {
        readonly sizeBytes: number
        readonly usedBytes: number
        readonly quotaBytes: number | undefined
        readonly diskFreeBytes: number | undefined
      }
    | undefined
  readonly isFull: boolean
}

/** Registers the space of the store. */
export function describeSpace(registry: Registry, space: SpaceSource): void {
  const metrics = new ScrapedMetrics(registry)
  metrics.gauge(
    'apiserver_storage_size_bytes',
    'Bytes of the file of the store; of the largest one, if etcd has several members.',
    [],
    () => (space.latest === undefined ? [] : [[space.latest.sizeBytes]]),
  )
  metrics.gauge('setpoint_storage_used_bytes', 'Bytes of that file that are in use.', [], () =>
    space.latest === undefined ? [] : [[space.latest.usedBytes]],
  )
  metrics.gauge(
    'setpoint_storage_quota_bytes',
    'Bytes that the quota of etcd allows for that file.',
    [],
    () => (space.latest?.quotaBytes === undefined ? [] : [[space.latest.quotaBytes]]),
  )
  metrics.gauge(
    'setpoint_storage_disk_free_bytes',
    'Free bytes of the disk of the embedded store.',
    [],
    () => (space.latest?.diskFreeBytes === undefined ? [] : [[space.latest.diskFreeBytes]]),
  )
  metrics.gauge(
    'setpoint_storage_full',
    '1 if the store has refused the latest write for lack of space, else 0.',
    [],
    () => [[space.isFull ? 1 : 0]],
  )
}
