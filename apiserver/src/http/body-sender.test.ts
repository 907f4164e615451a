import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { gunzipSync } from 'node:zlib'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { bodyDefaults, type SendOutcome, sendBody } from './body-sender.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** A server that responds to every request with the same parts, and its last response. */
class Sender {
  readonly outcomes: SendOutcome[] = []
  response: ServerResponse | undefined
  /** Writes that asked the sender to wait. */
  refused = 0
  drained = 0
  port = 0
  readonly #server = createServer((request, response) => {
    this.response = response
    const write = response.write.bind(response)
    Object.assign(response, {
      write: (block: Buffer) => {
        const goOn = write(block)
        if (!goOn) this.refused++
        return goOn
      },
    })
    response.on('drain', () => this.drained++)
    const gzip = request.url?.startsWith('/gzip') === true
    if (!gzip) response.setHeader('content-length', this.#length)
    const sending = sendBody(response, this.#parts, { gzipFor: gzip ? request.url : undefined })
    void sending.then(outcome => this.outcomes.push(outcome))
  })
  readonly #parts: readonly Buffer[]
  readonly #length: number

  constructor(parts: readonly Buffer[]) {
    this.#parts = parts
    this.#length = parts.reduce((sum, part) => sum + part.length, 0)
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    this.port = address.port
  }

  /** A client that has sent a request and reads nothing yet. */
  async ask(path = '/'): Promise<Socket> {
    const socket = connect(this.port, '127.0.0.1')
    socket.pause()
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`)
    await eventually(() => this.response?.writableNeedDrain === true)
    return socket
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

let sender: Sender | undefined

afterEach(() => sender?.close())

async function serve(parts: readonly Buffer[]): Promise<Sender> {
  sender = new Sender(parts)
  await sender.listen()
  return sender
}

function eventually(condition: () => boolean): Promise<void> {
  return vi.waitFor(() => expect(condition()).toBe(true), { interval: 2, timeout: 60_000 })
}

function digest(...parts: readonly Uint8Array[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part)
  return hash.digest('hex')
}

/** Parts of all sizes: smaller than a block, ending with a block, larger than a block. */
function mixedParts(): Buffer[] {
  const { blockBytes } = bodyDefaults
  const sizes = [1, 0, 700, blockBytes - 701, blockBytes, 3, 5 * blockBytes + 11, blockBytes - 1, 2, 0, 9]
  return sizes.map((size, i) => Buffer.alloc(size, String.fromCharCode(97 + i)))
}

describe('a large body', () => {
  it('arrives whole with parts of any size, and the connection can be reused', async () => {
    const parts = mixedParts()
    const { url, outcomes } = await serve(parts)
    for (let i = 1; i <= 3; i++) {
      const answer = await fetch(url)
      expect(digest(new Uint8Array(await answer.arrayBuffer()))).toBe(digest(...parts))
      await eventually(() => outcomes.length === i)
    }
    expect(outcomes).toEqual(['sent', 'sent', 'sent'])
  })

  it('is not changed by others that are sent while its client is slow', async () => {
    // Each part has its number, so that a block of one body is wrong in another place of another.
    const parts = Array.from({ length: 16_000 }, (_, n) => Buffer.alloc(1000, String(n).padStart(8, '0')))
    const server = await serve(parts)
    const slow = await server.ask()
    for (let i = 0; i < 3; i++) {
      const answer = await fetch(server.url)
      expect(digest(new Uint8Array(await answer.arrayBuffer()))).toBe(digest(...parts))
    }
    const received: Buffer[] = []
    slow.on('data', data => received.push(data))
    slow.resume()
    const body = () => {
      const answer = Buffer.concat(received)
      return answer.subarray(answer.indexOf('\r\n\r\n') + 4)
    }
    await eventually(() => slow.bytesRead > 16_000_000 && body().length >= 16_000_000)
    expect(digest(body())).toBe(digest(...parts))
  })

  it('is the same with gzip, in chunks', async () => {
    const parts = mixedParts()
    const { url, port } = await serve(parts)
    // Over a plain socket, because fetch would decompress it.
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('GET /gzip HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'),
    )
    const received: Buffer[] = []
    for await (const data of socket) received.push(data)
    const answer = Buffer.concat(received)
    const bodyAt = answer.indexOf('\r\n\r\n') + 4
    const head = answer.toString('latin1', 0, bodyAt).toLowerCase()
    expect(head).toContain('transfer-encoding: chunked')
    expect(head).not.toContain('content-length')
    expect(digest(gunzipSync(unchunk(answer.subarray(bodyAt))))).toBe(digest(...parts))
    expect((await fetch(`${url}/gzip`)).status).toBe(200)
  })

  it('is compressed in turns with those of other callers', async () => {
    const { blockBytes, compressions } = bodyDefaults
    const { url } = await serve(Array<Buffer>(100).fill(noise(blockBytes)))
    const endless = new AbortController()
    let readByOther = 0
    const readAll = async () => {
      while (!endless.signal.aborted) {
        const answer = await fetch(`${url}/gzip/other`, { signal: endless.signal })
        for await (const bytes of answer.body ?? []) readByOther += bytes.length
      }
    }
    const many = Promise.allSettled(Array.from({ length: 10 * compressions }, readAll))
    await eventually(() => readByOther > 100 * blockBytes)
    const before = readByOther
    const answer = await fetch(`${url}/gzip/one`)
    const read = (await answer.arrayBuffer()).byteLength
    const meanwhile = readByOther - before
    endless.abort()
    await many
    expect(read).toBeGreaterThan(100 * blockBytes)
    expect(meanwhile).toBeLessThan(3 * (compressions + 1) * read)
  })

  for (const path of ['/', '/gzip']) {
    it(`waits for a slow reader with at most two blocks in memory (${path})`, async () => {
      // A response of 100 MB from 1 MB of entries, because lists share them.
      const entry = noise(1024 * 1024)
      const parts = Array.from({ length: 100 }, () => entry).flatMap(each => [
        each.subarray(0, 1000),
        each.subarray(1000),
      ])
      const server = await serve(parts)
      const before = bufferBytes()
      const socket = await server.ask(path)
      for (let round = 0; round < 4; round++) {
        await eventually(() => server.response?.writableNeedDrain === true)
        expect(server.response?.writableLength).toBeLessThan(3 * bodyDefaults.blockBytes)
        await expect.poll(() => bufferBytes() - before).toBeLessThan(8 * 1024 * 1024)
        await receive(socket, 4 * 1024 * 1024)
      }
      // It writes nothing between a refused write and the drain.
      expect(server.refused).toBeGreaterThan(4)
      expect(server.refused - server.drained).toBeLessThanOrEqual(1)
      expect(server.outcomes).toEqual([])
    })
  }

  for (const path of ['/', '/gzip']) {
    it(`stops when its client disconnects, and the next client is served (${path})`, async () => {
      const entry = noise(65_000)
      const server = await serve(Array.from({ length: 500 }, () => entry))
      const socket = await server.ask(path)
      socket.destroy()
      await eventually(() => server.outcomes.length === 1)
      expect(server.outcomes).toEqual(['client gone'])
      const answer = await fetch(server.url)
      expect((await answer.arrayBuffer()).byteLength).toBe(500 * entry.length)
    })
  }
})

/** Bytes of buffers in use, after a garbage collection. */
function bufferBytes(): number {
  collectGarbage()
  return process.memoryUsage().arrayBuffers
}

/** Bytes that gzip cannot compress. */
function noise(bytes: number): Buffer {
  const made = Buffer.alloc(bytes)
  for (let at = 0; at < bytes; at += 32) createHash('sha256').update(String(at)).digest().copy(made, at)
  return made
}

/** Reads at least this many bytes, and pauses again. */
async function receive(socket: Socket, bytes: number): Promise<void> {
  const wanted = socket.bytesRead + bytes
  const drop = () => {}
  socket.on('data', drop).resume()
  await eventually(() => socket.bytesRead >= wanted)
  socket.off('data', drop)
  socket.pause()
}

function unchunk(body: Buffer): Buffer {
  const chunks: Buffer[] = []
  for (let at = 0; ; ) {
    const lineEnd = body.indexOf('\r\n', at)
    const size = Number.parseInt(body.toString('latin1', at, lineEnd), 16)
    if (size === 0) return Buffer.concat(chunks)
    chunks.push(body.subarray(lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
}
