/**
 * Changes the events of one watch on their way to the client.
 *
 * @param frame the event's JSON as sent by the server: the text of a WebSocket frame, a line, or the data of a
 *   Server-Sent Event
 * @param nth index of the event on this watch, from 0
 * @returns the frames for the client, in order: `[frame]` changes nothing, `[]` drops the event
 */
export type EventTamper = (frame: string, nth: number) => readonly string[]

/** Bytes for the client. */
interface Piece {
  readonly bytes: Buffer
  /** Whether they belong to the response body, which truncation counts. */
  readonly counts: boolean
}

/** Splits a stream into pieces, and may change them. */
export interface Decoder {
  take(chunk: Buffer): Piece[]
  /** Returns the rest at the end of the stream. */
  end(): Piece[]
}

export const passThrough: Decoder = {
  take: bytes => [{ bytes, counts: true }],
  end: () => [],
}

/** Decodes the response to an upgrade, which does not count, and the data after it. */
export class UpgradeDecoder implements Decoder {
  #head: Buffer | undefined = Buffer.alloc(0)
  #inner: Decoder = passThrough
  readonly #upgraded: () => Decoder

  /** `upgraded` creates the decoder for the data after a successful upgrade. */
  constructor(upgraded: () => Decoder) {
    this.#upgraded = upgraded
  }

  take(chunk: Buffer): Piece[] {
    if (this.#head === undefined) return this.#inner.take(chunk)
    const head = Buffer.concat([this.#head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) {
      this.#head = head
      return []
    }
    this.#head = undefined
    const rest = head.subarray(end + 4)
    if (/^HTTP\/1\.1 101 /.test(head.toString('latin1', 0, 13))) this.#inner = this.#upgraded()
    const pieces = [{ bytes: head.subarray(0, end + 4), counts: false }]
    return rest.length === 0 ? pieces : [...pieces, ...this.#inner.take(rest)]
  }

  end(): Piece[] {
    return this.#head === undefined ? this.#inner.end() : [{ bytes: this.#head, counts: false }]
  }
}

/** Finds the messages in a stream, and changes them. */
interface Framing {
  /** Returns the length in bytes of the first message in the buffer, 0 if it is incomplete. */
  lengthOf(buffer: Buffer): number
  /** Returns the message for the client. */
  change(part: Buffer): Buffer
}

/** Splits a stream into messages and changes each. An incomplete one at the end passes unchanged. */
class MessageDecoder implements Decoder {
  #buffer: Buffer = Buffer.alloc(0)
  readonly #framing: Framing

  constructor(framing: Framing) {
    this.#framing = framing
  }

  take(chunk: Buffer): Piece[] {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk])
    const pieces: Piece[] = []
    for (;;) {
      const length = this.#framing.lengthOf(this.#buffer)
      if (length === 0) return pieces
      const bytes = this.#framing.change(this.#buffer.subarray(0, length))
      this.#buffer = this.#buffer.subarray(length)
      if (bytes.length > 0) pieces.push({ bytes, counts: true })
    }
  }

  end(): Piece[] {
    return this.#buffer.length === 0 ? [] : [{ bytes: this.#buffer, counts: true }]
  }
}

/** Passes each text with its index to a tamper function. */
function counting(change: EventTamper): (text: string) => readonly string[] {
  let nth = 0
  return text => change(text, nth++)
}

/** One event per line. */
export function lineDecoder(change: EventTamper): Decoder {
  const changed = counting(change)
  return new MessageDecoder({
    lengthOf: buffer => buffer.indexOf('\n') + 1,
    change: part => {
      const text = part.toString().trimEnd()
      if (text === '') return part
      return Buffer.from(
        changed(text)
          .map(line => `${line}\n`)
          .join(''),
      )
    },
  })
}

/** Server-Sent Events: changes the data and keeps the other fields; a block without data passes. */
export function eventStreamDecoder(change: EventTamper): Decoder {
  const changed = counting(change)
  return new MessageDecoder({
    lengthOf: buffer => {
      const end = buffer.indexOf('\n\n')
      return end < 0 ? 0 : end + 2
    },
    change: part => {
      const lines = part.toString().trimEnd().split('\n')
      const isData = (line: string) => line.startsWith('data:')
      if (!lines.some(isData)) return part
      const data = lines.filter(isData).map(line => line.slice(5).replace(/^ /, ''))
      const others = lines.filter(line => !isData(line)).map(line => `${line}\n`)
      const blocks = changed(data.join('\n')).map(text => {
        const fields = text.split('\n').map(line => `data: ${line}\n`)
        return `${[...others, ...fields].join('')}\n`
      })
      return Buffer.from(blocks.join(''))
    },
  })
}

const textFrame = 1

/** WebSocket frames of a server, unmasked and uncompressed. Changes messages in one text frame; others pass. */
export function webSocketDecoder(change: EventTamper): Decoder {
  const changed = counting(change)
  return new MessageDecoder({
    lengthOf: buffer => {
      const layout = layoutOf(buffer)
      return layout !== undefined && buffer.length >= layout.end ? layout.end : 0
    },
    change: part => {
      const layout = layoutOf(part)
      const isWhole = ((part[0] ?? 0) & 0x80) !== 0
      if (layout === undefined || !isWhole || ((part[0] ?? 0) & 0x0f) !== textFrame) return part
      return Buffer.concat(changed(part.toString('utf8', layout.start)).map(frameOf))
    },
  })
}

/** Returns the range of a frame's payload (RFC 6455, 5.2), or undefined if the header is incomplete. */
function layoutOf(buffer: Buffer): { start: number; end: number } | undefined {
  const short = (buffer[1] ?? 0) & 0x7f
  const start = short === 126 ? 4 : short === 127 ? 10 : 2
  if (buffer.length < start) return undefined
  const length =
    short === 126 ? buffer.readUInt16BE(2) : short === 127 ? Number(buffer.readBigUInt64BE(2)) : short
  return { start, end: start + length }
}

function frameOf(text: string): Buffer {
  const payload = Buffer.from(text)
  const { length } = payload
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head[0] = 0x80 | textFrame
  if (length < 126) head[1] = length
  else if (length < 65_536) {
    head[1] = 126
    head.writeUInt16BE(length, 2)
  } else {
    head[1] = 127
    head.writeBigUInt64BE(BigInt(length), 2)
  }
  return Buffer.concat([head, payload])
}
