import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { findEtcdutl } from '../../scripts/etcd.mjs'
import { fieldsOf, textOf } from './json.ts'
import { need } from './tools.ts'

await need(findEtcdutl)

/** Snapshots of etcd: saved as `etcdctl` does, restored by the real `etcdutl`. */

/** Saves a snapshot of a running member. */
export async function saveSnapshot({ endpoint }: { readonly endpoint: string }, file: string): Promise<void> {
  const response = await fetch(`${endpoint}/v3/maintenance/snapshot`, { method: 'POST', body: '{}' })
  const parts = (await response.text()).trimEnd().split('\n')
  const blobs = parts.map(part =>
    Buffer.from(textOf(fieldsOf(fieldsOf(JSON.parse(part)).result).blob), 'base64'),
  )
  await writeFile(file, Buffer.concat(blobs))
}

/** Makes the data folder of a single member. The folder must not exist. */
export async function restoreSnapshot(
  file: string,
  dataDir: string,
  flags: readonly string[],
): Promise<void> {
  await promisify(execFile)(await findEtcdutl(), [
    'snapshot',
    'restore',
    file,
    '--data-dir',
    dataDir,
    ...flags,
  ])
}
