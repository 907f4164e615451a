const loneSurrogate = /\p{Surrogate}/u

/** Encodes a key as UTF-8. */
export function encodeKey(key: string): Buffer {
  return Buffer.from(key, 'utf8')
}

/**
 * Checks a key to write.
 * @throws RangeError if it is empty, starts with a slash, exceeds `keyBytes` or is not well-formed Unicode: two such
 * keys could have the same bytes.
 */
export function checkKey(key: string, keyBytes: number): void {
  if (key === '' || key.startsWith('/'))
    throw new RangeError(`invalid key ${JSON.stringify(key)}: it is empty or starts with a slash`)
  if (key.length > keyBytes || Buffer.byteLength(key) > keyBytes)
    throw new RangeError(`the key ${JSON.stringify(`${key.slice(0, 80)}...`)} exceeds ${keyBytes} bytes`)
  if (loneSurrogate.test(key))
    throw new RangeError(`the key ${JSON.stringify(key)} is not well-formed Unicode`)
}

/**
 * Returns the end of the range of keys with this prefix, or undefined if it has no end.
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
