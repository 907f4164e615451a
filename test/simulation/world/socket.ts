import { Duplex } from 'node:stream'
import type { WorldNode } from './node.ts'
import type { Pipe, PipeEnd } from './pipe.ts'

/**
 * One end of a connection in the world. It stands for a `net.Socket` where Node's HTTP and ws use one: they do not need
 * more than this.
 */
export class WorldSocket extends Duplex implements PipeEnd {
  readonly node: WorldNode
  readonly remoteAddress = '127.0.0.1'
  readonly remotePort: number
  readonly remoteFamily = 'IPv4'
  connecting = false
  bytesRead = 0
  bytesWritten = 0
  timeout = 0
  #out: Pipe | undefined
  #in: Pipe | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(node: WorldNode, { port, allowHalfOpen }: { port: number; allowHalfOpen: boolean }) {
    super({ allowHalfOpen, autoDestroy: true })
    this.node = node
    this.remotePort = port
  }

  connect(pipes: { readonly out: Pipe; readonly in: Pipe }): void {
    this.#out = pipes.out
    this.#in = pipes.in
    this.connecting = false
    this.emit('connect')
    this.emit('ready')
  }

  arrive(bytes: Buffer): boolean {
    if (this.destroyed) return true
    this.bytesRead += bytes.length
    this.#seen()
    return this.push(bytes)
  }

  finish(): void {
    if (!this.destroyed && !this.readableEnded) this.push(null)
  }

  break(): void {
    // A server that stands still has not accepted it yet, and never hears of it.
    if (this.#in === undefined && !this.connecting) this.destroy()
    else
      this.destroy(
        Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read', errno: -104 }),
      )
  }

  override _read(): void {
    this.#in?.readOn()
  }

  override _write(chunk: Buffer, _: BufferEncoding, done: (error?: Error) => void): void {
    if (this.connecting) {
      this.once('connect', () => this._write(chunk, _, done))
      return
    }
    this.bytesWritten += chunk.length
    this.#seen()
    this.#out?.send(chunk, done)
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: (error?: Error) => void): void {
    this._write(Buffer.concat(chunks.map(({ chunk }) => chunk)), 'utf8', done)
  }

  override _final(done: () => void): void {
    if (this.connecting) {
      this.once('connect', () => this._final(done))
      return
    }
    this.#out?.finish()
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.setTimeout(0)
    this.#in?.drop()
    // As a kernel closes a socket: what was written still arrives, and then the other end is told.
    this.#out?.finish()
    this.#in = undefined
    done(error)
  }

  /** Called by Node's HTTP for a connection that is to end. */
  destroySoon(): void {
    if (this.writable) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }

  /** Closes the parser that Node's HTTP has given it: a native object, which keeps alive all that it refers to. */
  release(): void {
    const parser: unknown = Reflect.get(this, 'parser')
    if (!(parser instanceof Object) || !('close' in parser) || typeof parser.close !== 'function') return
    Reflect.set(this, 'parser', null)
    parser.close()
  }

  resetAndDestroy(): this {
    return this.destroy()
  }

  setKeepAlive(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setTimeout(ms: number, callback?: () => void): this {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.timeout = ms
    if (callback !== undefined) {
      if (ms === 0) this.removeListener('timeout', callback)
      else this.once('timeout', callback)
    }
    if (ms > 0) this.#timer = setTimeout(() => this.emit('timeout'), ms)
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  address(): { address: string; family: string; port: number } {
    return { address: '127.0.0.1', family: 'IPv4', port: this.remotePort }
  }

  #seen(): void {
    if (this.timeout > 0) this.#timer?.refresh()
  }
}
