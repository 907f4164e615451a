const loneSurrogate = /\p{Surrogate}/u

/** A key as the file has it: its UTF-8 bytes. */
export function encodeKey(key: string): Buffer {
  return Buffer.from(key, 'utf8')
}

/**
 * Checks a key that is about to be written.
 * @throws RangeError when it is empty, begins with a slash, is longer than `keyBytes` or is not well-formed text, of
 * which two could become the same bytes.
 */
export function checkKey(key: string, keyBytes: number): void {
  if (key === '' || key.startsWith('/')) throw new RangeError(`not a key: ${JSON.stringify(key)}`)
  if (key.length > keyBytes || Buffer.byteLength(key) > keyBytes)
    throw new RangeError(
      `the key ${JSON.stringify(`${key.slice(0, 80)}...`)} has more than ${keyBytes} bytes`,
    )
  if (loneSurrogate.test(key))
    throw new RangeError(`the key ${JSON.stringify(key)} is not well-formed Unicode`)
}

/**
 * The bytes right after all keys with this prefix, or undefined where none are.
 * @example prefixEnd(Buffer.from('a/')) // 'a0'
 */
export function prefixEnd(prefix: Buffer): Buffer | undefined {
  for (let i = prefix.length - 1; i >= 0; i--) {
    const byte = prefix[i]
    if (byte === undefined || byte === 0xff) continue
    const end = Buffer.from(prefix.subarray(0, i + 1))
    end[i] = byte + 1
    return end
  }
  return undefined
}

/** Orders two keys by their UTF-8 bytes, which for well-formed text is the order of the code points. */
export function compareKeys(left: string, right: string): number {
  const length = Math.min(left.length, right.length)
  for (let i = 0; i < length; i++) {
    const a = left.charCodeAt(i)
    const b = right.charCodeAt(i)
    if (a !== b) return rank(a) - rank(b)
  }
  return left.length - right.length
}

/** Surrogates stand for code points above all other UTF-16 units, though their numbers are below 0xe000. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit
}
