import { isUtf8 } from 'node:buffer'
import { countParts, decodeDefaults, decodeDocument, type JsonObject } from '../../model/index.ts'
import type { GoField, GoStruct, GoStructs } from '../types/go-type.ts'
import { FieldCount, malformed, maxWireFields, type WireValue, wireFields } from './wire-fields.ts'

/**
 * Turns the messages of one body into the JSON that Go's encoder makes of the same objects.
 *
 * The recursion is bounded, because no struct contains itself (`go-structs.test.ts`). A message that is given in parts
 * is the message of its parts joined, as protobuf defines it.
 */
export class MessageJson {
  readonly #structs: GoStructs
  readonly #read = new FieldCount(maxWireFields)
  readonly #made = new FieldCount(decodeDefaults.maxParts)

  constructor(structs: GoStructs) {
    this.#structs = structs
  }

  /** @throws ApiError 400 for a message that is malformed or not of this struct; 413 for too many fields */
  object(struct: string, bytes: Buffer): JsonObject {
    const found = wireFields(bytes, this.#read)
    const fields = this.#fieldsOf(struct)
    this.#made.add(fields.length)
    const result: JsonObject = {}
    for (const field of fields) {
      const place = () => `${struct}.${field.name || field.type}`
      if (field.form === 'inline') {
        const values = joined(found.get(field.number) ?? [], place)
        Object.assign(result, this.object(field.type, bytesOf(values, place)))
        continue
      }
      const value = this.#field(field, found.get(field.number) ?? [], place)
      if (value !== undefined) result[field.name] = value
    }
    return result
  }

  #fieldsOf(struct: string): GoStruct {
    const fields = this.#structs[struct]
    if (fields === undefined) throw new Error(`the Go struct ${struct} is not known`)
    return fields
  }

  /** Returns undefined for a field that JSON leaves out. */
  #field(field: GoField, values: readonly WireValue[], place: Place): unknown {
    if (field.form === 'list') {
      if (values.length === 0) return field.omitted ? undefined : null
      return values.map(value => this.#value(field.type, value, place))
    }
    if (field.form === 'map') {
      if (values.length === 0) return field.omitted ? undefined : null
      return this.#map(field.type, values, place)
    }
    const value = this.#isStruct(field.type) ? joined(values, place) : values.at(-1)
    if (field.form === 'pointer') {
      if (value === undefined) return field.omitted ? undefined : null
      return this.#value(field.type, value, place)
    }
    const json = this.#value(field.type, value, place)
    return field.omitted && isEmpty(json) ? undefined : json
  }

  #isStruct(type: string): boolean {
    return Object.hasOwn(this.#structs, type)
  }

  /** @param value undefined for the empty value */
  #value(type: string, value: WireValue | undefined, place: Place): unknown {
    switch (type) {
      case 'string':
        return textOf(value, place)
      case 'bool':
        return numberOf(value, place) !== 0
      case 'int32':
      case 'int64':
        return numberOf(value, place)
      case 'bytes':
        return bytesOf(value, place).toString('base64')
      case 'strings': {
        const items = wireFields(bytesOf(value, place), this.#read).get(1)
        return items === undefined ? null : items.map(item => textOf(item, place))
      }
      case 'Time':
        return this.#time(bytesOf(value, place), false, place)
      case 'MicroTime':
        return this.#time(bytesOf(value, place), true, place)
      case 'Quantity':
        // Go writes an absent quantity as zero.
        return textOf(wireFields(bytesOf(value, place), this.#read).get(1)?.at(-1), place) || '0'
      case 'FieldsV1':
        return this.#rawJson(bytesOf(value, place), place)
    }
    return this.object(type, bytesOf(value, place))
  }

  #map(type: string, entries: readonly WireValue[], place: Place): JsonObject {
    this.#made.add(entries.length)
    const result: JsonObject = {}
    for (const entry of entries) {
      const found = wireFields(bytesOf(entry, place), this.#read)
      const key = textOf(found.get(1)?.at(-1), place)
      if (key === '__proto__') throw malformed(`${place()}: the key __proto__ is not allowed`)
      result[key] = this.#value(type, found.get(2)?.at(-1), place)
    }
    return result
  }

  /** `Timestamp`: seconds and nanoseconds. The zero time is null, as in Go. */
  #time(bytes: Buffer, isMicro: boolean, place: Place): string | null {
    if (bytes.length === 0) return null
    const found = wireFields(bytes, this.#read)
    const seconds = numberOf(found.get(1)?.at(-1), place)
    const nanos = isMicro ? numberOf(found.get(2)?.at(-1), place) : 0
    if (seconds < firstSecond || seconds > lastSecond || nanos < 0 || nanos > 999_999_999)
      throw malformed(`${place()} is outside the years 1 to 9999`)
    const micros = Math.floor(nanos / 1_000)
    if (seconds === firstSecond && micros === 0) return null
    const text = new Date(seconds * 1_000).toISOString().slice(0, '2006-01-02T15:04:05'.length)
    return isMicro ? `${text}.${String(micros).padStart(6, '0')}Z` : `${text}Z`
  }

  /** `FieldsV1`: JSON in bytes. */
  #rawJson(bytes: Buffer, place: Place): unknown {
    const raw = bytesOf(wireFields(bytes, this.#read).get(1)?.at(-1), place)
    if (raw.length === 0) return null
    const value = decodeDocument(raw, 'json')
    this.#made.add(countParts(value))
    return value
  }
}

/** Names a field in an error. Made only then. */
type Place = () => string

/** `0001-01-01T00:00:00Z`, the zero time of Go, and `9999-12-31T23:59:59Z`. */
const firstSecond = -62_135_596_800
const lastSecond = 253_402_300_799

/** @throws ApiError 400 for a value of another wire type */
function bytesOf(value: WireValue | undefined, place: Place): Buffer {
  if (value === undefined) return Buffer.alloc(0)
  if (typeof value === 'number') throw malformed(`${place()} has the wrong wire type`)
  return value
}

function textOf(value: WireValue | undefined, place: Place): string {
  const bytes = bytesOf(value, place)
  if (!isUtf8(bytes)) throw malformed(`${place()} is not valid UTF-8`)
  return bytes.toString()
}

function numberOf(value: WireValue | undefined, place: Place): number {
  if (value === undefined) return 0
  if (typeof value !== 'number') throw malformed(`${place()} has the wrong wire type`)
  if (!Number.isSafeInteger(value)) throw malformed(`${place()} cannot be kept exactly, it is ${value}`)
  return value
}

function joined(values: readonly WireValue[], place: Place): WireValue | undefined {
  if (values.length < 2) return values[0]
  return Buffer.concat(values.map(value => bytesOf(value, place)))
}

/** As `omitempty` and `omitzero` define it. Structs are never empty. */
function isEmpty(json: unknown): boolean {
  return json === '' || json === false || json === 0 || json === null
}
