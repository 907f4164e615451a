import { isRecord } from '@setpoint/controller-runtime/api'
import protobuf from 'protobufjs/minimal.js'
import { goStructs } from '../types/go-structs.ts'
import type { GoField } from '../types/go-type.ts'

/** Writes fields of protobuf messages. */
export type MessageWriter = protobuf.Writer

const varint = 0
const lengthDelimited = 2

export function newMessage(): MessageWriter {
  return protobuf.Writer.create()
}

/** Returns the bytes of a message. */
export function finished(writer: MessageWriter): Buffer {
  const { buffer, byteOffset, length } = writer.finish()
  return Buffer.from(buffer, byteOffset, length)
}

/** Starts a field with a length: a string, bytes or a message. */
export function startField(writer: MessageWriter, number: number): MessageWriter {
  return writer.uint32((number << 3) | lengthDelimited)
}

/** Writes a field that is a message. */
export function writeMessage(
  writer: MessageWriter,
  number: number,
  write: (message: MessageWriter) => void,
): void {
  startField(writer, number).fork()
  write(writer)
  writer.ldelim()
}

/**
 * Writes the fields of a Go struct from the JSON of an object: the reverse of `MessageJson`. Absent fields and nulls
 * are left out, as is what the struct has no field for. The recursion is bounded, because no struct contains itself.
 */
export function writeStruct(writer: MessageWriter, struct: string, json: unknown): void {
  const fields = goStructs[struct]
  if (fields === undefined) throw new Error(`the Go struct ${struct} is not known`)
  if (!isRecord(json)) return
  for (const field of fields) {
    const value = field.form === 'inline' ? json : json[field.name]
    if (value !== undefined && value !== null) writeField(writer, field, value)
  }
}

function writeField(writer: MessageWriter, { number, form, type }: GoField, value: unknown): void {
  if (form === 'list') {
    if (Array.isArray(value)) for (const item of value) writeValue(writer, number, type, item)
  } else if (form === 'map') {
    for (const [key, each] of Object.entries(isRecord(value) ? value : {}))
      writeMessage(writer, number, entry => {
        startField(entry, 1).string(key)
        writeValue(entry, 2, type, each)
      })
  } else writeValue(writer, number, type, value)
}

function writeValue(writer: MessageWriter, number: number, type: string, value: unknown): void {
  switch (type) {
    case 'string':
      startField(writer, number).string(textOf(value))
      return
    case 'bytes':
      startField(writer, number).bytes(Buffer.from(textOf(value), 'base64'))
      return
    case 'bool':
      writer.uint32((number << 3) | varint).bool(value === true)
      return
    case 'int32':
    case 'int64':
      writer.uint32((number << 3) | varint).int64(typeof value === 'number' ? value : 0)
      return
    default:
      writeMessage(writer, number, message => writeContent(message, type, value))
  }
}

function writeContent(writer: MessageWriter, type: string, value: unknown): void {
  switch (type) {
    case 'strings':
      if (Array.isArray(value)) for (const item of value) startField(writer, 1).string(textOf(item))
      return
    case 'Time':
    case 'MicroTime':
      writeTime(writer, textOf(value), type === 'MicroTime')
      return
    case 'Quantity':
      startField(writer, 1).string(textOf(value))
      return
    case 'FieldsV1':
      startField(writer, 1).string(JSON.stringify(value))
      return
    default:
      writeStruct(writer, type, value)
  }
}

/** `Timestamp`: seconds and nanoseconds. As in Go, a `Time` has none of the latter, and the zero time is empty. */
function writeTime(writer: MessageWriter, text: string, isMicro: boolean): void {
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) return
  writer.uint32((1 << 3) | varint).int64(Math.floor(ms / 1_000))
  const [, fraction = ''] = /\.(\d+)/.exec(text) ?? []
  if (isMicro) writer.uint32((2 << 3) | varint).int64(Number(fraction.slice(0, 6).padEnd(6, '0')) * 1_000)
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
