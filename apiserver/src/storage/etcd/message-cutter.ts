/** Bytes before each message: whether it is compressed, and its length. */
const prefixBytes = 5

/**
 * Cuts gRPC's messages out of the chunks in which a body comes. A message that came in one chunk shares its memory.
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message"
 */
export class MessageCutter {
  /** What does not make a message yet. */
  #chunks: Buffer[] = []
  #length = 0
  /** Bytes from which on it may. */
  #wanted = prefixBytes

  /**
   * The messages that are complete with this chunk.
   * @throws RangeError for a compressed one, which nobody has asked for.
   */
  take(chunk: Buffer): Buffer[] {
    this.#chunks.push(chunk)
    this.#length += chunk.length
    if (this.#length < this.#wanted) return []
    const [first = chunk, ...more] = this.#chunks
    const bytes = more.length === 0 ? first : Buffer.concat(this.#chunks)
    const messages: Buffer[] = []
    let at = 0
    this.#wanted = prefixBytes
    while (bytes.length - at >= prefixBytes) {
      if (bytes[at] !== 0) throw new RangeError('a message that is compressed')
      const end = at + prefixBytes + bytes.readUInt32BE(at + 1)
      if (end > bytes.length) {
        this.#wanted = end - at
        break
      }
      messages.push(bytes.subarray(at + prefixBytes, end))
      at = end
    }
    this.#chunks = at === bytes.length ? [] : [bytes.subarray(at)]
    this.#length = bytes.length - at
    return messages
  }
}
