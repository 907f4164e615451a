import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { BackupError } from './backup-format.ts'

/**
 * An encrypted backup:
 *
 *     magic line | salt, 32 bytes | frame*
 *     frame      head, 4 bytes: length of the text, and in the highest bit whether it is the last frame
 *                encrypted text | tag, 16 bytes
 *
 * AES-256-GCM, with a key of its own for each file: HKDF-SHA256 of the given key and the salt. The nonce of a frame is
 * its number, and its head is authenticated with it, so that no frame can be changed, moved, repeated or left out, at
 * the end either.
 */
const magic = Buffer.from('setpoint-encrypted-backup 1\n')
const saltBytes = 32
const headBytes = 4
const tagBytes = 16
const lastFrame = 0x8000_0000

export const sealDefaults = Object.freeze({
  /** Bytes of the key. */
  keyBytes: 32,
  /** Bytes of the text of a frame. */
  frameBytes: 64 * 1024,
})

function fileKey(key: Buffer, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, 'setpoint backup', sealDefaults.keyBytes))
}

function nonceOf(frame: number): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeBigUInt64BE(BigInt(frame), 4)
  return nonce
}

/** Encrypts a file. */
export class BackupSeal {
  readonly #salt = randomBytes(saltBytes)
  readonly #key: Buffer
  #frames = 0
  #rest: Buffer = Buffer.alloc(0)
  #hasBegun = false

  /** @param key `sealDefaults.keyBytes` bytes */
  constructor(key: Buffer) {
    this.#key = fileKey(key, this.#salt)
  }

  /** Returns the encrypted bytes that are complete with these. */
  add(text: Buffer): Buffer {
    const parts: Buffer[] = this.#hasBegun ? [] : [magic, this.#salt]
    this.#hasBegun = true
    let rest = Buffer.concat([this.#rest, text])
    // Keeps at least one byte, because only `end` knows which frame is the last one.
    while (rest.length > sealDefaults.frameBytes) {
      parts.push(this.#frame(rest.subarray(0, sealDefaults.frameBytes), 0))
      rest = rest.subarray(sealDefaults.frameBytes)
    }
    this.#rest = rest
    return Buffer.concat(parts)
  }

  /** Returns the end of the file. */
  end(): Buffer {
    return Buffer.concat([this.add(Buffer.alloc(0)), this.#frame(this.#rest, lastFrame)])
  }

  #frame(text: Buffer, flag: number): Buffer {
    const head = Buffer.alloc(headBytes)
    head.writeUInt32BE(flag + text.length)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonceOf(this.#frames++)).setAAD(head)
    const sealed = [head, cipher.update(text), cipher.final()]
    return Buffer.concat([...sealed, cipher.getAuthTag()])
  }
}

/**
 * Yields the text of a file: decrypted with a key, or as it is without one.
 * @throws BackupError if the file is encrypted and there is no key, or the reverse; for another key; and for a changed
 * file
 */
export async function* unsealed(
  source: AsyncIterable<Buffer>,
  key: Buffer | undefined,
): AsyncGenerator<Buffer> {
  const bytes = new Bytes(source[Symbol.asyncIterator]())
  const start = await bytes.peek(magic.length)
  const isSealed = start.equals(magic)
  if (key === undefined) {
    if (isSealed) throw new BackupError('it is encrypted: give the key with --encrypt-key-file')
    yield* bytes.rest()
    return
  }
  // Else someone who can write the file could replace it by one of their own.
  if (!isSealed) throw new BackupError('it is not encrypted with the key of --encrypt-key-file')
  await bytes.take(magic.length)
  const ownKey = fileKey(key, await bytes.take(saltBytes))
  for (let frame = 0; ; frame++) {
    const head = await bytes.take(headBytes)
    const isLast = (head.readUInt32BE() & lastFrame) !== 0
    const length = head.readUInt32BE() % lastFrame
    if (length > sealDefaults.frameBytes) throw changed(frame)
    const text = await bytes.take(length)
    const decipher = createDecipheriv('aes-256-gcm', ownKey, nonceOf(frame), { authTagLength: tagBytes })
    decipher.setAAD(head).setAuthTag(await bytes.take(tagBytes))
    let opened: Buffer
    try {
      opened = Buffer.concat([decipher.update(text), decipher.final()])
    } catch {
      throw changed(frame)
    }
    yield opened
    if (!isLast) continue
    if ((await bytes.peek(1)).length > 0) throw new BackupError('it is damaged: bytes follow its end')
    return
  }
}

function changed(frame: number): BackupError {
  return new BackupError(
    frame === 0
      ? 'it has another key, or is damaged'
      : 'it is damaged: it was changed after it was encrypted',
  )
}

/** The bytes of a source, to be taken in pieces. */
class Bytes {
  readonly #source: AsyncIterator<Buffer>
  #chunk = Buffer.alloc(0)

  constructor(source: AsyncIterator<Buffer>) {
    this.#source = source
  }

  /** Returns the next bytes without taking them: fewer at the end. */
  async peek(length: number): Promise<Buffer> {
    while (this.#chunk.length < length) {
      const next = await this.#source.next()
      if (next.done === true) break
      this.#chunk = Buffer.concat([this.#chunk, next.value])
    }
    return this.#chunk.subarray(0, length)
  }

  /** @throws BackupError if the source ends before */
  async take(length: number): Promise<Buffer> {
    const taken = await this.peek(length)
    if (taken.length < length) throw new BackupError('it is cut')
    this.#chunk = this.#chunk.subarray(length)
    return taken
  }

  async *rest(): AsyncGenerator<Buffer> {
    yield this.#chunk
    for (let next = await this.#source.next(); next.done !== true; next = await this.#source.next())
      yield next.value
  }
}
