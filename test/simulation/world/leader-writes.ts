import type { Transport } from '@setpoint/controller-runtime'

/** Tells of the paths of the writes that only the leader may send. Every candidate writes the lease. */
export function recordWrites(inner: Transport, record: (path: string) => void): Transport {
  return {
    request: request => {
      if (request.method !== 'GET' && !request.path.includes('/leases')) record(request.path)
      return inner.request(request)
    },
    watch: (path, options) => inner.watch(path, options),
  }
}
