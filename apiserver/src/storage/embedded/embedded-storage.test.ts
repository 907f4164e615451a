import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { storageConformance } from '../conformance.ts'
import { openEmbeddedStorage } from './index.ts'

storageConformance('embedded', {
  async open() {
    const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-embedded-'))
    let storage = await openEmbeddedStorage({ dataDir })
    return {
      storage,
      async reopen() {
        await storage.close()
        storage = await openEmbeddedStorage({ dataDir })
        return storage
      },
      async dispose() {
        await storage.close()
        await rm(dataDir, { recursive: true })
      },
    }
  },
})
