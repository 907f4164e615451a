import { defineModel, silentLogger } from '@setpoint/controller-runtime'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ServedModel } from '../apiserver/src/model/served-model.ts'
import { claimIndexes } from '../apiserver/src/plugins/index.ts'
import { defaultWriteOptions, Registry } from '../apiserver/src/registry/index.ts'
import { openEtcdStorage } from '../apiserver/src/storage/etcd/index.ts'
import type { Storage } from '../apiserver/src/storage/index.ts'
import { type EtcdProcess, patientMs, startEtcd } from './support/etcd.ts'

let etcd: EtcdProcess
const storages: Storage[] = []

beforeAll(async () => {
  etcd = await startEtcd({ unsafeNoFsync: true })
  for (let i = 0; i < 2; i++)
    storages.push(await openEtcdStorage({ endpoints: [etcd.endpoint], deadlineMs: patientMs }))
})

afterAll(async () => {
  for (const storage of storages) await storage.close()
  await etcd.stop()
})

/** Starts a kind on one server, creates an object as soon as possible, and returns a function that creates another. */
async function startAndCreate(storage: Storage, plural: string, scope: 'Cluster' | 'Namespaced') {
  const model = defineModel({
    ...{
      group: 'scope.example.com',
      version: 'v1',
      kind: `Kind${plural}`,
      singular: `one-${plural}`,
      plural,
    },
    scope,
    schema: { spec: { type: 'object' } },
  })
  const served = new ServedModel(model)
  const registry = new Registry({ storage, reservedDomain: 'setpoint.dev' })
  const { signal } = new AbortController()
  await claimIndexes({ storage, records: registry.records, served, log: silentLogger, signal })
  const { apiVersion, kind } = model
  const namespace = scope === 'Namespaced' ? { namespace: 'a' } : {}
  const options = { ...defaultWriteOptions, ...namespace }
  const create = (name: string) =>
    registry.create(served, { apiVersion, kind, metadata: { name }, spec: {} }, options)
  await create('first')
  return () => create('second')
}

it('two servers that start an empty kind with different scopes at once never store objects under both', async () => {
  const [one, two] = storages
  if (one === undefined || two === undefined) throw new Error('no storage')
  for (let round = 0; round < 30; round++) {
    const plural = `r${round}`
    const outcomes = await Promise.allSettled([
      startAndCreate(one, plural, 'Cluster'),
      startAndCreate(two, plural, 'Namespaced'),
    ])
    const { pairs } = await one.list(`objects/scope.example.com/${plural}/`, { limit: 10, keysOnly: true })
    const created = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? outcome.value : []))
    expect({ round, created: created.length, stored: pairs.length }).toEqual({ round, created: 1, stored: 1 })
    await created[0]?.()
  }
})
