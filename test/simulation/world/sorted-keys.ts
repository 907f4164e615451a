/** In the order of UTF-8, which differs from that of UTF-16 only for surrogates. */
export function byBytes(a: string, b: string): number {
  if (a === b) return 0
  if (!/[\ud800-\uffff]/.test(a + b)) return a < b ? -1 : 1
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Returns where a key is, or belongs. */
export function lowerBound(keys: readonly string[], key: string): number {
  return boundOf(keys, each => byBytes(each, key) < 0)
}

/** Returns where the first key after a key is, or belongs. */
export function upperBound(keys: readonly string[], key: string): number {
  return boundOf(keys, each => byBytes(each, key) <= 0)
}

function boundOf(keys: readonly string[], isBefore: (key: string) => boolean): number {
  let low = 0
  let high = keys.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (isBefore(keys[middle] ?? '')) low = middle + 1
    else high = middle
  }
  return low
}
