/**
 * Where a storage's keys lie in etcd: all under `<prefix>/`, relative keys inside. Two keys there are the storage's own:
 * `tip`, which every transaction that changes something puts, so that its mod revision tells what was written last; and
 * `fence`, which every transaction compares, so that one whose answer was lost can be kept from happening later.
 * They are a few dozen bytes outside every prefix that callers use, and are left out where a prefix covers them.
 */
export class Keyspace {
  static readonly tipKey = 'tip'
  static readonly fenceKey = 'fence'
  readonly tip: Buffer
  readonly fence: Buffer
  readonly #root: string
  readonly #rootBytes: number

  /** @throws RangeError when the prefix is empty or only slashes: then the whole etcd would be ours. */
  constructor(prefix: string) {
    const trimmed = prefix.replace(/\/+$/, '')
    if (trimmed === '') throw new RangeError('the etcd prefix must not be empty')
    this.#root = `${trimmed}/`
    this.#rootBytes = Buffer.byteLength(this.#root)
    this.tip = this.encode(Keyspace.tipKey)
    this.fence = this.encode(Keyspace.fenceKey)
  }

  encode(key: string): Buffer {
    return Buffer.from(this.#root + key)
  }

  decode(key: Buffer): string {
    return key.toString('utf8', this.#rootBytes)
  }

  /** The keys that start with `prefix`, and of those, where `after` is given, the ones that come after it. */
  range(prefix: string, after?: string): { key: Buffer; rangeEnd: Buffer } {
    const start = this.encode(prefix)
    const rangeEnd = endOfPrefix(start)
    if (after === undefined) return { key: start, rangeEnd }
    const next = Buffer.from(`${this.#root}${after}\0`)
    return { key: Buffer.compare(next, start) > 0 ? next : start, rangeEnd }
  }

  /** Whether a key, as callers have it, is the storage's own. */
  static isOwn(key: string): boolean {
    return key === Keyspace.tipKey || key === Keyspace.fenceKey
  }

  /** Whether any of the storage's own is among the keys that start with `prefix`. */
  static coversOwn(prefix: string): boolean {
    return Keyspace.tipKey.startsWith(prefix) || Keyspace.fenceKey.startsWith(prefix)
  }
}

/** The first key after all that start with these bytes. They hold a byte below 255, as UTF-8 always does. */
function endOfPrefix(start: Buffer): Buffer {
  const end = Buffer.from(start)
  const last = end.length - 1
  end.writeUInt8(end.readUInt8(last) + 1, last)
  return end
}
