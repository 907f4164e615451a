import { ApiError } from '@setpoint/controller-runtime/api'
import protobuf from 'protobufjs/minimal.js'

/** The value of a field on the wire: an integer, or the bytes of a string, of a message or of the like. */
export type WireValue = number | Buffer

/** The values of each field of a message by its number, in their order on the wire. */
type WireFields = ReadonlyMap<number, readonly WireValue[]>

/** The wire types that messages of Kubernetes have. */
const varint = 0
const lengthDelimited = 2

/** Counts the fields of a body, or of its JSON. */
export class FieldCount {
  readonly #limit: number
  #fields = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  /** @throws ApiError 413 */
  add(fields: number): void {
    this.#fields += fields
    if (this.#fields > this.#limit) {
      throw new ApiError(
        'RequestEntityTooLarge',
        `the body has more than ${this.#limit} fields, which is the most that are read`,
      )
    }
  }
}

/**
 * The most fields of a body on the wire. To read one takes up to 1.2 µs. An entry of a map takes three: the entry, its
 * key and its value.
 */
export const maxWireFields = 45_000

/**
 * Splits a message into its fields. Values are views of `bytes`.
 * @throws ApiError 400 for a malformed or truncated message; 413 for too many fields
 */
export function wireFields(bytes: Buffer, count: FieldCount): WireFields {
  const fields = new Map<number, WireValue[]>()
  const reader = new protobuf.BufferReader(bytes)
  while (reader.pos < reader.len) {
    count.add(1)
    const { number, value } = readField(reader)
    // A number that is cut off at the end of the message counts as complete for the reader.
    if (reader.pos > reader.len) throw malformed('a field is cut off')
    if (value === undefined) continue
    const values = fields.get(number)
    if (values === undefined) fields.set(number, [value])
    else values.push(value)
  }
  return fields
}

/** Returns no value for a wire type that messages of Kubernetes do not have. */
function readField(reader: protobuf.BufferReader): { number: number; value?: WireValue } {
  try {
    const tag = reader.uint32()
    const number = tag >>> 3
    const wireType = tag & 7
    if (number === 0) throw new RangeError('the field number is 0')
    if (wireType === varint) return { number, value: Number(reader.int64().toString()) }
    if (wireType === lengthDelimited) return { number, value: viewOf(reader.bytes()) }
    reader.skipType(wireType)
    return { number }
  } catch (error) {
    throw malformed(error instanceof Error ? error.message : 'a field cannot be read', error)
  }
}

function viewOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

export function malformed(problem: string, cause?: unknown): ApiError {
  return new ApiError('BadRequest', `the body is not valid protobuf: ${problem}`, undefined, { cause })
}
