import { isRecord } from '@setpoint/controller-runtime/api'
import type { FrameCodec, WireEvent } from '../../watch/index.ts'
import { protobufType } from '../media-types.ts'
import type { ListForm, ObjectView } from '../object-view.ts'
import { type KindName, structOf } from '../types/built-in-types.ts'
import { finished, newMessage, startField, writeMessage, writeStruct } from './json-message.ts'
import { magic } from './protobuf-body.ts'

/**
 * Encodes the JSON of an object of a built-in kind, or of a Status: the magic bytes, then a `runtime.Unknown`, as
 * `decodeProtobuf` reads it. Returns undefined for another kind.
 */
export function encodeProtobuf(json: Buffer): Buffer | undefined {
  const object: unknown = JSON.parse(json.toString())
  const { apiVersion, kind } = isRecord(object) ? object : {}
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') return undefined
  const struct = structOf({ apiVersion, kind })
  if (struct === undefined) return undefined
  const message = newMessage()
  writeStruct(message, struct, object)
  const raw = finished(message)
  return Buffer.concat([headOf({ apiVersion, kind }, raw.length), raw])
}

/** The beginning of an object whose message has this length. */
function headOf({ apiVersion, kind }: KindName, length: number): Buffer {
  const unknown = newMessage()
  writeMessage(unknown, 1, typeMeta => {
    startField(typeMeta, 1).string(apiVersion)
    startField(typeMeta, 2).string(kind)
  })
  startField(unknown, 2).uint32(length)
  return Buffer.concat([magic, finished(unknown)])
}

/**
 * Returns the form of lists of a built-in kind, or undefined for another kind. Single objects are encoded when they are
 * sent.
 */
export function protobufLists({ apiVersion, kind }: KindName): ObjectView | undefined {
  const struct = structOf({ apiVersion, kind })
  if (struct === undefined) return undefined
  const head = { apiVersion, kind: `${kind}List` }
  const list: ListForm = {
    contentType: protobufType,
    head,
    fields: {},
    itemsField: 'items',
    isQuick: false,
    itemStart: '',
    item(wire) {
      const message = newMessage()
      writeMessage(message, 2, item => writeStruct(item, struct, JSON.parse(wire.toString())))
      return finished(message)
    },
    enclose(metadata, items) {
      const message = newMessage()
      writeMessage(message, 1, listMeta => writeStruct(listMeta, 'meta.v1.ListMeta', metadata))
      const start = finished(message)
      const length = items.reduce((sum, item) => sum + item.length, start.length)
      return [headOf(head, length), start, ...items]
    },
  }
  return { key: 'protobuf', list, object: wire => wire, event: wire => wire }
}

/** One `WatchEvent` of Kubernetes, behind its length in four bytes (`LengthDelimitedFramer`). */
export const protobufFrames: FrameCodec = Object.freeze({
  key: 'protobuf',
  encode({ type, object }: WireEvent, pieces: Buffer[]) {
    const raw = encodeProtobuf(object)
    if (raw === undefined) throw new Error('an event of a kind that has no protobuf')
    const message = newMessage()
    startField(message, 1).string(type)
    writeMessage(message, 2, extension => startField(extension, 1).bytes(raw))
    const event = finished(message)
    const length = Buffer.alloc(4)
    length.writeUInt32BE(event.length)
    pieces.push(length, event)
  },
})
