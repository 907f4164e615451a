import type { WireEvent } from './wire-event.ts'

/**
 * Encodes events for a transport. Codecs with equal keys write equal bytes, so one encoding serves all their
 * subscriptions.
 */
export interface FrameCodec {
  readonly key: string
  /** Appends the pieces of one event. The object's own bytes are not copied. */
  encode(event: WireEvent, pieces: Buffer[]): void
}

/** The bytes of several events, one after another. */
export function encodeAll(codec: FrameCodec, events: readonly WireEvent[]): Buffer {
  const pieces: Buffer[] = []
  for (const event of events) codec.encode(event, pieces)
  return Buffer.concat(pieces)
}

const types = ['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR'] as const

/** The text before the object: `{"type":"ADDED","object":`, with the given fields before the type. */
function headsOf(prefix: string, fields = ''): Record<WireEvent['type'], Buffer> {
  const head = (type: WireEvent['type']) => Buffer.from(`${prefix}{${fields}"type":"${type}","object":`)
  const [added, modified, deleted, bookmark, error] = types
  return {
    [added]: head(added),
    [modified]: head(modified),
    [deleted]: head(deleted),
    [bookmark]: head(bookmark),
    [error]: head(error),
  }
}

const plainHeads = headsOf('')
const tail = Buffer.from('}')
const tailOfLine = Buffer.from('}\n')
const tailOfEvent = Buffer.from('}\n\n')
const dataHeads = headsOf('data: ')

/** One JSON document a line. */
export const lines: FrameCodec = Object.freeze({
  key: 'lines',
  encode({ type, object }: WireEvent, pieces: Buffer[]) {
    pieces.push(plainHeads[type], object, tailOfLine)
  },
})

/** Server-Sent Events: `id:` is the version to resume from, if there is one. */
export const serverSentEvents: FrameCodec = Object.freeze({
  key: 'sse',
  encode({ type, object, version }: WireEvent, pieces: Buffer[]) {
    if (version !== undefined) pieces.push(Buffer.from(`id: ${version}\n`))
    pieces.push(dataHeads[type], object, tailOfEvent)
  },
})

/** One text frame of WebSocket (RFC 6455, 5.2) an event. */
export const webSocketFrames: FrameCodec = framed('ws', plainHeads)

/** WebSocket frames of one subscription among several on a socket: each event has the subscription's id. */
export function subscriptionFrames(id: string): FrameCodec {
  const field = JSON.stringify(id)
  return framed(`ws:${field}`, headsOf('', `"id":${field},`))
}

function framed(key: string, heads: Record<WireEvent['type'], Buffer>): FrameCodec {
  return Object.freeze({
    key,
    encode({ type, object }: WireEvent, pieces: Buffer[]) {
      const head = heads[type]
      pieces.push(frameHeader(head.length + object.length + tail.length), head, object, tail)
    },
  })
}

/** A text frame with this text. */
export function textFrame(text: string): Buffer {
  const payload = Buffer.from(text)
  return Buffer.concat([frameHeader(payload.length), payload])
}

const finalText = 0x81

/** The header of a whole, unmasked text frame with a payload of `length` bytes. */
function frameHeader(length: number): Buffer {
  if (length < 126) return Buffer.from([finalText, length])
  if (length < 65_536) return Buffer.from([finalText, 126, length >>> 8, length & 0xff])
  const header = Buffer.alloc(10)
  header[0] = finalText
  header[1] = 127
  header.writeUIntBE(length, 4, 6)
  return header
}
