import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { findEtcd, findNewerEtcd } from '../../../../scripts/etcd.mjs'
import { storageConformance } from '../../../../test/storage/conformance.ts'
import { type EtcdProcess, patientMs, startEtcd } from '../../../../test/support/etcd.ts'
import { openEtcdStorage } from './index.ts'

/** Debian's etcd 3.4, and in the long run the 3.5 that the chart installs. */
const versions = { etcd: findEtcd, ...(process.env.STORES === 'all' && { 'etcd 3.5': findNewerEtcd }) }

for (const [name, find] of Object.entries(versions)) {
  const binary = await find().catch((error: unknown) => error)
  if (typeof binary === 'string') conformsTo(name, binary)
  else if (process.env.CI) throw binary
  else test.skip(`the storage conforms on ${name}, which is missing: ${binary}`)
}

function conformsTo(name: string, binary: string): void {
  describe(`on ${name}`, () => {
    let etcd: EtcdProcess
    beforeAll(async () => {
      etcd = await startEtcd({ unsafeNoFsync: true, binary })
    })
    afterAll(() => etcd?.stop())

    storageConformance(name, {
      async open() {
        const prefix = `/conformance/${randomUUID()}`
        const options = { endpoints: [etcd.endpoint], prefix, deadlineMs: patientMs }
        let storage = await openEtcdStorage(options)
        return {
          storage,
          async reopen() {
            await storage.close()
            storage = await openEtcdStorage(options)
            return storage
          },
          dispose: () => storage.close(),
        }
      },
    })
  })
}
