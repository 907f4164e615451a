import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { silentLogger } from '@setpoint/controller-runtime'
import { toRevision } from '@setpoint/controller-runtime/api'
import { HistoryReplay, LogFollower, type ModelCache, ReadGate } from '../../apiserver/dist/cache/index.js'
import { ServedModel } from '../../apiserver/dist/model/served-model.js'
import { openEmbeddedStorage } from '../../apiserver/dist/storage/embedded/index.js'
import { WatchHub } from '../../apiserver/dist/watch/index.js'
import { Item } from './plugin/index.js'

/** The modules from the cache to the watches, over a real store without changes. */
export interface WatchRooms extends AsyncDisposable {
  readonly served: ServedModel
  readonly cache: ModelCache
  readonly hub: WatchHub
  /** Applies a change to the cache at the next revision, as the log follower does. */
  put(name: string, value: Buffer): void
}

/** Above the store's own revisions. */
const firstRevision = 1_000_000

export async function openWatchRooms(): Promise<WatchRooms> {
  const dataDir = await mkdtemp(join(tmpdir(), 'setpoint-bench-'))
  const storage = await openEmbeddedStorage({ dataDir })
  const log = silentLogger
  const served = new ServedModel(Item)
  const follower = new LogFollower({ storage, log })
  follower.start()
  const cache = await follower.add(served, new AbortController().signal)
  const gate = new ReadGate(storage, follower)
  const hub = new WatchHub({ gate, replay: new HistoryReplay(storage), follower, log })
  return {
    served,
    cache,
    hub,
    put(name, value) {
      const revision = toRevision(Math.max(cache.revision, firstRevision) + 1)
      const key = served.keyPrefix + name
      cache.apply({ key, value, previous: undefined, revision, createRevision: revision })
    },
    async [Symbol.asyncDispose]() {
      hub.close()
      await follower.stop()
      await storage.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** A stored item: the body of a request with the metadata that the server adds. */
export function storedItem(
  name: string,
  spec: object,
  labels: Readonly<Record<string, string>> = {},
): Buffer {
  const metadata = {
    name,
    uid: `00000000-0000-4000-8000-${name.slice(-12).padStart(12, '0')}`,
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00.000Z',
    labels,
  }
  return Buffer.from(
    `{}\n${JSON.stringify({ apiVersion: Item.apiVersion, kind: Item.kind, metadata, spec })}`,
  )
}
