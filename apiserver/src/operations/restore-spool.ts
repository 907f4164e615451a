import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Revision, toRevision } from '@setpoint/controller-runtime/api'
import { type BackupEntry, isObject } from './backup-format.ts'

export const spoolDefaults = Object.freeze({
  /** Bytes that are written at once. */
  blockBytes: 1024 * 1024,
})

/** Bytes before each record: the lengths of key and value. The length of a deletion is `deletion`. */
const headBytes = 8
const deletion = 0xffff_ffff

/**
 * The entries of backups, to be read in the order of their versions. A backup is in the order of keys, and a store gets
 * its objects back in the order in which they were last written.
 *
 * The entries wait in a file of the folder for temporary files, which only this process can read and which has no name
 * any more where the system allows that. In memory are 20 bytes for each.
 */
export class RestoreSpool {
  readonly #folder: string
  readonly #file: number
  #block = Buffer.allocUnsafe(spoolDefaults.blockBytes)
  #blockBytes = 0
  #written = 0
  #count = 0
  #versions = new Float64Array(1024)
  #places = new Float64Array(1024)

  /** @throws the error of the system */
  constructor() {
    this.#folder = mkdtempSync(join(tmpdir(), 'setpoint-restore-'))
    const path = join(this.#folder, 'entries')
    this.#file = openSync(path, 'wx+', 0o600)
    if (process.platform !== 'win32') rmSync(this.#folder, { recursive: true })
  }

  get count(): number {
    return this.#count
  }

  /** @throws the error of the system, such as ENOSPC */
  add({ key, version, value }: BackupEntry): void {
    if (this.#count === this.#versions.length) {
      this.#versions = doubled(this.#versions)
      this.#places = doubled(this.#places)
    }
    // Objects after all others: what only belongs to them needs no order of its own.
    this.#versions[this.#count] = isObject(key) ? version : -1
    this.#places[this.#count] = this.#written + this.#blockBytes
    this.#count += 1
    const keyBytes = Buffer.from(key)
    const head = Buffer.allocUnsafe(headBytes + 8)
    head.writeUInt32BE(keyBytes.length, 0)
    head.writeUInt32BE(value?.length ?? deletion, 4)
    head.writeDoubleBE(version, headBytes)
    this.#append(head)
    this.#append(keyBytes)
    if (value !== undefined) this.#append(value)
  }

  /**
   * Yields the entries that are no objects, as they were added, then the objects in ascending order of their versions.
   */
  *inOrder(): Generator<BackupEntry> {
    this.#flush()
    const order = new Uint32Array(this.#count)
    for (let at = 0; at < order.length; at++) order[at] = at
    const versions = this.#versions
    // Equal ones, such as those that are no objects, stay as they were added.
    order.sort((left, right) => (versions[left] ?? 0) - (versions[right] ?? 0) || left - right)
    for (const at of order) yield this.#read(this.#places[at] ?? 0)
  }

  close(): void {
    closeSync(this.#file)
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #append(bytes: Buffer): void {
    if (this.#blockBytes + bytes.length > this.#block.length) this.#flush()
    if (bytes.length > this.#block.length) {
      this.#write(bytes)
      return
    }
    this.#blockBytes += bytes.copy(this.#block, this.#blockBytes)
  }

  #flush(): void {
    this.#write(this.#block.subarray(0, this.#blockBytes))
    this.#blockBytes = 0
  }

  #write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const written = writeSync(this.#file, bytes, at, bytes.length - at, this.#written)
      at += written
      this.#written += written
    }
  }

  #read(place: number): BackupEntry {
    const head = this.#bytes(place, headBytes + 8)
    const keyBytes = head.readUInt32BE(0)
    const valueBytes = head.readUInt32BE(4)
    const version: Revision = toRevision(head.readDoubleBE(headBytes))
    const isDeletion = valueBytes === deletion
    const body = this.#bytes(place + head.length, keyBytes + (isDeletion ? 0 : valueBytes))
    const key = body.toString('utf8', 0, keyBytes)
    return { key, version, value: isDeletion ? undefined : body.subarray(keyBytes) }
  }

  #bytes(place: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length)
    for (let at = 0; at < length; ) {
      const read = readSync(this.#file, bytes, at, length - at, place + at)
      if (read === 0) throw new Error('the temporary file of the restore is shorter than it was')
      at += read
    }
    return bytes
  }
}

function doubled(numbers: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const more = new Float64Array(2 * numbers.length)
  more.set(numbers)
  return more
}
