import { toRevision, type WatchEnd, type WatchEvent } from '@setpoint/controller-runtime'
import { parseFieldSelector, parseLabelSelector, selectsEverything } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { openRooms, type Rooms, thing } from '../testing.ts'
import { ChangeFrames } from './frames.ts'
import { Subscription, type WatchRequest, type WatchSink, watchDefaults } from './subscription.ts'

const everything: WatchRequest = {
  name: undefined,
  selector: selectsEverything,
  after: undefined,
  initialEvents: true,
  bookmarks: true,
  lifetimeMs: 60_000,
}

/** A client that takes what it is sent only when told to. */
class Client implements WatchSink {
  readonly events: WatchEvent[] = []
  readonly versions: (number | undefined)[] = []
  ended: WatchEnd | undefined
  backlog = 0
  keepsUp = true

  send(frame: Buffer, version: number | undefined): void {
    this.events.push(JSON.parse(frame.toString()))
    this.versions.push(version)
    if (!this.keepsUp) this.backlog += frame.length
  }
  end(end: WatchEnd): void {
    this.ended = end
  }
  /** `TYPE name@version` for each event; the end of the initial events is `SYNC`. */
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

/** Subscribes as the hub does. */
async function watch({ cache, gate }: Rooms, request: WatchRequest, client: Client): Promise<Subscription> {
  const subscription = new Subscription(cache, request, client, await gate.pass())
  cache.observe({
    changed: event => subscription.changed(new ChangeFrames(cache.served, event)),
    reset: () => subscription.expire(),
  })
  subscription.pump()
  return subscription
}

describe('a watch', () => {
  it('begins with what there is, by name, and goes on with every change, in the order of versions', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate } = rooms
    for (const name of ['b', 'c', 'a']) await registry.create(served, thing(name), options)
    const client = new Client()
    await watch(rooms, everything, client)
    await registry.patch(served, 'b', { type: 'merge', document: { spec: { n: 1 } } }, 'object', options)
    await registry.delete(served, 'a', {}, options)
    await gate.pass()
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

  it('shows what comes to match as added and what ceases to match as deleted, with the version of the change', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate } = rooms
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
    await gate.pass()
    expect(byTag.said).toEqual(['SYNC', 'ADDED a', 'MODIFIED a', 'DELETED a'])
    const deleted = byTag.events.at(-1)
    expect(deleted?.object).toMatchObject({
      metadata: { version: JSON.parse(left.bytes.toString()).metadata.version },
      spec: { tags: ['t', 'u'] },
    })
    expect(byLabel.said).toEqual(['SYNC', 'ADDED a', 'MODIFIED a', 'MODIFIED a', 'MODIFIED a', 'DELETED a'])
  })

  it('resumed after any version sends exactly what came after it', async () => {
    await using rooms = await openRooms()
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

  it('sets the pace of its first part, and what changes meanwhile follows exactly', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate } = rooms
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
    await gate.pass()
    expect(client.events).toHaveLength(first)
    while (client.backlog > 0) {
      client.backlog = 0
      subscription.pump()
    }
    const initial = Array.from({ length: 12 }, (_, n) => `ADDED t${String(n).padStart(2, '0')}`)
    expect(client.said).toEqual([...initial, 'SYNC', 'MODIFIED t11', 'DELETED t00'])
    expect(client.ended).toBeUndefined()
  })

  it('that does not keep up with live changes is cut off, and nobody else notices', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate } = rooms
    const slow = new Client()
    const quick = new Client()
    await watch(rooms, everything, slow)
    await watch(rooms, everything, quick)
    slow.keepsUp = false
    const large = { tags: ['x'.repeat(1_000_000)] }
    for (let n = 0; n < 6; n++) await registry.create(served, thing(`t${n}`, large), options)
    await gate.pass()
    expect(slow.ended?.code).toBe(1013)
    expect(quick.said).toHaveLength(7)
    expect(quick.ended).toBeUndefined()
  })

  it('of a name sees that name alone, before, while and after it exists', async () => {
    await using rooms = await openRooms()
    const { registry, served, gate } = rooms
    const client = new Client()
    await watch(rooms, { ...everything, name: 'me' }, client)
    for (const name of ['other', 'me']) await registry.create(served, thing(name), options)
    for (const name of ['other', 'me']) await registry.delete(served, name, {}, options)
    await gate.pass()
    expect(client.said).toEqual(['SYNC', 'ADDED me', 'DELETED me'])
  })

  it('gets a 410 in place of a gap when what comes next is gone', async () => {
    await using rooms = await openRooms()
    const client = new Client()
    const subscription = await watch(rooms, everything, client)
    subscription.expire()
    expect(client.said).toEqual(['SYNC', 'ERROR 410'])
    expect(client.ended?.code).toBe(4410)
  })
})
