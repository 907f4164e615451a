/** Encodes header text as UTF-8. Node sends one byte for each character and rejects characters above U+00FF. */
export function headerBytes<T extends string | string[]>(value: T): T
export function headerBytes(value: string | string[]): string | string[] {
  if (typeof value !== 'string') return value.map(text => headerBytes(text))
  return /^[\x20-\x7e]*$/.test(value) ? value : Buffer.from(value).toString('latin1')
}
