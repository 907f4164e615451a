/**
 * The SDK against the real server, through a proxy that injects faults: the guarantees of watches, caches, controllers
 * and managers. docs/maintainers/sdk-conformance.md maps the conformance cases to these tests.
 */
import {
  ApiError,
  createClient,
  HttpTransport,
  Informer,
  type InformerHandler,
  removeOwnerReference,
  setControllerReference,
  type Transport,
  Watcher,
} from '@setpoint/controller-runtime'
import { FakeClock, startTestServer } from '@setpoint/controller-runtime/testing'
import { describe, expect, test } from 'vitest'
import {
  Lamp,
  type LampObject,
  listener,
  patience,
  SdkWorld,
  Shade,
  withTimeoutSeconds,
} from './support/sdk-world.ts'

/** Milliseconds of silence before a watch is given up: more than a busy machine delays a healthy one. */
const watchIdleTimeoutMs = 1_500

describe('a watch', () => {
  test('that is cut after any byte from the server loses and repeats no event', async () => {
    await using world = await SdkWorld.open()
    const handler = listener()
    const informer = world.informer(handler)
    informer.start()
    await informer.synced
    const expected: string[] = []
    // Through a whole event, from the head of its frame on.
    for (let bytes = 0; bytes < 400; bytes += 11) {
      world.proxy.watches.truncateAfter(bytes, 'once')
      await world.lamp(`l${bytes}`, 1)
      expected.push(`+l${bytes}1`)
      await expect.poll(() => handler.heard, patience).toEqual(expected)
    }
    expect(world.proxy.watches.total).toBeGreaterThan(20)
    await world.same(informer)
  })

  test('on a half-open connection is given up for its silence', async () => {
    await using world = await SdkWorld.open({ watchIdleTimeoutMs })
    const informer = world.informer()
    informer.start()
    await informer.synced
    world.proxy.watches.hold('open')
    await world.lamp('a', 1)
    await world.same(informer)
  })

  test('without any frame after the upgrade, not even a ping, is given up and reopened', async () => {
    await using world = await SdkWorld.open({ watchIdleTimeoutMs })
    await world.lamp('a', 1)
    world.proxy.watches.tamper(() => [])
    const watcher = new Watcher(world.client, Lamp, { backoffBaseMs: 5 })
    const abort = new AbortController()
    const first = watcher.events(abort.signal).next()
    await expect.poll(() => watcher.counts.opened, patience).toBe(1)
    // The upgrade is through. From here on nothing passes, neither pings nor the end of the connection.
    world.proxy.watches.hold('open')
    world.proxy.watches.tamper(undefined)
    expect(await first).toMatchObject({ value: { type: 'replaced', objects: [{ metadata: { name: 'a' } }] } })
    expect(watcher.counts.opened).toBeGreaterThan(1)
    abort.abort()
  })

  test('keeps its connection while a handler is busy', async () => {
    await using world = await SdkWorld.open()
    let finish = () => {}
    const busy = new Promise<void>(resolve => {
      finish = resolve
    })
    const slow: string[] = []
    const informer = world.informer({
      async onAdd({ metadata }) {
        await busy
        slow.push(metadata.name)
      },
    })
    informer.start()
    await informer.synced
    for (const name of ['a', 'b', 'c']) await world.lamp(name, 1)
    await world.same(informer)
    expect([slow, world.proxy.watches.total]).toEqual([[], 1])
    finish()
    await expect.poll(() => slow, patience).toEqual(['a', 'b', 'c'])
    expect(world.proxy.watches.total).toBe(1)
  })

  test.each([
    ['at the opening', 'status'],
    ['in the middle of its events', 'event'],
    ['repeatedly in its initial events', 'initial'],
  ])('that gets 410 %s lists again and misses nothing', async (_when, how) => {
    await using world = await SdkWorld.open()
    await world.lamp('old', 1)
    const informer = world.informer()
    informer.start()
    await informer.synced
    const expired = JSON.stringify({ type: 'ERROR', object: new ApiError('Expired', 'too old').toStatus() })
    let told = 0
    if (how === 'status') world.proxy.watches.refuse(410)
    else
      world.proxy.watches.tamper((frame, nth) =>
        ++told > 3 || (how === 'event' && nth < 1) ? [frame] : [expired],
      )
    world.proxy.watches.cut()
    await world.others.delete(Lamp, 'old')
    await world.lamp('new', 2)
    if (how === 'status') await expect.poll(() => world.proxy.watches.total, patience).toBeGreaterThan(2)
    else await expect.poll(() => told, patience).toBeGreaterThan(2)
    world.proxy.watches.accept()
    world.proxy.watches.tamper(undefined)
    await world.same(informer)
  })

  test('whose server was restored to an older state reports that state', async () => {
    await using ahead = await startTestServer({ models: [Lamp] })
    await using behind = await startTestServer({ models: [Lamp] })
    for (let n = 0; n < 5; n++)
      await ahead.client.create(Lamp, { metadata: { name: `a${n}` }, spec: { watts: n } })
    await behind.client.create(Lamp, { metadata: { name: 'b' }, spec: { watts: 1 } })
    const both = { ahead: await ahead.httpTransport(), behind: await behind.httpTransport() }
    let present: Transport = both.ahead
    const either: Transport = {
      request: request => present.request(request),
      watch: (path, options) => present.watch(path, options),
    }
    const watcher = { backoffBaseMs: 5, backoffMaxMs: 50 }
    const informer = new Informer(Lamp, { client: createClient(either), watcher })
    informer.start()
    await informer.synced
    expect(informer.size).toBe(5)
    present = both.behind
    await ahead.close()
    await expect.poll(() => informer.list().map(({ metadata }) => metadata.name), patience).toEqual(['b'])
    await informer.stop()
    for (const transport of Object.values(both)) transport.close()
  })

  test.each([429, 503])(
    'that is refused with %i resumes, and receives every change made meanwhile',
    async status => {
      await using world = await SdkWorld.open()
      const handler = listener()
      const informer = world.informer(handler)
      informer.start()
      await informer.synced
      world.proxy.watches.refuse(status)
      world.proxy.watches.cut()
      await world.lamp('a', 1)
      await world.others.patch(Lamp, 'a', { spec: { watts: 2 } })
      await expect.poll(() => world.proxy.watches.total, patience).toBeGreaterThan(3)
      world.proxy.watches.accept()
      await world.same(informer)
      // It resumed from its version, so it receives every state, not only the last.
      await expect.poll(() => handler.heard, patience).toEqual(['+a1', '~a2'])
      expect(world.proxy.lists.total).toBe(0)
    },
  )

  test('whose server repeats and reorders events never goes back to an older state', async () => {
    await using world = await SdkWorld.open()
    const handler = listener()
    const informer = world.informer(handler)
    const held: string[] = []
    world.proxy.watches.tamper(frame => {
      held.push(frame)
      // Each event again, after repeating all events before it.
      return held
    })
    informer.start()
    await informer.synced
    await world.lamp('a', 1)
    for (let watts = 2; watts < 6; watts++) await world.others.patch(Lamp, 'a', { spec: { watts } })
    await world.same(informer)
    expect(handler.heard).toEqual(['+a1', '~a2', '~a3', '~a4', '~a5'])
  })

  test.each([
    ['that is not JSON', '{"type": "MODI'],
    ['of an unknown type', '{"type": "MOVED", "object": {}}'],
  ])('that gets a frame %s continues without a gap', async (_what, nonsense) => {
    await using world = await SdkWorld.open()
    const handler = listener()
    const informer = world.informer(handler)
    let times = 0
    world.proxy.watches.tamper(frame => (frame.includes('"ADDED"') && ++times < 4 ? [nonsense] : [frame]))
    informer.start()
    await informer.synced
    await world.lamp('a', 1)
    await world.lamp('b', 2)
    await world.same(informer)
    expect(times).toBeGreaterThan(1)
    expect(handler.heard.toSorted()).toEqual(['+a1', '+b2'])
  })

  test.each([
    ['after a second', 'timeout'],
    ['before its first event', 'truncate'],
  ])('that always ends %s resumes with growing pauses, and misses nothing', async (_when, how) => {
    await using world = await SdkWorld.open()
    const clock = new FakeClock()
    const client = how === 'timeout' ? createClient(withTimeoutSeconds(1, world.transport)) : world.client
    const pauses = { random: () => 0.5, backoffBaseMs: 800, backoffMaxMs: 30_000 }
    const watcher = new Watcher(client, Lamp, { clock, ...pauses })
    const told: string[] = []
    const abort = new AbortController()
    const following = (async () => {
      for await (const event of watcher.events(abort.signal))
        if (event.type === 'applied') told.push(event.object.metadata.name)
    })()
    await expect.poll(() => watcher.counts.replaced, patience).toBe(1)
    if (how === 'truncate') {
      world.proxy.watches.truncateAfter(0)
      world.proxy.watches.cut()
    }
    const passed: number[] = []
    const names: string[] = []
    for (let round = 0; round < 4; round++) {
      // The client's clock stands still, so that only a pause sets a timer.
      await expect.poll(() => clock.pendingTimers, patience).toBe(1)
      names.push(`l${round}`)
      await world.lamp(`l${round}`, 1)
      passed.push(clock.nextTimerInMs ?? Number.NaN)
      await clock.advance(passed.at(-1) ?? 0)
    }
    expect(passed).toEqual([400, 800, 1_600, 3_200])
    world.proxy.watches.truncateAfter(undefined)
    await expect
      .poll(async () => {
        if (clock.pendingTimers > 0) await clock.advance(30_000)
        return told
      }, patience)
      .toEqual(names)
    expect(watcher.counts.replaced).toBe(1)
    abort.abort()
    await following
  })

  test('whose initial events do not end retries until they do', async () => {
    await using world = await SdkWorld.open()
    await world.lamp('a', 1)
    let openings = 0
    let dropped = 0
    world.proxy.watches.tamper((frame, nth) => {
      if (nth === 0) openings++
      if (openings > 1 || !frame.includes('initial-events-end')) return [frame]
      dropped++
      return []
    })
    const informer = world.informer()
    informer.start()
    await expect.poll(() => dropped).toBe(1)
    expect(informer.hasSynced).toBe(false)
    world.proxy.watches.cut()
    await informer.synced
    await world.same(informer)
  })
})

describe('a cache', () => {
  test('reports objects deleted during a disconnect as deleted once, and recreated ones as deleted and added', async () => {
    await using world = await SdkWorld.open()
    const handler = listener()
    const informer = world.informer(handler)
    await world.lamp('gone', 1)
    const { metadata } = await world.lamp('again', 1)
    informer.start()
    await informer.synced
    world.proxy.all.refuse('connection')
    world.proxy.all.cut()
    await world.others.delete(Lamp, 'gone')
    await world.others.delete(Lamp, 'again')
    await world.lamp('again', 2)
    world.proxy.all.accept()
    await world.same(informer)
    expect(informer.get('again')?.metadata.uid).not.toBe(metadata.uid)
    await expect
      .poll(() => handler.heard.toSorted(), patience)
      .toEqual(['+again1', '+again2', '+gone1', '-again', '-gone'])
  })

  test('calls no handler if a new list shows no change', async () => {
    await using world = await SdkWorld.open()
    await world.lamp('a', 1)
    const handler = listener()
    const informer = world.informer(handler)
    informer.start()
    await informer.synced
    const { version } = informer
    world.proxy.watches.refuse(410)
    world.proxy.watches.cut()
    await expect.poll(() => world.proxy.watches.total, patience).toBeGreaterThan(1)
    const listed = informer.listedAt
    world.proxy.watches.accept()
    await expect.poll(() => informer.listedAt, patience).toBeGreaterThan(listed)
    expect([handler.heard, informer.version]).toEqual([['+a1'], version])
  })

  test('is replaced as a whole before a handler is called for a new list', async () => {
    await using world = await SdkWorld.open()
    for (const name of ['a', 'b', 'c']) await world.lamp(name, 1, 'red')
    const seen: unknown[] = []
    const informer: Informer<LampObject> = world.informer({
      onUpdate: () => void seen.push(informer.byIndex('spec.colour', 'blue').length),
      onDelete: () => void seen.push(informer.byIndex('spec.colour', 'blue').length),
    })
    informer.start()
    await informer.synced
    world.proxy.watches.refuse(410)
    world.proxy.watches.cut()
    await expect.poll(() => world.proxy.watches.total, patience).toBeGreaterThan(1)
    await world.others.delete(Lamp, 'a')
    for (const name of ['b', 'c']) await world.others.patch(Lamp, name, { spec: { colour: 'blue' } })
    world.proxy.watches.accept()
    await expect.poll(() => seen, patience).toEqual([2, 2, 2])
  })

  test('under writes and cuts: late handlers get every object and then each change, slow and throwing ones delay no other, indexes agree', async () => {
    await using world = await SdkWorld.open()
    const wrong: string[] = []
    const state = new Map<string, number>()
    const informer: Informer<LampObject> = world.informer({
      onAdd: () => {
        throw new Error('a handler that throws')
      },
    })
    const follow = (into: Map<string, number>) => ({
      onAdd({ metadata, spec }: LampObject) {
        if (into.has(metadata.name)) wrong.push(`${metadata.name} was added twice`)
        into.set(metadata.name, spec.watts)
        const { colour = '' } = informer.get(metadata.name)?.spec ?? {}
        const found =
          colour === '' || informer.byIndex('spec.colour', colour).some(each => each.spec.colour !== colour)
        if (found && colour !== '') wrong.push(`the index does not agree about ${metadata.name}`)
      },
      onUpdate(before: LampObject, { metadata, spec }: LampObject) {
        if (into.get(metadata.name) !== before.spec.watts)
          wrong.push(`a gap before ${metadata.name}${spec.watts}`)
        into.set(metadata.name, spec.watts)
      },
      onDelete({ metadata }: LampObject) {
        if (!into.delete(metadata.name)) wrong.push(`${metadata.name} went without having been there`)
      },
    })
    informer.addHandler(follow(state))
    let finish = () => {}
    const busy = new Promise<void>(resolve => {
      finish = resolve
    })
    informer.addHandler({ onAdd: () => busy })
    informer.start()
    const late = new Map<string, number>()
    const colours = ['red', 'green', 'blue']
    for (let n = 0; n < 120; n++) {
      const name = `l${n % 10}`
      const colour = colours[n % 3] ?? ''
      if (n % 7 === 6) await world.others.delete(Lamp, name).catch(() => {})
      else await world.others.apply(Lamp, { metadata: { name }, spec: { watts: n, colour } })
      if (n % 20 === 19) world.proxy.watches.cut()
      if (n === 60) informer.addHandler(follow(late))
    }
    await world.same(informer)
    const expected = new Map(informer.list().map(({ metadata, spec }) => [metadata.name, spec.watts]))
    await expect.poll(() => [state, late], patience).toEqual([expected, expected])
    expect(wrong).toEqual([])
    finish()
  })

  test('is synced for each handler separately, when that handler has received every object', async () => {
    await using world = await SdkWorld.open()
    for (const name of ['a', 'b', 'c']) await world.lamp(name, 1)
    const done: string[] = []
    let finish = () => {}
    const busy = new Promise<void>(resolve => {
      finish = resolve
    })
    const quick = listener()
    const slow = listener()
    const informer = world.informer()
    const add = (name: string, handler: InformerHandler<LampObject>) =>
      informer.addHandler(handler).synced.then(() => done.push(name))
    const early = add('slow', { onAdd: (lamp, info) => busy.then(() => slow.onAdd?.(lamp, info)) })
    await Promise.all([add('quick', quick), informer.start()])
    expect(quick.heard.toSorted()).toEqual(['+a1', '+b1', '+c1'])
    // The same holds for a later handler over a new connection.
    world.proxy.watches.cut()
    await world.lamp('d', 1)
    await expect.poll(() => informer.size, patience).toBe(4)
    const late = listener()
    await add('late', late)
    expect(late.heard.toSorted()).toEqual(['+a1', '+b1', '+c1', '+d1'])
    expect(done).toEqual(['quick', 'late'])
    finish()
    await early
    expect(slow.heard.slice(0, 3).toSorted()).toEqual(['+a1', '+b1', '+c1'])
  })

  test('is read-only', async () => {
    await using world = await SdkWorld.open()
    await world.lamp('a', 1)
    const informer = world.informer()
    informer.start()
    await informer.synced
    expect(() => Object.assign(informer.get('a')?.spec ?? {}, { watts: 2 })).toThrow(TypeError)
  })

  test('closes its watch with its last user', async () => {
    await using world = await SdkWorld.open()
    const manager = world.manager()
    const build = (name: string) => manager.controller(Lamp, each => each.named(name).reconcile(() => {}))
    const [one, two] = [build('one'), build('two')]
    manager.start()
    await manager.synced()
    expect(world.proxy.watches.open).toBe(1)
    await manager.remove(one)
    expect(world.proxy.watches.open).toBe(1)
    await manager.remove(two)
    await expect.poll(() => world.proxy.watches.open, patience).toBe(0)
  })
})

describe('a controller', () => {
  test('never reads a state older than its own writes, even with a delayed watch', async () => {
    await using world = await SdkWorld.open()
    const wrong: string[] = []
    const counts: number[] = []
    const shadeUids = new Set<string>()
    world.proxy.watches.delay(100)
    const manager = world.manager()
    manager.controller(Lamp, each =>
      each.owns(Shade).reconcile(async (lamp, { client, lister }) => {
        const count = (lamp.status?.lit ?? 0) + 1
        counts.push(count)
        const name = `${lamp.metadata.name}-shade`
        const { metadata } = await client.apply(Shade, setControllerReference(lamp, { metadata: { name } }))
        shadeUids.add(metadata.uid)
        const shades = await lister(Shade)
        if (shades.get(name) === undefined) wrong.push('a shade that was created is not there')
        if (shadeUids.size > 1) wrong.push('a shade was created twice')
        if (count > 3) return
        const { status } = await client.patchStatus(Lamp, lamp, { lit: count })
        const own = (await lister(Lamp)).get(lamp.metadata.name)
        if (own?.status?.lit !== status?.lit) wrong.push('a status that was written is not there')
        return { requeueAfterMs: 0 }
      }),
    )
    manager.start()
    await world.lamp('a', 1)
    // Each run adds to the previous count: a run with an old state would write the same count twice.
    await expect.poll(async () => (await world.others.get(Lamp, 'a')).status?.lit, patience).toBe(3)
    await expect.poll(() => counts.slice(0, 4), patience).toEqual([1, 2, 3, 4])
    expect(counts.filter(count => count < 4)).toHaveLength(3)
    expect(wrong).toEqual([])
  })

  test('and another one on the same objects remove their finalizers concurrently, each only its own', async () => {
    await using world = await SdkWorld.open()
    const cleaned: string[] = []
    const managers = ['one', 'two'].map(name => {
      const manager = world.manager({ transport: world.transport })
      manager.controller(Lamp, each =>
        each
          .named(name)
          .finalize(
            `sdk.example.com/${name}`,
            ({ metadata }) => void cleaned.push(`${name} ${metadata.name}`),
          ),
      )
      manager.start()
      return manager
    })
    const names = Array.from({ length: 20 }, (_, n) => `l${n}`)
    for (const name of names) await world.lamp(name, 1)
    const finalizers = async () =>
      (await world.others.list(Lamp)).items.map(({ metadata }) => metadata.finalizers?.length)
    await expect.poll(finalizers, patience).toEqual(names.map(() => 2))
    await Promise.all(names.map(name => world.others.delete(Lamp, name)))
    await expect.poll(finalizers, patience).toEqual([])
    expect(new Set(cleaned).size).toBe(40)
    await Promise.all(managers.map(manager => manager.stop()))
  })

  test('keeps the finalizer while clean-up fails, across lost connections', async () => {
    await using world = await SdkWorld.open()
    let attempts = 0
    const manager = world.manager()
    manager.controller(Lamp, each =>
      each
        .reconcile(() => {})
        .finalize('sdk.example.com/plug', () => {
          if (++attempts < 4) {
            world.proxy.requests.cut()
            throw new Error('not yet')
          }
        }),
    )
    manager.start()
    await world.lamp('a', 1)
    await expect
      .poll(async () => (await world.others.get(Lamp, 'a')).metadata.finalizers, patience)
      .toEqual(['sdk.example.com/plug'])
    await world.others.delete(Lamp, 'a')
    await expect.poll(() => world.others.getIfExists(Lamp, 'a'), patience).toBeUndefined()
    expect(attempts).toBe(4)
  })

  test('reconciles the old and the new owner when a dependent changes its owner', async () => {
    await using world = await SdkWorld.open()
    const [a, b] = [await world.lamp('a', 1), await world.lamp('b', 1)]
    const shade = await world.others.create(
      Shade,
      setControllerReference(a, { metadata: { name: 's' }, spec: {} }),
    )
    const woken: string[] = []
    const manager = world.manager()
    manager.controller(Lamp, each =>
      each.owns(Shade).reconcile(({ metadata }) => void woken.push(metadata.name)),
    )
    manager.start()
    await expect.poll(() => woken.toSorted(), patience).toEqual(['a', 'b'])
    woken.length = 0
    const { ownerReferences } = setControllerReference(b, removeOwnerReference(a, shade)).metadata
    const replaced = { op: 'replace', path: '/metadata/ownerReferences', value: ownerReferences } as const
    await world.others.patch(Shade, shade, [replaced])
    await expect.poll(() => woken.toSorted(), patience).toEqual(['a', 'b'])
  })

  test('with a predicate that drops every update still handles its finalizer and a deletion', async () => {
    await using world = await SdkWorld.open()
    const cleaned: string[] = []
    const manager = world.manager()
    manager.controller(Lamp, each =>
      each
        .filterUpdates(() => false)
        .finalize('sdk.example.com/plug', ({ metadata }) => void cleaned.push(metadata.name)),
    )
    manager.start()
    await world.lamp('a', 1)
    await expect
      .poll(async () => (await world.others.get(Lamp, 'a')).metadata.finalizers, patience)
      .toHaveLength(1)
    await world.others.delete(Lamp, 'a')
    await expect.poll(() => cleaned, patience).toEqual(['a'])
  })

  test('continues with other objects if runs throw, reject, hang on a held request, or never settle', async () => {
    await using world = await SdkWorld.open()
    const done: string[] = []
    const manager = world.manager()
    manager.controller(Lamp, each =>
      each
        .concurrency(2)
        .timeoutMs(200)
        .reconcile(async (lamp, { client }) => {
          const { name } = lamp.metadata
          if (name === 'throws') throw new Error('on purpose')
          if (name === 'hangs') await client.get(Lamp, name)
          if (name === 'never') await new Promise(() => {})
          done.push(name)
        }),
    )
    world.proxy.requests.hold()
    manager.start()
    for (const name of ['throws', 'hangs', 'never', 'works', 'too']) await world.lamp(name, 1)
    await expect.poll(() => done.toSorted(), patience).toEqual(['too', 'works'])
    world.proxy.requests.release()
    await expect.poll(() => done.toSorted(), patience).toEqual(['hangs', 'too', 'works'])
  })
})

describe('a manager', () => {
  test('that starts without its server works when the server is up', async () => {
    await using world = await SdkWorld.open()
    const lit: string[] = []
    const manager = world.manager()
    manager.controller(Lamp, each => each.reconcile(({ metadata }) => void lit.push(metadata.name)))
    world.proxy.all.refuse('connection')
    manager.start()
    await world.lamp('a', 1)
    await expect.poll(() => world.proxy.watches.total, patience).toBeGreaterThan(0)
    expect(lit).toEqual([])
    world.proxy.all.accept()
    await expect.poll(() => lit, patience).toEqual(['a'])
  })

  test('that is cut off from its server stops leading before another leads, and its writes are refused', async () => {
    await using world = await SdkWorld.open()
    const leaderElection = {
      lease: 'lamps',
      leaseDurationMs: 3_000,
      renewDeadlineMs: 2_000,
      retryPeriodMs: 200,
    }
    const direct = new HttpTransport({ server: await world.server.listen() })
    const one = world.manager({ leaderElection })
    const two = world.manager({ leaderElection, transport: direct })
    const both: boolean[] = []
    const looking = setInterval(
      () => both.push(one.leadership?.isLeader === true && two.leadership?.isLeader === true),
      5,
    )
    one.start()
    await expect.poll(() => one.leadership?.isLeader, patience).toBe(true)
    two.start()
    world.proxy.all.hold()
    await expect.poll(() => two.leadership?.isLeader, patience).toBe(true)
    clearInterval(looking)
    expect(both).not.toContain(true)
    await expect(
      one.client.create(Lamp, { metadata: { name: 'late' }, spec: { watts: 1 } }),
    ).rejects.toThrow()
    world.proxy.all.release()
    await two.stop()
    direct.close()
    await expect.poll(() => world.others.getIfExists(Lamp, 'late'), patience).toBeUndefined()
  })
})
