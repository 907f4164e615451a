import { connect, type Socket } from 'node:net'

const opcodes = Object.freeze({ text: 1, close: 8, ping: 9 })
const pong = Buffer.from([0x8a, 0x80, 0, 0, 0, 0])

/** Called with each event: its text is `data` from `start` to `end`. */
export type OnText = (data: Buffer, start: number, end: number) => void

/**
 * One WebSocket on a raw socket. It finds complete frames and replies to pings, and does nothing else, so that the
 * server dominates the measurement. @throws Error if it is refused. `onClose` gets the reason if the server closes it
 * later.
 */
export function openRawWebSocket(
  url: URL,
  path: string,
  onText: OnText,
  onClose: (reason: string) => void,
  token = '',
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(url.port), url.hostname)
    socket.setNoDelay(true)
    let answer = Buffer.alloc(0)
    const refused = () => reject(new Error(`no WebSocket at ${path}: ${answer.toString('latin1')}`))
    socket.once('close', refused)
    socket.on('error', reject)
    const onAnswer = (part: Buffer) => {
      answer = Buffer.concat([answer, part])
      const end = answer.indexOf('\r\n\r\n')
      if (end < 0) return
      socket.off('data', onAnswer)
      if (!answer.toString('latin1', 0, end).startsWith('HTTP/1.1 101 ')) return refused()
      const frames = new FrameReader(socket, onText, onClose)
      socket.on('data', later => frames.take(later))
      frames.take(answer.subarray(end + 4))
      resolve(socket)
    }
    socket.on('data', onAnswer)
    const key = Buffer.alloc(16, 'k').toString('base64')
    socket.write(
      `GET ${path} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n` +
        `sec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n` +
        `${token === '' ? '' : `authorization: Bearer ${token}\r\n`}\r\n`,
    )
  })
}

/** Finds frames in the chunks of a socket. Copies only the frames that span chunks. */
class FrameReader {
  readonly #socket: Socket
  readonly #onText: OnText
  readonly #onClose: (reason: string) => void
  /** The beginning of an incomplete frame. */
  #begun: Buffer | undefined

  constructor(socket: Socket, onText: OnText, onClose: (reason: string) => void) {
    this.#socket = socket
    this.#onText = onText
    this.#onClose = onClose
  }

  take(part: Buffer): void {
    let data = part
    let at = 0
    if (this.#begun !== undefined) {
      const missing = frameEnd(this.#begun, 0) - this.#begun.length
      // While the length is unknown, append whatever arrives.
      const taken = missing > 0 ? Math.min(missing, part.length) : part.length
      data = Buffer.concat([this.#begun, part.subarray(0, taken)])
      this.#begun = undefined
      at = this.#whole(data, 0)
      if (taken === part.length) {
        if (at < data.length) this.#begun = data.subarray(at)
        return
      }
      data = part
      at = taken
    }
    at = this.#whole(data, at)
    if (at < data.length) this.#begun = Buffer.from(data.subarray(at))
  }

  /** Passes on the complete frames from `at`. @returns the start of the first incomplete one */
  #whole(data: Buffer, start: number): number {
    let at = start
    for (;;) {
      const end = frameEnd(data, at)
      if (!(end <= data.length)) return at
      const opcode = (data[at] ?? 0) & 0x0f
      const payload = at + headerLength(data, at)
      if (opcode === opcodes.text) this.#onText(data, payload, end)
      else if (opcode === opcodes.ping) this.#socket.write(pong)
      else if (opcode === opcodes.close) this.#onClose(data.toString('utf8', payload + 2, end))
      at = end
    }
  }
}

/** Returns the end of the frame that begins at `at`; NaN if its header is incomplete. */
function frameEnd(data: Buffer, at: number): number {
  const header = headerLength(data, at)
  if (data.length - at < header) return Number.NaN
  const short = data[at + 1] ?? 0
  if (short < 126) return at + header + short
  return at + header + (short === 126 ? data.readUInt16BE(at + 2) : data.readUIntBE(at + 4, 6))
}

/** A frame from a server is not masked. */
function headerLength(data: Buffer, at: number): number {
  const short = data[at + 1] ?? 0
  return short < 126 ? 2 : short === 126 ? 4 : 10
}
