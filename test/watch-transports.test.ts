import { EventSource } from 'eventsource'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { type Api, type Collection, objectOf, refusalOf } from './support/api.ts'
import { type Fields, fieldsOf, textOf } from './support/json.ts'
import { itemsOf } from './support/kinds.ts'
import { Multiplexed } from './support/multiplex.ts'
import { isInitialEnd, Watch } from './support/watch.ts'
import { eventually, type SharedWorld, startSharedWorld, stores } from './support/worlds.ts'

interface Said {
  readonly type: string
  readonly version: string
  readonly name: string
  readonly raw: Fields
  /** The `id:` of Server-Sent Events. */
  readonly id: string | undefined
}

/** A recorded watch over plain HTTP. */
class Stream {
  readonly events: Said[] = []
  readonly ended: Promise<void>
  readonly status: number
  readonly type: string | null
  readonly #abort: AbortController
  #hasEnded = false
  #wake: (() => void)[] = []

  private constructor(response: Response, abort: AbortController) {
    this.status = response.status
    this.type = response.headers.get('content-type')
    this.#abort = abort
    this.ended = this.#read(response).finally(() => {
      this.#hasEnded = true
      this.#notify()
    })
  }

  static async open(url: string, headers: Record<string, string> = {}): Promise<Stream> {
    const abort = new AbortController()
    return new Stream(await fetch(url, { headers, signal: abort.signal }), abort)
  }

  /** `TYPE name`, and `BOOKMARK` for the end of the initial events. Periodic bookmarks are omitted. */
  get story(): string[] {
    return storyOf(this.events)
  }

  async until(condition: (events: readonly Said[]) => boolean): Promise<void> {
    while (!condition(this.events)) {
      if (this.#hasEnded) throw new Error(`the stream ended after ${this.story.join(', ')}`)
      await new Promise<void>(resolve => this.#wake.push(resolve))
    }
  }

  reaches(version: string): Promise<void> {
    return this.until(events => events.some(event => Number(event.version) >= Number(version)))
  }

  async cut(): Promise<void> {
    this.#abort.abort()
    await this.ended
  }

  async #read(response: Response): Promise<void> {
    const isEvents = this.type === 'text/event-stream'
    const separator = isEvents ? '\n\n' : '\n'
    let text = ''
    const decoder = new TextDecoder()
    try {
      for await (const part of response.body ?? []) {
        text += decoder.decode(part, { stream: true })
        const whole = text.split(separator)
        text = whole.pop() ?? ''
        for (const each of whole) if (!each.startsWith(':')) this.events.push(readSaid(each, isEvents))
        this.#notify()
      }
    } catch (error) {
      if (!this.#abort.signal.aborted) throw error
    }
  }

  #notify(): void {
    const waiting = this.#wake
    this.#wake = []
    for (const wake of waiting) wake()
  }
}

function readSaid(text: string, isEvent: boolean): Said {
  if (!isEvent) return said(JSON.parse(text), undefined)
  const { id, data = '' } = /^(?:id: (?<id>\d+)\n)?data: (?<data>[^\n]*)$/.exec(text)?.groups ?? {}
  return said(JSON.parse(data), id)
}

function said(json: unknown, id: string | undefined): Said {
  const raw = fieldsOf(json)
  const type = textOf(raw.type)
  const metadata = fieldsOf(fieldsOf(raw.object).metadata)
  const version = type === 'ERROR' ? '' : textOf(metadata.version)
  return { type, version, name: typeof metadata.name === 'string' ? metadata.name : '', raw, id }
}

function storyOf(events: readonly Said[]): string[] {
  const told = events.filter(event => event.type !== 'BOOKMARK' || isInitialEnd(event))
  return told.map(({ type, name }) => (name === '' ? type : `${type} ${name}`))
}

const eventStream = { accept: 'text/event-stream' }

describe.each(stores)('watches over plain HTTP, on the %s store', store => {
  let world: SharedWorld
  let api: Api
  let items: Collection
  const open: { cut(): Promise<unknown> }[] = []

  beforeAll(async () => {
    world = await startSharedWorld(store, ['items-plugin'])
    api = world.api
    items = itemsOf(api)
  })
  afterAll(() => world?.end())
  afterEach(async () => {
    await Promise.all(open.splice(0).map(each => each.cut()))
    await items.clear()
  })

  async function stream(query = '', headers: Record<string, string> = {}, path = items.path) {
    const opened = await Stream.open(
      `${world.server.url}${path}?watch=true${query === '' ? '' : `&${query}`}`,
      headers,
    )
    open.push(opened)
    expect(opened.status).toBe(200)
    return opened
  }

  it.each(['fieldSelector=spec.rank%3Da', 'fieldSelector=spec.rank%3Cb'])(
    'send the same events of %s on every transport: lines, Server-Sent Events, an EventSource, a WebSocket, a multiplexed one',
    async query => {
      await items.create('before', { rank: 'a' })
      const lines = await stream(`${query}&allowWatchBookmarks=true`)
      const events = await stream(query, eventStream)
      const socket = await Watch.open(world.server.url, `${items.path}?${query}`)
      const many = await Multiplexed.open(world.server.url)
      many.subscribe('m', `${items.path}?${query}`)
      const source = new EventSource(`${world.server.url}${items.path}?watch=true&${query}`)
      const heard: Fields[] = []
      source.onmessage = ({ data }) => heard.push(fieldsOf(JSON.parse(data)))
      open.push(socket, many, { cut: async () => source.close() })
      const synced = (all: readonly { type: string }[]) => all.some(({ type }) => type === 'BOOKMARK')
      await Promise.all([lines.until(synced), events.until(synced), socket.synced(), many.synced('m')])
      const changes = (all: readonly Fields[]) => all.filter(({ type }) => type !== 'BOOKMARK')
      while (changes(heard).length === heard.length)
        await new Promise(resolve => source.addEventListener('message', resolve, { once: true }))
      await items.create('x', { rank: 'a', title: 'Übung "1"' })
      await api.mergePatch(items.at('x'), { spec: { rank: 'b' } })
      await items.create('y', { rank: 'b' })
      const last = objectOf(await api.delete(items.at('before'))).metadata.version
      await Promise.all([lines, events, socket].map(each => each.reaches(last)))
      await many.reaches('m', last)
      while (changes(heard).length < 4)
        await new Promise(resolve => source.addEventListener('message', resolve, { once: true }))
      expect(lines.story).toEqual(['ADDED before', 'BOOKMARK', 'ADDED x', 'DELETED x', 'DELETED before'])
      const expected = changes(lines.events.map(({ raw }) => raw))
      expect(changes(events.events.map(({ raw }) => raw))).toEqual(expected)
      expect(socket.changes.map(({ raw }) => raw)).toEqual(expected)
      expect(changes(many.of('m').map(({ raw: { id: _id, ...raw } }) => raw))).toEqual(expected)
      expect(changes(heard)).toEqual(expected)
    },
  )

  it('are JSON lines, with bookmarks only on request', async () => {
    await items.create('a', {})
    const plain = await stream()
    const marked = await stream('allowWatchBookmarks=true')
    expect(plain.type).toBe('application/json')
    const made = await items.create('b', {})
    await Promise.all([plain.reaches(made.metadata.version), marked.reaches(made.metadata.version)])
    expect(plain.story).toEqual(['ADDED a', 'ADDED b'])
    expect(marked.story).toEqual(['ADDED a', 'BOOKMARK', 'ADDED b'])
  })

  it('of one name send only that object', async () => {
    const watching = await stream('', {}, items.at('me'))
    await items.create('other', {})
    const made = await items.create('me', {})
    await watching.reaches(made.metadata.version)
    expect(watching.story).toEqual(['ADDED me'])
  })

  it('end with the last bookmark after timeoutSeconds', async () => {
    const watching = await stream('timeoutSeconds=1&allowWatchBookmarks=true')
    await watching.ended
    expect(watching.story).toEqual(['BOOKMARK'])
    expect(watching.events.length).toBeGreaterThan(1)
    expect(watching.events.at(-1)?.type).toBe('BOOKMARK')
  })

  it('from a future version are one ERROR with 410', async () => {
    for (const headers of [{}, eventStream]) {
      const watching = await stream('version=99999999999', headers)
      await watching.ended
      expect(watching.story).toEqual(['ERROR'])
      expect(fieldsOf(watching.events[0]?.raw.object)).toMatchObject({ code: 410, reason: 'Expired' })
    }
  })

  it.each([
    'watch',
    'watch=True',
    'watch=1&allowWatchBookmarks=FALSE',
    'watch=true&timeoutSeconds=99999999999',
  ])('are asked for also as other clients of Kubernetes do: %s', async query => {
    await items.create('a', {})
    const watching = await Stream.open(`${world.server.url}${items.path}?${query}`)
    open.push(watching)
    const made = await items.create('b', {})
    await watching.reaches(made.metadata.version)
    expect(watching.story).toEqual(['ADDED a', 'ADDED b'])
  })

  it('return a list for watch=false', async () => {
    for (const no of ['false', 'False', '0'])
      expect(await api.get(`${items.path}?watch=${no}`)).toMatchObject({
        status: 200,
        body: { kind: 'ItemList' },
      })
  })

  it('that are refused are an HTTP error with a Status', async () => {
    refusalOf(await api.get(`${items.path}?watch=true&labelSelector=a%20b`), 400)
    refusalOf(await api.get(`${items.path}?watch=maybe`), 400)
    refusalOf(await api.get(`${items.path}?watch=true&timeoutSeconds=-1`), 400)
    refusalOf(await api.get(`${items.path}?watch=true`, { headers: { accept: 'text/html' } }), 406)
  })

  describe('as Server-Sent Events', () => {
    it('carry an id from the bookmark that ends the initial events, not before', async () => {
      await items.create('a', {})
      const watching = await stream('', eventStream)
      const made = await items.create('b', {})
      await watching.reaches(made.metadata.version)
      const [first, bookmark] = watching.events
      const change = watching.events.find(({ name }) => name === 'b')
      expect(watching.story).toEqual(['ADDED a', 'BOOKMARK', 'ADDED b'])
      expect(first?.id).toBeUndefined()
      expect(bookmark?.id).toBe(bookmark?.version)
      expect(change?.id).toBe(made.metadata.version)
    })

    it('resume from Last-Event-ID, which overrides a version in the URL', async () => {
      const first = await items.create('a', {})
      const second = await items.create('b', {})
      const third = await items.create('c', {})
      const headers = { ...eventStream, 'last-event-id': second.metadata.version }
      const watching = await stream(`version=${first.metadata.version}`, headers)
      await watching.reaches(third.metadata.version)
      expect(watching.story).toEqual(['ADDED c'])
    })

    it('resume from Last-Event-ID even if the URL asks for the initial events', async () => {
      await items.create('a', {})
      const query = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan'
      const before = await stream(query, eventStream)
      const second = await items.create('b', {})
      await before.reaches(second.metadata.version)
      expect(before.story).toEqual(['ADDED a', 'BOOKMARK', 'ADDED b'])
      await items.api.delete(items.at('a'))
      const third = await items.create('c', {})
      const after = await stream(query, { ...eventStream, 'last-event-id': second.metadata.version })
      await after.reaches(third.metadata.version)
      expect(after.story).toEqual(['DELETED a', 'ADDED c'])
    })

    it('deliver each event once to an EventSource whose connection is cut repeatedly', async () => {
      const source = new EventSource(`${world.server.url}${items.path}?watch=true&timeoutSeconds=1`)
      open.push({ cut: async () => source.close() })
      const heard: string[] = []
      source.onmessage = ({ data }) => {
        const { type, name } = said(JSON.parse(data), undefined)
        if (type !== 'BOOKMARK') heard.push(`${type} ${name}`)
      }
      let opened = 0
      source.addEventListener('open', () => opened++)
      while (opened === 0)
        await new Promise(resolve => source.addEventListener('open', resolve, { once: true }))
      const expected: string[] = []
      // Until it has resumed, and some more.
      for (let n = 0, more = 10; more > 0; n++, more -= opened > 1 ? 1 : 0) {
        await items.create(`o${n}`, {})
        expected.push(`ADDED o${n}`)
      }
      while (heard.length < expected.length)
        await new Promise(resolve => source.addEventListener('message', resolve, { once: true }))
      expect(heard).toEqual(expected)
    })
  })
})

describe('the initial events of a watch', () => {
  it('follow the pace of the client, come from one snapshot, use little memory, and precede the changes made meanwhile', async () => {
    const world = await startSharedWorld('embedded', ['items-plugin'])
    try {
      const items = itemsOf(world.api)
      const count = 800
      const op = 'x'.repeat(40_000)
      const names = Array.from({ length: count }, (_, n) => `o${String(n).padStart(3, '0')}`)
      for (let at = 0; at < count; at += 100)
        await Promise.all(names.slice(at, at + 100).map(name => items.create(name, { op, rank: 'a' })))
      const before = await buffersOf(world.api)
      const socket = new WebSocket(`${world.server.url.replace('http', 'ws')}${items.path}`)
      const story: string[] = []
      let taken = 0
      let isSlow = true
      const closed = new Promise<number>(resolve => socket.on('close', resolve))
      const last = new Promise<void>(resolve =>
        socket.on('message', data => {
          const event = said(JSON.parse(String(data)), undefined)
          story.push(...storyOf([event]))
          if (event.name === 'zz') resolve()
          taken += String(data).length
          // Reads half a megabyte, then pauses.
          if (!isSlow || taken < 500_000) return
          taken = 0
          socket.pause()
        }),
      )
      const paused = () => eventually(() => expect(socket.isPaused).toBe(true))
      await paused()
      await world.api.mergePatch(items.at('o799'), { spec: { rank: 'b' } })
      objectOf(await world.api.delete(items.at('o001')))
      for (let n = 0; n < 10; n++) {
        await world.api.mergePatch(items.at('o400'), { spec: { rank: `c${n}` } })
        // Half of the remaining bytes; written buffers that are not collected yet count too.
        await eventually(async () =>
          expect((await buffersOf(world.api)) - before).toBeLessThan(16 * 1024 * 1024),
        )
        socket.resume()
        await paused()
      }
      expect(story.length).toBeLessThan(count)
      isSlow = false
      socket.resume()
      await items.create('zz', {})
      await last
      socket.close()
      await closed
      expect(story).toEqual([
        ...names.map(name => `ADDED ${name}`),
        'BOOKMARK',
        'MODIFIED o799',
        'DELETED o001',
        ...Array.from({ length: 10 }, () => 'MODIFIED o400'),
        'ADDED zz',
      ])
    } finally {
      await world.end()
    }
  })
})

/** Bytes of the server's buffers. */
async function buffersOf(api: Api): Promise<number> {
  const { text } = await api.get('/metrics')
  return Number(/^nodejs_external_memory_bytes (\S+)$/m.exec(text)?.[1])
}
