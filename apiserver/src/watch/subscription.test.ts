import type { WatchEvent } from '@setpoint/controller-runtime'
import { parseFieldSelector, parseLabelSelector, selectsEverything } from '@setpoint/controller-runtime/api'
import { toRevision, type WatchEnd } from '@setpoint/controller-runtime/internal'
import { describe, expect, it } from 'vitest'
import { openRooms, type Rooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { serverSentEvents } from './codec.ts'
import { ModelWatches } from './model-watches.ts'
import { type Subscription, type WatchRequest, type WatchSink, watchDefaults } from './subscription.ts'

const everything: WatchRequest = {
  key: undefined,
  selector: selectsEverything,
  after: undefined,
  initialEvents: true,
  bookmarks: true,
  lifetimeMs: 60_000,
}

/** A client that reads only when told to. */
class Client implements WatchSink {
  readonly codec = serverSentEvents
  readonly events: WatchEvent[] = []
  /** The version to resume from after each event. */
  readonly versions: (number | undefined)[] = []
  readonly writes: Buffer[] = []
  ended: WatchEnd | undefined
  backlog = 0
  keepsUp = true

  write(bytes: Buffer): void {
    this.writes.push(bytes)
    for (const text of bytes.toString().split('\n\n').slice(0, -1)) {
      const { id, data = '' } = /^(?:id: (?<id>\d+)\n)?data: (?<data>.*)$/.exec(text)?.groups ?? {}
      this.events.push(JSON.parse(data))
      this.versions.push(id === undefined ? undefined : Number(id))
    }
    if (!this.keepsUp) this.backlog += bytes.length
  }
  end(end: WatchEnd): void {
    this.ended = end
  }
  /** `TYPE name` for each event; the end of the initial events is `SYNC`. */
  get said(): string[] {
    return this.events.map(({ type, object }) => {
      if (type === 'ERROR') return `ERROR ${object.code}`
      const { metadata } = object
      if (type === 'BOOKMARK')
        return metadata.annotations === undefined ? `BOOKMARK@${metadata.version}` : 'SYNC'
      return `${type} ${object.metadata.name}`
    })
  }
}

let watches: ModelWatches
const now = 0

/** Subscribes as the hub does. */
async function watch(rooms: Rooms, request: WatchRequest, client: Client): Promise<Subscription> {
  const present = await rooms.gate.pass()
  const subscription = watches.add({ request, sink: client, present, now: () => now })
  subscription.pump()
  return subscription
}

async function openWatchedRooms(): Promise<Rooms> {
  const rooms = await openRooms()
  watches = new ModelWatches(rooms.cache, { open: 0, sent: 0, tooSlow: 0 })
  return rooms
}

/** Waits until the clients that keep up have every earlier write. */
async function settled({ gate }: Rooms): Promise<void> {
  await gate.pass()
  await new Promise(resolve => setImmediate(resolve))
  await new Promise(resolve => setImmediate(resolve))
}

describe('a watch', () => {
  it('begins with the existing objects by name, and continues with every change in the order of versions', async () => {
    await using rooms = await openWatchedRooms()
    const { registry, served } = rooms
    for (const name of ['b', 'c', 'a']) await registry.create(served, thing(name), options)
    const client = new Client()
    await watch(rooms, everything, client)
    await registry.patch(served, 'b', { type: 'merge', document: { spec: { n: 1 } } }, 'object', options)
    await registry.delete(served, 'a', {}, options)
    await settled(rooms)
    expect(client.said).toEqual(['ADDED a', 'ADDED b', 'ADDED c', 'SYNC', 'MODIFIED b', 'DELETED a'])
    expect(client.versions.slice(0, 3)).toEqual([undefined, undefined, undefined])
    const versions = client.events
      .slice(3)
      .map(({ object }) =>
        'metadata' in object && 'version' in object.metadata ? Number(object.metadata.version) : 0,
      )
    expect(versions).toEqual([...versions].sort((a, b) => a - b))
    expect(client.versions.slice(3)).toEqual(versions)
  })

  it('reports objects that start to match as added and those that stop as deleted, with the version of the change', async () => {
    await using rooms = await openWatchedRooms()
    const { registry, served } = rooms
    const byTag = new Client()
    const byLabel = new Client()
    await watch(
      rooms,
      { ...everything, selector: { labels: [], fields: parseFieldSelector('spec.tags=t') } },
      byTag,
    )
    await watch(
      rooms,
      { ...everything, selector: { labels: parseLabelSelector('!hidden'), fields: [] } },
      byLabel,
    )
    const set = (document: object) =>
      registry.patch(served, 'a', { type: 'merge', document }, 'object', options)
    await registry.create(served, thing('a'), options)
    await set({ spec: { tags: ['t'] } })
    await set({ spec: { tags: ['t', 'u'] } })
    const left = await set({ spec: { tags: ['u'] } })
    await set({ metadata: { labels: { hidden: 'yes' } } })
    await settled(rooms)
    expect(byTag.said).toEqual(['SYNC', 'ADDED a', 'MODIFIED a', 'DELETED a'])
    const deleted = byTag.events.at(-1)
    expect(deleted?.object).toMatchObject({
      metadata: { version: JSON.parse(left.bytes.toString()).metadata.version },
      spec: { tags: ['t', 'u'] },
    })
    expect(byLabel.said).toEqual(['SYNC', 'ADDED a', 'MODIFIED a', 'MODIFIED a', 'MODIFIED a', 'DELETED a'])
  })

  it('resumed after any version sends exactly the later changes', async () => {
    await using rooms = await openWatchedRooms()
    const { registry, served, gate } = rooms
    const start = await gate.pass()
    const versions: string[] = []
    for (let n = 0; n < 20; n++) {
      const { bytes } = await registry.create(served, thing(`t${n}`), options)
      versions.push(JSON.parse(bytes.toString()).metadata.version)
    }
    for (const [at, version] of [String(start), ...versions].entries()) {
      const client = new Client()
      await watch(rooms, { ...everything, after: toRevision(Number(version)), initialEvents: false }, client)
      expect(client.said).toEqual(Array.from({ length: 20 - at }, (_, n) => `ADDED t${at + n}`))
    }
  })

  it("sends initial events at the client's pace, and then exactly the changes made meanwhile", async () => {
    await using rooms = await openWatchedRooms()
    const { registry, served } = rooms
    const large = { tags: ['x'.repeat(watchDefaults.paceBytes / 4)] }
    for (let n = 0; n < 12; n++)
      await registry.create(served, thing(`t${String(n).padStart(2, '0')}`, large), options)
    const client = new Client()
    client.keepsUp = false
    const subscription = await watch(rooms, everything, client)
    const first = client.events.length
    expect(first).toBeLessThan(6)
    await registry.patch(served, 't11', { type: 'merge', document: { spec: { n: 1 } } }, 'object', options)
    await registry.delete(served, 't00', {}, options)
    await settled(rooms)
    expect(client.events).toHaveLength(first)
    while (client.backlog > 0) {
      client.backlog = 0
      subscription.pump()
    }
    const initial = Array.from({ length: 12 }, (_, n) => `ADDED t${String(n).padStart(2, '0')}`)
    expect(client.said).toEqual([...initial, 'SYNC', 'MODIFIED t11', 'DELETED t00'])
    expect(client.ended).toBeUndefined()
  })

  it('that does not keep up with live changes is closed, without effect on others', async () => {
    await using rooms = await openWatchedRooms()
    const { registry, served } = rooms
    const slow = new Client()
    const quick = new Client()
    await watch(rooms, everything, slow)
    await watch(rooms, everything, quick)
    slow.keepsUp = false
    const large = { tags: ['x'.repeat(1_000_000)] }
    for (let n = 0; n < 6; n++) await registry.create(served, thing(`t${n}`, large), options)
    await settled(rooms)
    expect(slow.ended?.code).toBe(1013)
    expect(quick.said).toHaveLength(7)
    expect(quick.ended).toBeUndefined()
  })

  it("of a name gets only that object's events, before, while and after it exists", async () => {
    await using rooms = await openWatchedRooms()
    const { registry, served } = rooms
    const client = new Client()
    await watch(rooms, { ...everything, key: 'me' }, client)
    for (const name of ['other', 'me']) await registry.create(served, thing(name), options)
    for (const name of ['other', 'me']) await registry.delete(served, name, {}, options)
    await settled(rooms)
    expect(client.said).toEqual(['SYNC', 'ADDED me', 'DELETED me'])
  })

  it('gets a 410, not a gap, when the next events are gone', async () => {
    await using rooms = await openWatchedRooms()
    const client = new Client()
    const subscription = await watch(rooms, everything, client)
    subscription.expire()
    expect(client.said).toEqual(['SYNC', 'ERROR 410'])
    expect(client.ended?.code).toBe(4410)
  })
})
