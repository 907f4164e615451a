import { randomUUID } from 'node:crypto'
import { toRevision } from '@setpoint/controller-runtime/api'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { findEtcd, findNewerEtcd } from '../../../../scripts/etcd.mjs'
import { type StorageHarness, storageConformance } from '../../../../test/storage/conformance.ts'
import { type EtcdProcess, patientMs, startEtcd } from '../../../../test/support/etcd.ts'
import { openEtcdStorage, replaceEtcdStore } from './index.ts'

const isLongRun = process.env.STORES === 'all'

/** Debian's etcd 3.4, and in the long run the 3.5 that the chart installs. */
const versions = { etcd: findEtcd, ...(isLongRun && { 'etcd 3.5': findNewerEtcd }) }

for (const [name, find] of Object.entries(versions)) {
  const binary = await find().catch((error: unknown) => error)
  if (typeof binary === 'string') conformsTo(name, binary, find === findEtcd)
  else if (process.env.CI) throw binary
  else test.skip(`the storage conforms on ${name}, which is missing: ${binary}`)
}

type Options = Parameters<typeof replaceEtcdStore>[0]

/** Lifts the revisions of a new store. */
async function restoreNothing(options: Options): Promise<void> {
  const { signal } = new AbortController()
  const replacement = await replaceEtcdStore(options, {
    above: toRevision(1_000_000_000),
    force: false,
    signal,
  })
  await replacement.complete()
  await replacement.close()
}

function conformsTo(name: string, binary: string, isOldest: boolean): void {
  describe(`on ${name}`, () => {
    let etcd: EtcdProcess
    beforeAll(async () => {
      etcd = await startEtcd({ unsafeNoFsync: true, binary })
    })
    afterAll(() => etcd?.stop())

    const harness = (prepare: (options: Options) => Promise<void>): StorageHarness => ({
      async open() {
        const prefix = `/conformance/${randomUUID()}`
        const options = { endpoints: [etcd.endpoint], prefix, deadlineMs: patientMs }
        await prepare(options)
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

    // The base of a restored store is the general case, and of any other it is 0.
    if (isLongRun && isOldest)
      storageConformance(
        name,
        harness(async () => {}),
      )
    storageConformance(`${name} after a restore`, harness(restoreNothing))
  })
}
