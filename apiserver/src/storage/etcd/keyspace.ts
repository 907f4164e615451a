/**
 * The keys of a storage in etcd: `<prefix>/` and the relative key. Three keys are reserved:
 *
 * - `tip`: every transaction with operations puts it, so its mod revision is that of the last write. While etcd is
 *   full, deletions delete it.
 * - `fence`: every transaction with operations compares it, so a look-up can keep a lost one from happening later.
 * - `base`: what a restore adds to etcd's revisions, see `Base`. A store that was never restored has none.
 *
 * They hold a few bytes, lie outside all prefixes that callers use, and are left out of lists that cover them.
 */
export class Keyspace {
  static readonly tipKey = 'tip'
  static readonly fenceKey = 'fence'
  static readonly baseKey = 'base'
  readonly tip: Buffer
  readonly fence: Buffer
  readonly base: Buffer
  readonly #root: string
  readonly #rootBytes: number

  /** @throws RangeError if the prefix is empty or only slashes: the storage would own all of etcd. */
  constructor(prefix: string) {
    const trimmed = prefix.replace(/\/+$/, '')
    if (trimmed === '') throw new RangeError('the etcd prefix must not be empty')
    this.#root = `${trimmed}/`
    this.#rootBytes = Buffer.byteLength(this.#root)
    this.tip = this.encode(Keyspace.tipKey)
    this.fence = this.encode(Keyspace.fenceKey)
    this.base = this.encode(Keyspace.baseKey)
  }

  encode(key: string): Buffer {
    return Buffer.from(this.#root + key)
  }

  decode(key: Buffer): string {
    return key.toString('utf8', this.#rootBytes)
  }

  /** Returns the range of the keys that start with `prefix` and, if given, come after `after`. */
  range(prefix: string, after?: string): { key: Buffer; rangeEnd: Buffer } {
    const start = this.encode(prefix)
    const rangeEnd = endOfPrefix(start)
    if (after === undefined) return { key: start, rangeEnd }
    const next = Buffer.from(`${this.#root}${after}\0`)
    return { key: Buffer.compare(next, start) > 0 ? next : start, rangeEnd }
  }

  /** Returns true if the relative key is reserved. */
  static isOwn(key: string): boolean {
    return key === Keyspace.tipKey || key === Keyspace.fenceKey || key === Keyspace.baseKey
  }

  /** Returns true if a reserved key starts with `prefix`. */
  static coversOwn(prefix: string): boolean {
    return [Keyspace.tipKey, Keyspace.fenceKey, Keyspace.baseKey].some(key => key.startsWith(prefix))
  }
}

/** Returns the first key after those that start with these bytes. The last byte of UTF-8 is below 255. */
function endOfPrefix(start: Buffer): Buffer {
  const end = Buffer.from(start)
  const last = end.length - 1
  end.writeUInt8(end.readUInt8(last) + 1, last)
  return end
}
