/**
 * Changes the events of one watch on their way to the client.
 *
 * @param frame the event's JSON as the server sent it: the text of a WebSocket frame, a line, or the data of a
 *   Server-Sent Event
 * @param nth how many events came before it on this watch; 0 is the first
 * @returns what the client gets in its place, in order: `[frame]` changes nothing, `[]` drops it
 */
export type EventTamper = (frame: string, nth: number) => readonly string[]

/** Bytes on their way to the client. */
export interface Piece {
  readonly bytes: Buffer
  /** Whether they belong to the answer's body, which is what truncation counts. */
  readonly counts: boolean
}

/** Cuts a stream into pieces, and may change them. */
export interface Decoder {
  take(chunk: Buffer): Piece[]
  /** What is left at the stream's end. */
  end(): Piece[]
}

export const passThrough: Decoder = {
  take: bytes => [{ bytes, counts: true }],
  end: () => [],
}

/** The answer to an upgrade, which does not count, and what follows it. */
export class UpgradeDecoder implements Decoder {
  #head: Buffer | undefined = Buffer.alloc(0)
  #inner: Decoder = passThrough
  readonly #upgraded: () => Decoder

  /** `upgraded` is asked for the decoder of what follows where the server has agreed. */
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

/** Where the next whole part of a stream ends, and what it becomes. */
interface Framing {
  /** Bytes of the part at the beginning of the buffer, 0 where it is not whole yet. */
  lengthOf(buffer: Buffer): number
  /** The part as the client gets it. */
  change(part: Buffer): Buffer
}

/** Cuts a stream into whole parts, each changed by itself; what is incomplete at the end passes as it is. */
class PartDecoder implements Decoder {
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

/** Hands the texts to a tamper with their numbers. */
function counting(change: EventTamper): (text: string) => readonly string[] {
  let nth = 0
  return text => change(text, nth++)
}

/** One event a line. */
export function lineDecoder(change: EventTamper): Decoder {
  const changed = counting(change)
  return new PartDecoder({
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

/** Server-Sent Events: the data is changed, the other fields go with it; a block without data passes. */
export function eventStreamDecoder(change: EventTamper): Decoder {
  const changed = counting(change)
  return new PartDecoder({
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

/** WebSocket frames of a server: unmasked, not compressed. Messages in one text frame are changed, others pass. */
export function webSocketDecoder(change: EventTamper): Decoder {
  const changed = counting(change)
  return new PartDecoder({
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

/** Where a frame's payload begins and ends (RFC 6455, 5.2); undefined while its head is not whole. */
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
