import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './ports.ts'

/** A TCP proxy on a loopback port that fails as networks do. */
export interface TcpProxy {
  /** `http://127.0.0.1:<port>`; does not change while it refuses connections. */
  readonly endpoint: string
  readonly port: number
  /** Number of open connections. */
  readonly connections: number
  /** Number of connections accepted since the start. */
  readonly accepted: number
  /** Resets all connections. New ones are accepted. */
  cut(): void
  /** Number of bytes that the server has sent since the start. */
  readonly passed: number
  /**
   * Cuts future connections in mid-stream. Each takes the next of these numbers and ends after that many bytes from the
   * server, if more follow. A connection that ends earlier leaves its number to the next. Later connections stay open.
   */
  cutAt(positions: readonly number[]): void
  /** Numbers given to `cutAt` and not used yet. */
  readonly cutsLeft: number
  /**
   * Resets the next connection when the server begins a response, before its first byte passes: the server has carried
   * out the request. Only for HTTP/2 without TLS, because it tells responses from acknowledgements and pings.
   */
  cutNextAnswer(): Promise<void>
  /** Refuses connections and resets open ones, until `accept`. */
  refuse(): Promise<void>
  accept(): Promise<void>
  /** Leaves the open connections half open: they pass nothing in either direction until `release`. New ones work. */
  hold(): void
  release(): void
  close(): Promise<void>
}

export async function startTcpProxy(target: { readonly port: number }): Promise<TcpProxy> {
  const proxy = new FaultyProxy(target.port)
  await proxy.accept()
  return proxy
}

interface Pair {
  readonly client: Socket
  readonly upstream: Socket
  /** Number of bytes from the server that have passed. */
  passed: number
  /** It ends after this many bytes from the server. */
  readonly cutAt: number | undefined
  readonly frames: FrameTypes
  held: boolean
}

class FaultyProxy implements TcpProxy {
  port = 0
  accepted = 0
  passed = 0
  readonly #target: number
  readonly #pairs = new Set<Pair>()
  #server: Server | undefined
  #cuts: number[] = []
  #onAnswer: (() => void) | undefined

  constructor(target: number) {
    this.#target = target
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get connections(): number {
    return this.#pairs.size
  }

  cut(): void {
    for (const pair of this.#pairs) reset(pair)
  }

  get cutsLeft(): number {
    return this.#cuts.length
  }

  cutAt(positions: readonly number[]): void {
    this.#cuts = [...positions]
  }

  cutNextAnswer(): Promise<void> {
    return new Promise(resolve => {
      this.#onAnswer = resolve
    })
  }

  async refuse(): Promise<void> {
    const server = this.#server
    this.#server = undefined
    if (!server) return
    const closed = once(server, 'close')
    server.close()
    this.cut()
    await closed
  }

  async accept(): Promise<void> {
    if (this.#server) return
    if (this.port === 0) this.port = await freePort()
    const server = createServer({ pauseOnConnect: false }, client => this.#connect(client))
    server.listen(this.port, '127.0.0.1')
    await once(server, 'listening')
    this.#server = server
  }

  hold(): void {
    for (const pair of this.#pairs) {
      pair.held = true
      pair.client.pause()
      pair.upstream.pause()
    }
  }

  release(): void {
    for (const pair of this.#pairs) {
      pair.held = false
      pair.client.resume()
      pair.upstream.resume()
    }
  }

  async close(): Promise<void> {
    await this.refuse()
  }

  #connect(client: Socket): void {
    this.accepted += 1
    const upstream = connect(this.#target, '127.0.0.1')
    const pair: Pair = {
      client,
      upstream,
      passed: 0,
      cutAt: this.#cuts[0],
      frames: new FrameTypes(),
      held: false,
    }
    this.#pairs.add(pair)
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true)
      socket.on('error', () => reset(pair))
      socket.on('close', () => {
        reset(pair)
        this.#pairs.delete(pair)
      })
    }
    client.on('data', (chunk: Buffer) => forward(pair, client, upstream, chunk))
    upstream.on('data', (chunk: Buffer) => this.#answer(pair, chunk))
  }

  #answer(pair: Pair, chunk: Buffer): void {
    const answers = pair.frames.beginningIn(chunk).includes(frameTypes.headers)
    if (this.#onAnswer && answers) {
      const done = this.#onAnswer
      this.#onAnswer = undefined
      reset(pair)
      done()
      return
    }
    const { client, upstream, passed, cutAt } = pair
    const passes = Math.min(chunk.length, (cutAt ?? Number.POSITIVE_INFINITY) - passed)
    pair.passed += passes
    this.passed += passes
    if (cutAt === undefined || passes === chunk.length) {
      forward(pair, upstream, client, chunk)
      return
    }
    // The bytes up to the cut must arrive. FIN delivers them; a reset may drop them.
    client.end(chunk.subarray(0, passes))
    upstream.destroy()
    // Another connection with the same number has used it.
    const used = this.#cuts.indexOf(cutAt)
    if (used !== -1) this.#cuts.splice(used, 1)
  }
}

/** RFC 9113, section 6. */
const frameTypes = { headers: 1 }

/** Parses the frames of one direction of an HTTP/2 connection without its preface (RFC 9113, section 4.1). */
class FrameTypes {
  /** The bytes received of the current frame's header. */
  #header: number[] = []
  /** Number of bytes missing from the current frame's payload. */
  #payload = 0

  /** Returns the types of the frames whose header is complete within this chunk. */
  beginningIn(chunk: Buffer): number[] {
    const types: number[] = []
    for (let at = 0; at < chunk.length; ) {
      if (this.#payload > 0) {
        const skipped = Math.min(this.#payload, chunk.length - at)
        this.#payload -= skipped
        at += skipped
        continue
      }
      this.#header.push(chunk[at++] ?? 0)
      if (this.#header.length < 9) continue
      const [high = 0, middle = 0, low = 0, type = 0] = this.#header
      this.#payload = (high << 16) | (middle << 8) | low
      this.#header = []
      types.push(type)
    }
    return types
  }
}

function forward(pair: Pair, from: Socket, to: Socket, chunk: Buffer): void {
  if (to.write(chunk)) return
  from.pause()
  to.once('drain', () => {
    if (!pair.held) from.resume()
  })
}

function reset({ client, upstream }: Pair): void {
  for (const socket of [client, upstream]) if (!socket.destroyed) socket.resetAndDestroy()
}
