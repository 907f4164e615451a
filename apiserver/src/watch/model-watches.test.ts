import { parseFieldSelector, selectsEverything, toRevision } from '@setpoint/controller-runtime/api'
import { describe, expect, it } from 'vitest'
import { openRooms, type Rooms, thing } from '../../../test/support/rooms.ts'
import { defaultWriteOptions as options } from '../registry/index.ts'
import { workDefaults, workTurnsDefaults } from '../scheduling/index.ts'
import { audienceDefaults } from './audience.ts'
import { type FrameCodec, lines, subscriptionFrames, webSocketFrames } from './codec.ts'
import { ModelWatches } from './model-watches.ts'
import { type Subscription, type WatchRequest, type WatchSink, watchDefaults } from './subscription.ts'

const changes: WatchRequest = {
  key: undefined,
  selector: selectsEverything,
  after: undefined,
  initialEvents: false,
  bookmarks: false,
  lifetimeMs: 60_000,
}

class Client implements WatchSink {
  readonly codec: FrameCodec
  readonly writes: Buffer[] = []
  backlog = 0
  ended = 0

  constructor(codec: FrameCodec = lines) {
    this.codec = codec
  }
  write(bytes: Buffer): void {
    this.writes.push(bytes)
  }
  end({ code }: { code: number }): void {
    this.ended = code
  }
  /** `TYPE name` of each event, with the codec `lines`. */
  get said(): string[] {
    const text = Buffer.concat(this.writes).toString()
    return text
      .split('\n')
      .slice(0, -1)
      .map(line => JSON.parse(line))
      .map(({ type, object }) => `${type} ${object.metadata.name}`)
  }
}

interface World extends AsyncDisposable {
  readonly rooms: Rooms
  readonly watches: ModelWatches
  add(client: Client, request?: WatchRequest): Promise<Subscription>
  /** Puts changes through the cache in one turn of the event loop. */
  apply(count: number, size?: number): void
}

async function open(): Promise<World> {
  const rooms = await openRooms()
  const { cache, gate, served } = rooms
  const watches = new ModelWatches(cache, { open: 0, sent: 0, tooSlow: 0 })
  let made = 0
  return {
    rooms,
    watches,
    async add(client, request = changes) {
      const subscription = watches.add({ request, sink: client, present: await gate.pass() })
      subscription.pump()
      return subscription
    },
    apply(count, size = 0) {
      for (let n = 0; n < count; n++) {
        const name = `t${String(made++).padStart(3, '0')}`
        const object = thing(name, { tags: ['x'.repeat(size)] }, { uid: name })
        const revision = toRevision(cache.revision + 1)
        cache.apply({
          key: `${served.keyPrefix}${name}`,
          value: Buffer.from(`[]\n${JSON.stringify(object)}`),
          previous: undefined,
          // Far above the store's revisions, so that the log does not interfere.
          revision,
          createRevision: revision,
        })
      }
    },
    [Symbol.asyncDispose]: () => rooms[Symbol.asyncDispose](),
  }
}

const nextTurn = () => new Promise(resolve => setImmediate(resolve))

describe('the changes of one turn of the event loop', () => {
  it('go to each client in one write, encoded once per codec', async () => {
    await using world = await open()
    const [one, two] = [new Client(), new Client()]
    const [framed, other] = [new Client(webSocketFrames), new Client(subscriptionFrames('a'))]
    for (const client of [one, two, framed, other]) await world.add(client)
    world.apply(5)
    expect(one.writes).toHaveLength(0)
    await nextTurn()
    for (const client of [one, two, framed, other]) expect(client.writes).toHaveLength(1)
    expect(two.writes[0]).toBe(one.writes[0])
    expect(framed.writes[0]).not.toEqual(other.writes[0])
    expect(one.said).toEqual(['ADDED t000', 'ADDED t001', 'ADDED t002', 'ADDED t003', 'ADDED t004'])
    expect(world.watches.tally.sent).toBe(20)
  })

  it('go once to a client that joins during it', async () => {
    await using world = await open()
    const early = new Client()
    await world.add(early)
    const after = await world.rooms.gate.pass()
    const late = new Client()
    world.apply(2)
    const subscription = world.watches.add({ request: { ...changes, after }, sink: late, present: after })
    subscription.pump()
    world.apply(2)
    await nextTurn()
    for (const client of [early, late])
      expect(client.said).toEqual(['ADDED t000', 'ADDED t001', 'ADDED t002', 'ADDED t003'])
  })

  it('are sent before the end of the turn when they exceed the size of a write', async () => {
    await using world = await open()
    const client = new Client()
    await world.add(client)
    world.apply(8, audienceDefaults.pendingBytes / 2)
    expect(client.writes.length).toBeGreaterThanOrEqual(3)
    await nextTurn()
    expect(client.said).toHaveLength(8)
  })

  it('precede the bookmark and the end of the watch', async () => {
    await using world = await open()
    const client = new Client()
    const subscription = await world.add(client, { ...changes, bookmarks: true })
    world.apply(2)
    subscription.bookmark(world.rooms.cache.revision)
    subscription.end({ code: 1000, reason: 'timeout' })
    expect(client.said.map(event => event.split(' ')[0])).toEqual(['ADDED', 'ADDED', 'BOOKMARK'])
    world.apply(1)
    await nextTurn()
    expect(client.said).toHaveLength(3)
  })
})

describe("initial events at the client's pace", () => {
  it('are cut off if the client reads nothing for a minute', async () => {
    await using world = await open()
    for (let n = 0; n < 4; n++) {
      const { registry, served } = world.rooms
      await registry.create(served, thing(`o${n}`, { tags: ['x'.repeat(watchDefaults.paceBytes)] }), options)
    }
    let now = 0
    const client = new Client()
    const subscription = world.watches.add({
      request: { ...changes, initialEvents: true },
      sink: client,
      present: await world.rooms.gate.pass(),
      now: () => now,
    })
    client.backlog = watchDefaults.paceBytes
    subscription.pump()
    now = watchDefaults.stallMs
    subscription.checkStall()
    expect(client.ended).toBe(0)
    subscription.pump()
    now += watchDefaults.stallMs
    subscription.checkStall()
    expect(client.ended).toBe(0)
    now += 1
    subscription.checkStall()
    expect(client.ended).toBe(1013)
  })

  it('yield to others while they search for few among many old changes', async () => {
    await using world = await open()
    const after = await world.rooms.gate.pass()
    const count = workTurnsDefaults.entries * 3
    world.apply(count)
    const client = new Client()
    const selector = { labels: [], fields: parseFieldSelector(`metadata.name=t${count - 1}`) }
    const subscription = world.watches.add({
      request: { ...changes, selector, after },
      sink: client,
      present: after,
    })
    subscription.pump()
    expect(subscription.isLive).toBe(false)
    for (let turn = 0; !subscription.isLive; turn++) {
      expect(turn).toBeLessThan(4 * workDefaults.turns)
      await nextTurn()
    }
    expect(client.said).toEqual([`ADDED t${count - 1}`])
  })

  it('yield as often if the client reads frequently', async () => {
    await using world = await open()
    const after = await world.rooms.gate.pass()
    world.apply(workTurnsDefaults.entries * 8)
    const subscription = world.watches.add({
      request: { ...changes, key: 'nobody', after },
      sink: new Client(),
      present: after,
    })
    for (let taken = 0; taken < 4; taken++) subscription.pump()
    for (let turn = 0; turn < 3 * workDefaults.turns; turn++) {
      expect(subscription.isLive).toBe(false)
      await nextTurn()
    }
    expect(subscription.isLive).toBe(false)
    while (!subscription.isLive) await nextTurn()
  })

  it('share 512 KiB in each turn, so that many readers with room do not delay other requests', async () => {
    await using world = await open()
    const { registry, served, gate } = world.rooms
    const bytes = 256 * 1024
    const bytesInTurn = 512 * 1024
    const count = 8
    for (let n = 0; n < count; n++)
      await registry.create(served, thing(`o${n}`, { tags: ['x'.repeat(bytes)] }), options)
    const present = await gate.pass()
    const request = { ...changes, after: undefined, initialEvents: true }
    const clients = Array.from({ length: 8 }, () => new Client())
    const subscriptions = clients.map(sink => world.watches.add({ request, sink, present }))
    for (const subscription of subscriptions) subscription.pump()
    const written = () => clients.reduce((sum, { writes }) => sum + writes.length, 0)
    // The last write of a turn may exceed its share.
    const mostInTurn = bytesInTurn / bytes + 1
    let before = 0
    while (!subscriptions.every(({ isLive }) => isLive)) {
      expect(written() - before).toBeLessThanOrEqual(mostInTurn)
      before = written()
      await nextTurn()
    }
    expect(clients.map(({ said }) => said.length)).toEqual(clients.map(() => count))
  })

  it('share each turn with all others, callers in turn', async () => {
    await using world = await open()
    const after = await world.rooms.gate.pass()
    world.apply(workTurnsDefaults.entries)
    const add = (caller: string) => {
      const subscription = world.watches.add({
        request: { ...changes, key: 'nobody', after },
        sink: new Client(),
        caller,
        present: after,
      })
      subscription.pump()
      return subscription
    }
    const many = Array.from({ length: 20 }, () => add('ann'))
    const other = add('bob')
    const live = () => many.filter(({ isLive }) => isLive).length
    for (let turn = 0; !other.isLive; turn++) {
      expect(turn).toBeLessThan(6 * workDefaults.turns)
      await nextTurn()
    }
    expect(live()).toBeLessThan(6)
    for (const each of many) each.end({ code: 1000, reason: '' })
    expect(live()).toBe(0)
  })
})
