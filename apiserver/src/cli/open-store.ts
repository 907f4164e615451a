import { silentLogger } from '@setpoint/controller-runtime/internal'
import { programVersion } from '../program-version.ts'
import { WatchedFiles } from '../security/index.ts'
import { checkFormat, type Storage } from '../storage/index.ts'
import { CertificateValidity } from './certificate-validity.ts'
import { etcdCertificates } from './etcd-certificates.ts'
import { etcdLogin } from './etcd-login.ts'
import type { StoreOptions } from './flags-store.ts'

/**
 * Gives a command the store that servers have written, and closes it afterwards. Never creates a store.
 * @throws StoreLockedError if a server has the embedded store open; StoreFolderError; StoreFormatError; the error of `use`
 */
export async function withStore<T>(store: StoreOptions, use: (storage: Storage) => Promise<T>): Promise<T> {
  const files = new WatchedFiles()
  const validity = new CertificateValidity(silentLogger)
  const storage = await open(store, files, validity)
  try {
    await checkFormat(storage, programVersion())
    return await use(storage)
  } finally {
    files.close()
    validity.close()
    await storage.close()
  }
}

async function open(
  store: StoreOptions,
  files: WatchedFiles,
  validity: CertificateValidity,
): Promise<Storage> {
  if (store.kind === 'embedded') {
    const { openEmbeddedStorage } = await import('../storage/embedded/index.ts')
    return openEmbeddedStorage({ dataDir: store.dataDir, create: false })
  }
  const { openEtcdStorage } = await import('../storage/etcd/index.ts')
  const watched = { files, validity, log: silentLogger }
  const { endpoints, prefix, tls } = store
  return openEtcdStorage({
    endpoints,
    prefix,
    tls: etcdCertificates(tls, watched),
    auth: etcdLogin(store, watched),
  })
}

/** Names the store for people. */
export function describeStore(store: StoreOptions): string {
  return store.kind === 'embedded'
    ? `the store in ${store.dataDir}`
    : `${store.prefix} in etcd at ${store.endpoints.join(', ')}`
}
