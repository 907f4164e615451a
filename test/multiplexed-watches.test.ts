import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import { fieldsOf } from './support/json.ts'
import { devicesOf, itemsOf } from './support/kinds.ts'
import { Multiplexed, multiplexProtocol } from './support/multiplex.ts'
import { isInitialEnd, refusedWatch, Watch, type WatchEvent } from './support/watch.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

describe.each(stores)('many watches on one WebSocket, on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection
  let devices: Collection
  const open: (Multiplexed | Watch)[] = []

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin'], { args: ['--base-path', '/x'] })
    api = world.api
    items = itemsOf(api)
    devices = devicesOf(api)
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    await Promise.all(open.splice(0).map(each => each.cut()))
    await items.clear()
    await devices.clear()
  })

  async function connect(): Promise<Multiplexed> {
    const socket = await Multiplexed.open(world.server.url)
    open.push(socket)
    return socket
  }

  it('each have the same events as a watch of their own, with their id', async () => {
    const socket = await connect()
    expect(socket.protocol).toBe(multiplexProtocol)
    await items.create('before', { rank: 'a' })
    socket.subscribe('all', items.path)
    socket.subscribe('ranked', `${items.path}?fieldSelector=spec.rank%3Da`)
    socket.subscribe('other kind', devices.path)
    socket.subscribe('one', items.at('later'))
    const alone = await Watch.open(world.server.url, items.path)
    open.push(alone)
    await Promise.all(['all', 'ranked', 'other kind', 'one'].map(id => socket.synced(id)))
    await alone.synced()
    await items.create('later', { rank: 'b' })
    await devices.create('d', { size: 1 })
    const last = await items.create('last', { rank: 'a' })
    const gone = objectOf(await api.delete(items.at('later')))
    await Promise.all([socket.reaches('all', gone.metadata.version), alone.reaches(gone.metadata.version)])
    await socket.reaches('ranked', last.metadata.version)
    await socket.until(() => socket.story('one').length === 2, 'the object came and went')
    await socket.until(() => socket.story('other kind').length === 1, 'the device came')
    expect(socket.story('all')).toEqual(['ADDED before', 'ADDED later', 'ADDED last', 'DELETED later'])
    expect(socket.story('ranked')).toEqual(['ADDED before', 'ADDED last'])
    expect(socket.story('other kind')).toEqual(['ADDED d'])
    expect(socket.story('one')).toEqual(['ADDED later', 'DELETED later'])
    // Writes to other kinds also advance the version in bookmarks.
    const changes = (events: readonly WatchEvent[]) => events.filter(({ type }) => type !== 'BOOKMARK')
    expect(changes(socket.of('all')).map(({ raw }) => raw)).toEqual(
      changes(alone.events).map(({ raw }) => ({ id: 'all', ...raw })),
    )
    const ends = (events: readonly WatchEvent[]) => events.filter(isInitialEnd).length
    expect([ends(socket.of('all')), ends(alone.events)]).toEqual([1, 1])
  })

  it('accept a path with the base path', async () => {
    const socket = await connect()
    await items.create('a', {})
    socket.subscribe('a', `/x${items.path}`)
    await socket.synced('a')
    expect(socket.story('a')).toEqual(['ADDED a'])
  })

  it('each resume from a version of their own', async () => {
    const first = await items.create('a', {})
    const second = await items.create('b', {})
    await items.create('c', {})
    const socket = await connect()
    socket.subscribe('1', `${items.path}?version=${first.metadata.version}`)
    socket.subscribe('2', `${items.path}?version=${second.metadata.version}`)
    await socket.until(() => socket.messages.length === 3, 'three events')
    expect(socket.story('1')).toEqual(['ADDED b', 'ADDED c'])
    expect(socket.story('2')).toEqual(['ADDED c'])
  })

  describe('end alone:', () => {
    it.each([
      ['no such kind', '/apis/items.example.com/v1/nothings', 404],
      ['no such path', '/nowhere', 404],
      ['a subresource', '/apis/items.example.com/v1/items/a/status', 404],
      ['a selector that does not parse', '/apis/items.example.com/v1/items?labelSelector=a%20b', 400],
      ['a path that is not percent-encoded', '/apis/items.example.com/v1/items/%zz', 400],
      ['a query that is not percent-encoded', '/apis/items.example.com/v1/items?labelSelector=%ff', 400],
      ['a fragment', '/apis/items.example.com/v1/items?labelSelector=a#b', 400],
      ['a version that has not been reached', '/apis/items.example.com/v1/items?version=99999999999', 410],
    ])('%s: an ERROR with a Status, then END', async (_what, path, code) => {
      const socket = await connect()
      socket.subscribe('good', items.path)
      socket.subscribe('bad', path)
      const end = await socket.ends('bad')
      expect(end.raw).toEqual({ id: 'bad', type: 'END', code })
      const [error] = socket.of('bad')
      expect(error?.type).toBe('ERROR')
      expect(fieldsOf(error?.raw.object)).toMatchObject({ kind: 'Status', code })
      const made = await items.create('a', {})
      await socket.reaches('good', made.metadata.version)
      expect(socket.story('good')).toEqual(['ADDED a'])
    })

    it('for a missing or invalid path: an ERROR with a Status, then END', async () => {
      const socket = await connect()
      socket.say({ op: 'subscribe', id: 'none' })
      socket.say({ op: 'subscribe', id: 'number', path: 5 })
      socket.subscribe('relative', 'apis/items.example.com/v1/items')
      for (const id of ['none', 'number', 'relative']) {
        expect((await socket.ends(id)).raw).toEqual({ id, type: 'END', code: 400 })
        expect(fieldsOf(socket.of(id)[0]?.raw.object)).toMatchObject({
          code: 400,
          message: expect.stringContaining('path'),
        })
      }
    })

    it('for a path above its bound: an ERROR that does not repeat it, then END', async () => {
      const socket = await connect()
      socket.subscribe('long', `${items.path}?labelSelector=${'l'.repeat(100 * 1024)}`)
      expect((await socket.ends('long')).raw).toEqual({ id: 'long', type: 'END', code: 400 })
      const [error] = socket.of('long')
      expect(fieldsOf(error?.raw.object).message).toBe('path is longer than 65536 characters')
    })

    it('after timeoutSeconds, with a last bookmark and 200; then the id is free', async () => {
      const socket = await connect()
      socket.subscribe('a', `${items.path}?timeoutSeconds=1`)
      const end = await socket.ends('a')
      expect(end.raw).toEqual({ id: 'a', type: 'END', code: 200 })
      expect(socket.of('a').at(-2)?.type).toBe('BOOKMARK')
      const made = await items.create('b', {})
      socket.subscribe('a', `${items.path}?version=${socket.of('a').at(-2)?.version}`)
      await socket.reaches('a', made.metadata.version)
      expect(socket.story('a')).toEqual(['END 200', 'ADDED b'])
    })

    it('beside pings, which are responded to with their id, whatever watches have it', async () => {
      const socket = await connect()
      socket.subscribe('a', items.path)
      socket.say({ op: 'ping', id: 'a' })
      socket.say({ op: 'ping', id: 'x' })
      await expect
        .poll(() => socket.messages.filter(({ type }) => type === 'PONG').map(({ raw }) => raw))
        .toEqual([
          { id: 'a', type: 'PONG' },
          { id: 'x', type: 'PONG' },
        ])
      socket.unsubscribe('a')
      await socket.ends('a')
    })

    it('when they are unsubscribed: nothing follows their END', async () => {
      const socket = await connect()
      socket.subscribe('a', items.path)
      socket.subscribe('b', items.path)
      socket.unsubscribe('a')
      socket.unsubscribe('never there')
      await socket.ends('a')
      const made = await items.create('o', {})
      await socket.reaches('b', made.metadata.version)
      const said = socket.of('a').map(({ type }) => type)
      expect(said.at(-1)).toBe('END')
      expect(said.filter(type => type === 'END')).toHaveLength(1)
      expect(socket.story('a')).not.toContain('ADDED o')
      expect(socket.of('never there')).toEqual([])
    })
  })

  it.each([
    ['no JSON', 'hello', /JSON/],
    ['no object', '[]', /op/],
    ['no known op', { op: 'list', id: 'a' }, /op "list"/],
    ['a long op, cut', { op: 'x'.repeat(50_000), id: 'a' }, /^op "x{99}…" must/],
    ['no id', { op: 'subscribe', path: '/apis/items.example.com/v1/items' }, /id/],
    ['an id that is no text', { op: 'subscribe', id: 1, path: '/x' }, /id/],
    [
      'an id that is in use',
      { op: 'subscribe', id: 'good', path: '/apis/items.example.com/v1/items' },
      /in use/,
    ],
  ])('answer %s with an ERROR without an id, and go on', async (_what, request, message) => {
    const socket = await connect()
    socket.subscribe('good', items.path)
    await socket.synced('good')
    socket.say(request)
    await socket.until(() => socket.of(undefined).length === 1, 'the error')
    const [error] = socket.of(undefined)
    expect(error?.type).toBe('ERROR')
    expect(fieldsOf(error?.raw.object)).toMatchObject({ code: 400, message: expect.stringMatching(message) })
    const made = await items.create('a', {})
    await socket.reaches('good', made.metadata.version)
    expect(socket.story('good')).toEqual(['ADDED a'])
  })

  it('are bounded per socket: one too many gets 429', async () => {
    const socket = await connect()
    for (let n = 0; n <= 1_000; n++) socket.subscribe(`s${n}`, items.at('one'))
    expect((await socket.ends('s1000')).raw.code).toBe(429)
    socket.unsubscribe('s0')
    await socket.ends('s0')
    socket.subscribe('s1000', items.at('one'))
    const made = await items.create('one', {})
    await socket.until(() => socket.of('s1000').some(({ name }) => name === 'one'), 'the event')
    for (const id of ['s1', 's999', 's1000']) {
      await socket.reaches(id, made.metadata.version)
      expect(socket.story(id).at(-1)).toBe('ADDED one')
    }
  })

  it("are bounded by the total size of a socket's selectors: above it is 429, and an ended watch makes room", async () => {
    const socket = await connect()
    const labels = encodeURIComponent(Array.from({ length: 100 }, (_, n) => `key-${n}=v`).join(','))
    const path = `${items.path}?labelSelector=${labels}`
    // Each counts as about 13 KiB.
    for (let n = 0; n < 90; n++) socket.subscribe(`s${n}`, path)
    const { raw } = await socket.ends('s89')
    expect(raw.code).toBe(429)
    await socket.synced('s0')
    socket.unsubscribe('s0')
    await socket.ends('s0')
    socket.subscribe('again', path)
    await socket.synced('again')
  })

  it('all close with 1013 when the client does not read, without effect on other clients', async () => {
    const slow = await connect()
    slow.subscribe('a', items.path)
    slow.subscribe('b', items.path)
    await slow.synced('b')
    const quick = await connect()
    quick.subscribe('a', items.path)
    await quick.synced('a')
    slow.pause()
    // More than the system's buffers on both sides plus the server's own bound.
    let last = ''
    for (let n = 0; n < 24; n++) {
      const made = await items.create(`o${n}`, { op: 'x'.repeat(1_000_000) })
      last = made.metadata.version
    }
    await quick.reaches('a', last)
    slow.resume()
    expect((await slow.closed).code).toBe(1013)
    expect(slow.story('a').length).toBeLessThan(24)
    expect(quick.story('a')).toHaveLength(24)
    const resumeFrom = slow.of('a').at(-1)?.version
    const resumed = await connect()
    resumed.subscribe('a', `${items.path}?version=${resumeFrom}`)
    await resumed.reaches('a', last)
    expect([...slow.story('a'), ...resumed.story('a')]).toEqual(quick.story('a'))
  })

  it('need the sub-protocol; a refusal names it', async () => {
    const answer = await refusedWatch(world.server.url, '/apis')
    expect(refusalOf(answer, 400).message).toContain(multiplexProtocol)
  })
})

describe('connections that watch', () => {
  let world: SharedWorld
  beforeAll(async () => {
    world = await startSharedWorld('embedded', ['items-plugin'], { args: ['--max-watches-per-user', '3'] })
  })
  afterAll(() => world?.end())

  it('are bounded over all transports together, and a closed one makes room', async () => {
    const { url } = world.server
    const items = itemsOf(world.api)
    const socket = await Watch.open(url, items.path)
    const many = await Multiplexed.open(url)
    for (let n = 0; n < 5; n++) many.subscribe(`s${n}`, items.path)
    await many.synced('s4')
    const streaming = new AbortController()
    const stream = await fetch(`${url}${items.path}?watch=true`, { signal: streaming.signal })
    expect(stream.status).toBe(200)
    const refusals = [
      await refusedWatch(url, items.path),
      await refusedWatch(url, '/apis', { 'sec-websocket-protocol': multiplexProtocol }),
      await world.api.get(`${items.path}?watch=true`),
      await world.api.get(`${items.path}?watch=true`, { headers: { accept: 'text/event-stream' } }),
    ]
    for (const refused of refusals) {
      refusalOf(refused, 429)
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    }
    // Other requests are served.
    await items.create('a', {})
    streaming.abort()
    await eventually(async () => (await Watch.open(url, items.path)).cut())
    await many.close()
    await eventually(async () => (await Multiplexed.open(url)).close())
    await socket.close()
  })
})

describe('a server that shuts down', () => {
  it('ends each watch with a bookmark', async () => {
    const world = await startSharedWorld('embedded', ['items-plugin'])
    const items = itemsOf(world.api)
    const watches = await Promise.all(
      // They end in several steps.
      Array.from({ length: 25 }, () => Watch.open(world.server.url, items.path)),
    )
    const many = await Multiplexed.open(world.server.url)
    many.subscribe('a', items.path)
    await many.synced('a')
    await Promise.all(watches.map(each => each.synced()))
    const stopping = world.end()
    for (const { code } of await Promise.all(watches.map(({ closed }) => closed))) expect(code).toBe(1001)
    for (const { events } of watches) expect(events.at(-1)?.type).toBe('BOOKMARK')
    expect((await many.closed).code).toBe(1001)
    expect(
      many
        .of('a')
        .slice(-2)
        .map(({ type, raw }) => [type, raw.code]),
    ).toEqual([
      ['BOOKMARK', undefined],
      ['END', 503],
    ])
    await stopping
  })
})
