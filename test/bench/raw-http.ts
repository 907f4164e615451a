import { connect, type Socket } from 'node:net'

/**
 * One keep-alive connection that sends prepared requests one after another and reads responses with a content-length.
 * It does as little as a load generator can, so that the server dominates the measurement.
 */
export class RawConnection {
  readonly #socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #waiting: { resolve: (answer: RawAnswer) => void; reject: (error: Error) => void } | undefined

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', part => this.#take(part))
    socket.on('close', () => this.#waiting?.reject(new Error('the server closed the connection')))
    socket.on('error', error => this.#waiting?.reject(error))
  }

  static open(url: URL): Promise<RawConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(url.port), url.hostname, () => resolve(new RawConnection(socket)))
      socket.once('error', reject)
    })
  }

  send(request: string | Buffer): Promise<RawAnswer> {
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject }
      this.#socket.write(request)
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #take(part: Buffer): void {
    this.#received = this.#received.length === 0 ? part : Buffer.concat([this.#received, part])
    const end = this.#received.indexOf('\r\n\r\n')
    if (end < 0) return
    const head = this.#received.toString('latin1', 0, end)
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
    const total = end + 4 + length
    if (this.#received.length < total) return
    this.#received = this.#received.subarray(total)
    this.#waiting?.resolve({ status: Number(head.slice(9, 12)), bytes: total })
  }
}

export interface RawAnswer {
  readonly status: number
  readonly bytes: number
}

export function rawRequest(
  method: string,
  url: URL,
  path: string,
  body = '',
  contentType = 'application/json',
  accept = '*/*',
): string {
  const lines = [`${method} ${path} HTTP/1.1`, `host: ${url.host}`, `accept: ${accept}`]
  if (body !== '') lines.push(`content-type: ${contentType}`, `content-length: ${Buffer.byteLength(body)}`)
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Adds a token to a request. */
export function withToken(token: string | undefined, request: string): string {
  return token === undefined
    ? request
    : request.replace('\r\n\r\n', `\r\nauthorization: Bearer ${token}\r\n\r\n`)
}

/** Keeps `lanes` requests in flight until `count` responses have arrived. @returns requests per second */
export async function load(
  url: URL,
  lanes: number,
  count: number,
  request: (n: number) => string | Buffer,
  expected: number,
): Promise<number> {
  const connections = await Promise.all(Array.from({ length: lanes }, () => RawConnection.open(url)))
  let next = 0
  const begin = performance.now()
  await Promise.all(
    connections.map(async connection => {
      for (let n = next++; n < count; n = next++) {
        const answer = await connection.send(request(n))
        if (answer.status !== expected) throw new Error(`status ${answer.status}, want ${expected}`)
      }
    }),
  )
  const seconds = (performance.now() - begin) / 1000
  for (const connection of connections) connection.close()
  return count / seconds
}
