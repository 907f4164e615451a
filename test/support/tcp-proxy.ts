import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { freePort } from './ports.ts'

/** A TCP proxy on a loopback port that fails in the ways in which networks do. */
export interface TcpProxy {
  /** `http://127.0.0.1:<port>`, the same while it refuses. */
  readonly endpoint: string
  readonly port: number
  /** Connections that are open now. */
  readonly connections: number
  /** Connections accepted since the start. */
  readonly accepted: number
  /** Resets all connections. New ones are accepted. */
  cut(): void
  /** Bytes of the server's that have passed since the start. */
  readonly passed: number
  /**
   * Ends one connection after the other, of those to come, in the midst of whatever is there: each when the next of
   * these numbers of bytes of the server's have passed through it and more follow. A connection that ends before leaves
   * its number to the next; when all numbers are used, connections live.
   */
  cutAt(positions: readonly number[]): void
  /** Numbers given to `cutAt` that no connection was cut at yet. */
  readonly cutsLeft: number
  /**
   * Resets the next connection on which the server begins an answer, before any byte of it passes: the request has been
   * carried out. To be called for HTTP/2 without TLS only, whose acknowledgements and pings are told from answers here.
   */
  cutNextAnswer(): Promise<void>
  /** Refuses connections (nobody listens), and resets those that exist, until `accept`. */
  refuse(): Promise<void>
  accept(): Promise<void>
  /**
   * Leaves the present connections half open: they stay, and pass nothing in either direction until `release`.
   * New ones work.
   */
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
  /** Bytes of the server's that have passed. */
  passed: number
  /** Bytes of the server's after which it ends. */
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
    // The bytes up to the cut must arrive: ended by FIN, which sends them, not by reset, which may drop them.
    client.end(chunk.subarray(0, passes))
    upstream.destroy()
    // Of several connections with one number the first has used it.
    const used = this.#cuts.indexOf(cutAt)
    if (used !== -1) this.#cuts.splice(used, 1)
  }
}

/** RFC 9113, section 6. */
const frameTypes = { headers: 1 }

/** Follows one direction of an HTTP/2 connection without preface (RFC 9113, section 4.1), cut anywhere. */
class FrameTypes {
  /** The present frame's header, as far as it has come. */
  #header: number[] = []
  /** Bytes of the present frame's payload that are still to come. */
  #payload = 0

  /** The types of the frames that begin, with their header complete, in this chunk. */
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
