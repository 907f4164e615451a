import type { EtcdProcess } from './etcd.ts'
import { fieldsOf } from './json.ts'

/** What an operator does about a full etcd, over its gateway. */

/** Flags for an etcd that is soon full. */
export const smallQuota = ['--quota-backend-bytes', `${8 * 1024 * 1024}`]

/** `etcdctl compact` at the current revision. */
export async function compactAll(etcd: EtcdProcess): Promise<void> {
  const { header } = await maintain(etcd, 'kv/range', { key: 'AA==' })
  await maintain(etcd, 'kv/compaction', { revision: fieldsOf(header).revision, physical: true })
}

/** `etcdctl defrag` */
export async function defragment(etcd: EtcdProcess): Promise<void> {
  await maintain(etcd, 'maintenance/defragment', {})
}

/** `etcdctl alarm disarm` */
export async function disarm(etcd: EtcdProcess): Promise<void> {
  const { alarms = [] } = await maintain(etcd, 'maintenance/alarm', { action: 'GET' })
  if (!Array.isArray(alarms)) throw new Error(`not a list of alarms: ${alarms}`)
  for (const one of alarms) await maintain(etcd, 'maintenance/alarm', { ...one, action: 'DEACTIVATE' })
}

async function maintain(
  { endpoint }: EtcdProcess,
  call: string,
  body: object,
): Promise<Record<string, unknown>> {
  const response = await fetch(`${endpoint}/v3/${call}`, { method: 'POST', body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${call} failed: ${await response.text()}`)
  return fieldsOf(await response.json())
}
