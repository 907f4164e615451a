import type { Logger } from '../log/index.ts'
import type { EtcdMetrics } from '../metrics/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import type { Fullness, Storage } from '../storage/index.ts'
import type { StoreOptions } from './flags-store.ts'

/** @throws StoreLockedError, StoreFolderError */
export async function openStorage(
  store: StoreOptions,
  { tls, auth }: Pick<EtcdStorageOptions, 'tls' | 'auth'>,
  { observe }: EtcdMetrics,
  fullness: Fullness,
  log: Logger,
): Promise<Storage> {
  // Loading lmdb or the etcd client is a large part of the program's start.
  if (store.kind === 'embedded') {
    const { openEmbeddedStorage } = await import('../storage/embedded/index.ts')
    return openEmbeddedStorage({ dataDir: store.dataDir, compact: store.compact, fullness, log })
  }
  const { openEtcdStorage } = await import('../storage/etcd/index.ts')
  return openEtcdStorage({
    endpoints: store.endpoints,
    prefix: store.prefix,
    tls,
    auth,
    observe,
    fullness,
    log,
  })
}
