import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type StorageHarness, storageConformance } from '../../../test/storage/conformance.ts'
import { openEmbeddedStorage } from '../storage/embedded/index.ts'
import { EncryptedStorage } from './encrypted-storage.ts'
import { aesGcm } from './local-providers.ts'

/** A store with encrypted values is a store: at once, and with a key service. */

const provider = aesGcm({ name: 'one', secret: Buffer.alloc(32, 7) })
const later = {
  encrypt: async (key: string, value: Uint8Array) => provider.encrypt(key, value),
  decrypt: async (key: string, value: Buffer) => provider.decrypt(key, value),
  close: () => {},
}

const harness = (ciphers: ConstructorParameters<typeof EncryptedStorage>[1]): StorageHarness => ({
  async open() {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-encrypted-'))
    const open = async () =>
      new EncryptedStorage(await openEmbeddedStorage({ dataDir, durable: false }), ciphers)
    let storage = await open()
    return {
      storage,
      async reopen() {
        await storage.close()
        storage = await open()
        return storage
      },
      async dispose() {
        await storage.close()
        await rm(dataDir, { recursive: true })
      },
    }
  },
})

storageConformance('encrypted with a local key', harness(provider))
storageConformance('encrypted with a key service', harness(later))
