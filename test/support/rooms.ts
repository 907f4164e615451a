import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  defineModel,
  type Model,
  multiValueIndex,
  silentLogger,
  singleValueIndex,
} from '@setpoint/controller-runtime'
import { LogFollower, type ModelCache, ReadGate } from '../../apiserver/src/cache/index.ts'
import { loadRules } from '../../apiserver/src/model/rule-loader.ts'
import { ServedModel } from '../../apiserver/src/model/served-model.ts'
import { Registry } from '../../apiserver/src/registry/index.ts'
import { openEmbeddedStorage } from '../../apiserver/src/storage/embedded/index.ts'
import type { Storage } from '../../apiserver/src/storage/index.ts'

/** A model with one index of each type. */
export const testModel = defineModel({
  group: 'test.example.com',
  version: 'v1',
  kind: 'Thing',
  singular: 'thing',
  plural: 'things',
  schema: {
    spec: {
      type: 'object',
      properties: {
        email: { type: 'string', maxLength: 20 },
        n: { type: 'integer', minimum: 0, maximum: 100 },
        tags: { type: 'array', items: { type: 'string' } },
      },
    },
    status: { type: 'object', properties: { phase: { type: 'string' } } },
  },
  subresources: { status: true },
  indexes: [
    singleValueIndex({ name: 'spec.email', unique: true, indexFunc: thing => thing.spec.email }),
    singleValueIndex({ name: 'spec.n', indexFunc: thing => thing.spec.n?.toString().padStart(3, '0') }),
    multiValueIndex({ name: 'spec.tags', indexFunc: thing => thing.spec.tags ?? [] }),
  ],
})

/** The registry and the cache over a store. */
export interface Rooms extends AsyncDisposable {
  readonly storage: Storage
  readonly served: ServedModel
  readonly registry: Registry
  readonly follower: LogFollower
  readonly gate: ReadGate
  readonly cache: ModelCache
}

/** @param given the store. Default: an embedded one in a temporary folder. */
export async function openRooms(model: Model = testModel, given?: Storage): Promise<Rooms> {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-test-'))
  const storage = given ?? (await openEmbeddedStorage({ dataDir }))
  await loadRules([model])
  const served = new ServedModel(model)
  const follower = new LogFollower({ storage, log: silentLogger })
  const registry = new Registry({
    storage,
    reservedDomain: 'setpoint.dev',
    cached: (kind, name) => follower.entryOf(kind, name),
  })
  follower.start()
  await registry.records.establish(served)
  const cache = await follower.add(served, new AbortController().signal)
  served.phase = { name: 'Started' }
  return {
    storage,
    served,
    registry,
    follower,
    gate: new ReadGate(storage, follower),
    cache,
    async [Symbol.asyncDispose]() {
      await follower.stop()
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** Returns the request body for a thing. */
export function thing(name: string, spec: object = {}, metadata: object = {}): object {
  return { apiVersion: testModel.apiVersion, kind: testModel.kind, metadata: { name, ...metadata }, spec }
}

/** Binds the methods of a storage, so that a test can replace some of them: `{ ...bound(storage), head }`. */
export function bound(storage: Storage): Storage {
  return {
    get: storage.get.bind(storage),
    list: storage.list.bind(storage),
    transact: storage.transact.bind(storage),
    watch: storage.watch.bind(storage),
    head: storage.head.bind(storage),
    compact: storage.compact.bind(storage),
    space: storage.space.bind(storage),
    close: async () => {},
  }
}

/** Returns a promise that resolves when the test calls `release`. */
export function hold(): { held: Promise<void>; release: () => void } {
  let release = () => {}
  const held = new Promise<void>(resolve => {
    release = resolve
  })
  return { held, release }
}

/** A list that counts reads of its items, to show that work grows with the list and not with its square. */
export function countReads<T>(items: T[]): { list: T[]; reads: () => number } {
  let reads = 0
  const list = new Proxy(items, {
    get(target, property) {
      if (property !== 'length') reads++
      return Reflect.get(target, property)
    },
  })
  return { list, reads: () => reads }
}
