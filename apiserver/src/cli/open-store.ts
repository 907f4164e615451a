import { programVersion } from '../program-version.ts'
import type { EtcdStorageOptions } from '../storage/etcd/index.ts'
import { checkFormat, type Replacement, type ReplacementOptions, type Storage } from '../storage/index.ts'
import { encrypted, openEncryption } from './encryption.ts'
import { type NamedText, passwordIn } from './flags-files.ts'
import type { EtcdStoreOptions, StoreOptions } from './flags-store.ts'

/** The store as the commands use it that run once: without metrics, and without reloading files. */

/**
 * Opens the store that servers have written. Never creates one.
 * @param mayBeEmpty true if a prefix of etcd without keys is no error
 * @throws StoreLockedError if a server has the embedded store open; StoreFolderError; StoreFormatError; Error if etcd
 * has nothing
 *   below the prefix
 */
export async function openStore(store: StoreOptions, { mayBeEmpty = false } = {}): Promise<Storage> {
  const storage = await open(store)
  try {
    const hasFormat = await checkFormat(storage, programVersion())
    if (store.kind === 'etcd' && !hasFormat && !mayBeEmpty) await refuseEmpty(storage, store)
    return storage
  } catch (error) {
    await storage.close()
    throw error
  }
}

/** Stores from before the format was recorded have other keys. @throws Error */
async function refuseEmpty(storage: Storage, store: StoreOptions): Promise<void> {
  const { pairs } = await storage.list('', { limit: 1, keysOnly: true })
  if (pairs.length === 0)
    throw new Error(`${describeStore(store)} has no store: is it the --etcd-prefix of the servers?`)
}

/**
 * Gives a command the store, and closes it afterwards.
 * @param file how its values are encrypted; without it they are given as they are stored
 * @throws as `openStore`; the error of `use`
 */
export async function withStore<T>(
  store: StoreOptions,
  use: (storage: Storage) => Promise<T>,
  file?: NamedText,
): Promise<T> {
  const stored = await openStore(store)
  const storage = file === undefined ? stored : await encrypted(stored, await openEncryption(file))
  try {
    return await use(storage)
  } finally {
    await storage.close()
  }
}

/** Begins to replace the content of a store, which need not exist. @throws StoreNotEmptyError, StoreLockedError */
export async function replaceStore(store: StoreOptions, options: ReplacementOptions): Promise<Replacement> {
  if (store.kind === 'etcd') {
    const { replaceEtcdStore } = await import('../storage/etcd/index.ts')
    return replaceEtcdStore(etcdOptions(store), options)
  }
  const { replaceEmbeddedStore } = await import('../storage/embedded/index.ts')
  return replaceEmbeddedStore({ dataDir: store.dataDir }, options)
}

/** Names the store for people. */
export function describeStore(store: StoreOptions): string {
  return store.kind === 'embedded'
    ? `the store in ${store.dataDir}`
    : `${store.prefix} in etcd at ${store.endpoints.join(', ')}`
}

async function open(store: StoreOptions): Promise<Storage> {
  if (store.kind === 'etcd') {
    const { openEtcdStorage } = await import('../storage/etcd/index.ts')
    return openEtcdStorage(etcdOptions(store))
  }
  const { openEmbeddedStorage } = await import('../storage/embedded/index.ts')
  const { dataDir, compact } = store
  return openEmbeddedStorage({ dataDir, compact, create: false })
}

function etcdOptions({ endpoints, prefix, tls, credentials }: EtcdStoreOptions): EtcdStorageOptions & {
  readonly prefix: string
} {
  const { ca, cert, key } = tls
  const pem = (file: { readonly text: string } | undefined) => file && Buffer.from(file.text)
  const hasTls = ca !== undefined || cert !== undefined
  return {
    endpoints,
    prefix,
    tls: hasTls ? { ca: pem(ca), cert: pem(cert), key: pem(key) } : undefined,
    auth: credentials && {
      user: credentials.username,
      password: credentials.passwordFile ? passwordIn(credentials.passwordFile.text) : credentials.password,
    },
  }
}
