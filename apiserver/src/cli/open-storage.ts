import type { Logger } from '../log/index.ts'
import type { StorageMetrics } from '../metrics/index.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import type { Fullness, Storage } from '../storage/index.ts'
import type { StoreOptions } from './flags-store.ts'

/** Opens the store of a server. @throws StoreLockedError, StoreFolderError */
export async function openStorage(
  store: StoreOptions,
  { tls, auth }: Pick<EtcdStorageOptions, 'tls' | 'auth'>,
  { observe, onMember, onCommit }: StorageMetrics,
  fullness: Fullness,
  log: Logger,
): Promise<Storage> {
  // Loading lmdb or the etcd client is a large part of the program's start.
  if (store.kind === 'embedded') {
    const { openEmbeddedStorage } = await import('../storage/embedded/index.ts')
    const { dataDir, compact } = store
    return openEmbeddedStorage({ dataDir, compact, fullness, onCommit, log })
  }
  const { openEtcdStorage } = await import('../storage/etcd/index.ts')
  return openEtcdStorage({
    endpoints: store.endpoints,
    prefix: store.prefix,
    tls,
    auth,
    observe,
    onMember,
    fullness,
    log,
  })
}
