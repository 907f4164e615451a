import { join } from 'node:path'
import { openEmbeddedStorage } from '../../apiserver/src/storage/embedded/index.ts'
import { open } from '../../apiserver/src/storage/embedded/lmdb.ts'
import { decodePresent, toKeyValue } from '../../apiserver/src/storage/embedded/rows.ts'
import { openEtcdStorage } from '../../apiserver/src/storage/etcd/index.ts'
import type { Storage } from '../../apiserver/src/storage/index.ts'

/** Where a store is: a folder, or a prefix of etcd. */
export type StorePlace = { readonly dataDir: string } | { readonly endpoint: string; readonly prefix: string }

/** Gives a test the store below the program. An embedded one must not be in use. */
export async function withStoreAt<T>(place: StorePlace, use: (storage: Storage) => Promise<T>): Promise<T> {
  const storage =
    'dataDir' in place
      ? await openEmbeddedStorage(place)
      : await openEtcdStorage({ endpoints: [place.endpoint], prefix: place.prefix })
  try {
    return await use(storage)
  } finally {
    await storage.close()
  }
}

/** Reads a store that another process uses. */
export interface Peek {
  value(key: string): Promise<Buffer | undefined>
  close(): Promise<void>
}

/** Opens a store that exists for reading alone. */
export async function peekAt(place: StorePlace): Promise<Peek> {
  if (!('dataDir' in place)) {
    const storage = await openEtcdStorage({ endpoints: [place.endpoint], prefix: place.prefix })
    return { value: async key => (await storage.get(key)).pair?.value, close: () => storage.close() }
  }
  // The lock of the folder is for writers. LMDB lets other processes read.
  const path = join(place.dataDir, 'store.mdb')
  const encoding = 'binary'
  const root = open<Buffer, Buffer>({ path, noSubdir: true, readOnly: true, encoding, keyEncoding: encoding })
  const table = root.openDB<Buffer, Buffer>({ name: 'present', encoding, keyEncoding: encoding })
  return {
    async value(key) {
      root.resetReadTxn()
      const row = table.get(Buffer.from(key))
      return row && toKeyValue(key, decodePresent(Buffer.from(row))).value
    },
    close: () => root.close(),
  }
}
