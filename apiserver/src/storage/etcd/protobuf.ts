/**
 * The wire format of Protocol Buffers, as far as etcd's messages need it: varints and what begins with its length.
 * https://protobuf.dev/programming-guides/encoding/
 */

const varint = 0
const fixed64 = 1
const lengthDelimited = 2
const fixed32 = 5

/**
 * Writes a message from its end to its beginning: a part is begun with its length, which is known once it is written.
 * So fields, and the members of repeated ones, are written last to first. Zero and empty fields are left out, as the
 * format has it; members of repeated fields and of unions are written whatever they are.
 */
export class ProtoWriter {
  #buffer: Buffer
  /** Offset of the first byte that is written. */
  #at: number

  /** @param expectedBytes of the message; it may become longer. */
  constructor(expectedBytes: number) {
    this.#buffer = Buffer.allocUnsafe(expectedBytes)
    this.#at = expectedBytes
  }

  /** Where the message ends that is about to be written, for `message`. */
  get mark(): number {
    return this.#buffer.length - this.#at
  }

  integer(field: number, value: number): void {
    if (value !== 0) this.member(field, value)
  }

  flag(field: number, value: boolean | undefined): void {
    if (value) this.member(field, 1)
  }

  bytes(field: number, value: Uint8Array | undefined): void {
    if (value === undefined || value.length === 0) return
    this.#reserve(value.length)
    this.#at -= value.length
    this.#buffer.set(value, this.#at)
    this.#varint(value.length)
    this.#tag(field, lengthDelimited)
  }

  text(field: number, value: string): void {
    this.bytes(field, Buffer.from(value))
  }

  /** An integer that is written even where it is zero, as one of a union is. */
  member(field: number, value: number): void {
    this.#varint(value)
    this.#tag(field, varint)
  }

  /** Begins the message that has been written since the mark was taken. */
  message(field: number, mark: number): void {
    this.#varint(this.mark - mark)
    this.#tag(field, lengthDelimited)
  }

  /** What has been written; nothing can be written after it. */
  finish(): Buffer {
    return this.#buffer.subarray(this.#at)
  }

  /** Puts a byte and a big-endian length before what has been written: how gRPC begins a message. */
  prefix(flags: number): void {
    const length = this.mark
    this.#reserve(5)
    this.#at = this.#buffer.writeUInt32BE(length, this.#at - 4) - 4
    this.#buffer[--this.#at] = flags
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType)
  }

  #varint(value: number): void {
    const length = varintLength(value)
    this.#reserve(length)
    this.#at -= length
    let rest = value
    let at = this.#at
    for (; rest > 0x7f; rest = Math.floor(rest / 0x80)) this.#buffer[at++] = (rest % 0x80) | 0x80
    this.#buffer[at] = rest
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#at) return
    const larger = Buffer.allocUnsafe(2 * this.#buffer.length + bytes)
    const at = larger.length - this.mark
    this.#buffer.copy(larger, at, this.#at)
    this.#buffer = larger
    this.#at = at
  }
}

function varintLength(value: number): number {
  let length = 1
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 0x80)) length++
  return length
}

/**
 * Reads a message field by field. What it answers as bytes shares the memory of the message.
 * All methods throw RangeError where the message is not what it should be.
 */
export class ProtoReader {
  readonly #buffer: Buffer
  readonly #end: number
  #at: number
  #wireType = varint

  constructor(buffer: Buffer, start = 0, end = buffer.length) {
    this.#buffer = buffer
    this.#at = start
    this.#end = end
  }

  /** The number of the next field, whose value is to be read or skipped; 0 at the end of the message. */
  field(): number {
    if (this.#at >= this.#end) return 0
    const tag = this.integer()
    this.#wireType = tag & 7
    return tag >>> 3
  }

  /** A non-negative integer that a double holds exactly. */
  integer(): number {
    let value = 0
    for (let scale = 1; ; scale *= 0x80) {
      const byte = this.#byte()
      value += (byte & 0x7f) * scale
      if (byte < 0x80) break
    }
    if (value > Number.MAX_SAFE_INTEGER) throw new RangeError('an integer beyond 2^53')
    return value
  }

  /** Any unsigned integer of 64 bits. */
  bigInteger(): bigint {
    // The lower 49 bits fit into a double, and so do the others.
    let low = 0
    let high = 0
    let byte = 0x80
    for (let n = 0; n < 10 && byte > 0x7f; n++) {
      byte = this.#byte()
      if (n < 7) low += (byte & 0x7f) * 0x80 ** n
      else high += (byte & 0x7f) * 0x80 ** (n - 7)
    }
    return BigInt.asUintN(64, BigInt(low) + (BigInt(high) << 49n))
  }

  flag(): boolean {
    return this.integer() !== 0
  }

  bytes(): Buffer {
    const start = this.#part()
    return this.#buffer.subarray(start, this.#at)
  }

  text(): string {
    const start = this.#part()
    return this.#buffer.toString('utf8', start, this.#at)
  }

  message(): ProtoReader {
    const start = this.#part()
    return new ProtoReader(this.#buffer, start, this.#at)
  }

  /** Passes over the value of a field that is of no interest. */
  skip(): void {
    if (this.#wireType === lengthDelimited) this.#part()
    else if (this.#wireType === fixed64) this.#advance(8)
    else if (this.#wireType === fixed32) this.#advance(4)
    else if (this.#wireType === varint) while (this.#byte() >= 0x80);
    else throw new RangeError(`wire type ${this.#wireType}`)
  }

  /** Passes over a part with a length, and answers where it begins. */
  #part(): number {
    const length = this.integer()
    const start = this.#at
    this.#advance(length)
    return start
  }

  #advance(bytes: number): void {
    this.#at += bytes
    if (this.#at > this.#end) throw new RangeError('the message is cut off')
  }

  #byte(): number {
    const byte = this.#at < this.#end ? this.#buffer[this.#at++] : undefined
    if (byte === undefined) throw new RangeError('the message is cut off')
    return byte
  }
}
