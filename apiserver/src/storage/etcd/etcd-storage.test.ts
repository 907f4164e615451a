import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll } from 'vitest'
import { type EtcdProcess, startEtcd } from '../../../../test/support/etcd.ts'
import { storageConformance } from '../conformance.ts'
import { openEtcdStorage } from './index.ts'

let etcd: EtcdProcess
beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
})
afterAll(() => etcd?.stop())

storageConformance('etcd', {
  async open() {
    const options = { endpoints: [etcd.endpoint], prefix: `/conformance/${randomUUID()}` }
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
