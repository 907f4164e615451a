import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { type StoreSpace, StoreUnavailableError } from '../contract.ts'
import type { TlsOptions } from './client.ts'

/** Bytes of a member's metrics that are read. A member has some 200 KB of them. */
const mostBytes = 8 * 1024 * 1024

/**
 * Reads the space of a member from its metrics. They need no login. `Status` has no quota before etcd 3.6, and some
 * versions allow it only to root.
 * @throws StoreUnavailableError
 */
export async function spaceOf(
  endpoint: string,
  tls: TlsOptions | undefined,
  signal: AbortSignal,
): Promise<StoreSpace> {
  const values = new Map<string, number>()
  for (const line of (await metricsOf(endpoint, tls, signal)).split('\n')) {
    if (!line.startsWith('etcd_')) continue
    const [name = '', value] = line.split(' ', 2)
    values.set(name, Number(value))
  }
  const sizeBytes = values.get('etcd_mvcc_db_total_size_in_bytes')
  const usedBytes = values.get('etcd_mvcc_db_total_size_in_use_in_bytes')
  if (sizeBytes === undefined || usedBytes === undefined)
    throw new StoreUnavailableError(`${endpoint}/metrics has no metrics of etcd`)
  const quotaBytes = values.get('etcd_server_quota_backend_bytes')
  // Without a quota it is 0 or negative.
  return {
    sizeBytes,
    usedBytes,
    quotaBytes: quotaBytes && quotaBytes > 0 ? quotaBytes : undefined,
    diskFreeBytes: undefined,
  }
}

function metricsOf(endpoint: string, tls: TlsOptions | undefined, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown) =>
      reject(new StoreUnavailableError(`failed to read the metrics of etcd at ${endpoint}`, { cause: error }))
    const request = endpoint.startsWith('https:') ? httpsRequest : httpRequest
    request(`${endpoint}/metrics`, { ...tls, signal, agent: false }, response => {
      const chunks: Buffer[] = []
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes <= mostBytes) chunks.push(chunk)
        else response.destroy(new Error(`more than ${mostBytes} bytes`))
      })
      response.on('error', fail)
      response.on('end', () => {
        if (response.statusCode === 200) resolve(Buffer.concat(chunks).toString())
        else fail(new Error(`HTTP status ${response.statusCode}`))
      })
    })
      .on('error', fail)
      .end()
  })
}
