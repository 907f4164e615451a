import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, it, test } from 'vitest'
import { Api } from './support/api.ts'
import { itemsOf } from './support/kinds.ts'
import { pluginModule, writePlugin } from './support/plugins.ts'
import { startServer } from './support/server.ts'
import { resume, suspend } from './support/suspend.ts'
import { bothStores, eventually, startWorld, type World } from './support/worlds.ts'

/** A client that keeps its connection and creates objects one after another while it gets responses. */
class Writer {
  readonly socket: Socket
  readonly answers: string[] = []
  /** The names of the objects in its requests. */
  readonly asked: string[] = []
  hasFailed = false
  #text = ''
  readonly #label: string

  constructor(port: number, label: string) {
    this.#label = label
    this.socket = connect(port, '127.0.0.1')
    this.socket.setEncoding('latin1').on('data', text => {
      this.#text += text
      this.#read()
    })
    this.socket.on('error', () => {
      this.hasFailed = true
    })
    this.socket.on('connect', () => this.#ask())
  }

  /** True if its last request has no response yet. */
  get isWaiting(): boolean {
    return this.asked.length > this.answers.length
  }

  get wasToldOfTheEnd(): boolean {
    return /^connection: close/im.test(this.answers.at(-1) ?? '')
  }

  #ask(): void {
    const name = `${this.#label}-${this.asked.length}`
    this.asked.push(name)
    const body = JSON.stringify({
      apiVersion: 'items.example.com/v1',
      kind: 'Item',
      metadata: { name },
      spec: {},
    })
    this.socket.write(
      `POST /apis/items.example.com/v1/items HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
  }

  #read(): void {
    const head = /^HTTP\/1\.1 201 [\s\S]*?\r\n\r\n/.exec(this.#text)?.[0]
    if (head === undefined) return
    const length = head.length + Number(/^content-length: (\d+)/im.exec(head)?.[1])
    if (this.#text.length < length) return
    this.answers.push(this.#text.slice(0, length))
    this.#text = this.#text.slice(length)
    if (!this.wasToldOfTheEnd) this.#ask()
  }
}

describe('SIGTERM', () => {
  let world: World | undefined
  const sockets: Socket[] = []

  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy()
    await world?.end()
  })

  /** Sends the bytes and collects the response. */
  function send(text: string): { socket: Socket; received(): string } {
    const socket = connect(world?.server.port ?? 0, '127.0.0.1')
    sockets.push(socket)
    let received = ''
    socket.setEncoding('latin1').on('data', part => {
      received += part
    })
    socket.on('error', () => {})
    socket.write(text)
    return { socket, received: () => received }
  }

  it.each(bothStores)(
    'loses no request on a kept connection: each gets a complete response, the last one with Connection: close (%s)',
    async store => {
      world = await startWorld(store, ['items-plugin'])
      const { server } = world
      const writers = Array.from({ length: 20 }, (_, n) => new Writer(server.port, `w${n}`))
      sockets.push(...writers.map(({ socket }) => socket))
      await eventually(() => expect(writers.every(({ answers }) => answers.length > 1)).toBe(true))
      // While stopped, the server responds to no request: soon every client waits, with its request unread.
      await suspend(server.pid)
      let before = -1
      await eventually(() => {
        const total = writers.reduce((sum, { answers }) => sum + answers.length, 0)
        const isStill = total === before && writers.every(({ isWaiting }) => isWaiting)
        before = total
        expect(isStill).toBe(true)
      })
      const ends = Promise.all(writers.map(({ socket }) => once(socket, 'close')))
      const exit = server.kill('SIGTERM')
      resume(server.pid)
      expect((await exit).code).toBe(0)
      await ends
      expect(writers.filter(({ hasFailed }) => hasFailed)).toEqual([])
      expect(writers.filter(({ isWaiting }) => isWaiting)).toEqual([])
      expect(writers.every(({ wasToldOfTheEnd }) => wasToldOfTheEnd)).toBe(true)

      await server.restart()
      const { names } = await itemsOf(new Api(server.url)).list()
      expect([...names].sort()).toEqual(writers.flatMap(({ asked }) => asked).sort())
    },
  )

  it('lets a route of a plugin finish its request, and does not abort its signal', async () => {
    const setup = `plugin.routes('api.polite.example.com/v1', r => r.get('/wait', async ({ signal }) => {
      await new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
        process.once('SIGTERM', () => setTimeout(resolve, 500))
        plugin.log.info({}, 'the request waits')
      })
      return { body: { finished: true } }
    }))`
    const dir = await writePlugin({ 'index.js': pluginModule('polite', { setup }) })
    const server = await startServer({ plugins: [dir] })
    try {
      const answer = new Api(server.url).get('/apis/api.polite.example.com/v1/wait')
      await eventually(() => expect(server.stderr()).toContain('the request waits'))
      expect((await server.stop()).code).toBe(0)
      expect((await answer).body).toEqual({ finished: true })
    } finally {
      await server.stop()
      await rm(dir, { recursive: true, force: true })
    }
  })

  it('does not wait for incomplete requests, nor for clients that do not read', async () => {
    world = await startWorld('embedded', ['items-plugin'])
    const { server } = world
    const items = itemsOf(world.api)
    const large = 'x'.repeat(1_000_000)
    // Far more than the system buffers for a client that does not read.
    for (let n = 0; n < 30; n++) await items.create(`large-${n}`, { note: large })
    const head = 'host: localhost\r\ncontent-type: application/json\r\n'
    const path = items.path
    const headers = send(`POST ${path} HTTP/1.1\r\n${head}`)
    const body = send(`POST ${path} HTTP/1.1\r\n${head}content-length: 100\r\n\r\n{`)
    const silent = send('')
    await once(silent.socket, 'connect')
    const list = send(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`)
    await once(list.socket, 'data')
    list.socket.pause()
    // The server responds to this request after it has received the earlier ones.
    await items.list({ limit: '1' })
    const exit = await server.kill('SIGTERM')
    expect(exit.code).toBe(0)
    for (const client of [headers, body]) {
      expect(client.received()).toMatch(/^HTTP\/1.1 503 /)
      expect(client.received()).toContain('"reason":"ServiceUnavailable"')
      expect(client.received()).toMatch(/^retry-after: \d+/im)
    }
    expect(silent.received()).toBe('')
    // By the rule, and not by the end of the time that a server has to stop.
    expect(exit.stderr).toContain('disconnected a client that did not read its response')
  })
})

test('SIGHUP drains a server too, and the further ones of a closing terminal do not force it', async () => {
  const setup = `plugin.routes('api.polite.example.com/v1', r => r.get('/wait', async () => {
    let count = 0
    await new Promise(resolve => {
      process.on('SIGHUP', () => ++count === 2 && resolve())
      plugin.log.info({}, 'the request waits')
    })
    return { body: { finished: true } }
  }))`
  const plugin = await writePlugin({ 'index.js': pluginModule('polite', { setup }) })
  const server = await startServer({ plugins: [plugin] })
  try {
    const response = new Api(server.url).get('/apis/api.polite.example.com/v1/wait')
    await eventually(() => expect(server.stderr()).toContain('the request waits'))
    process.kill(server.pid, 'SIGHUP')
    await eventually(() => expect(server.stderr()).toContain('"msg":"stopping'))
    const exit = server.kill('SIGHUP')
    expect((await response).body).toEqual({ finished: true })
    expect(await exit).toMatchObject({ code: 0, signal: null })
  } finally {
    await server.stop()
    await rm(plugin, { recursive: true })
  }
})
