import { isIPv4, isIPv6 } from 'node:net'
import { CelEvaluationError } from './errors.ts'
import { Opaque } from './opaque.ts'

/** Bits of an address, by its family. */
const widths = { 4: 32, 6: 128 } as const

/** The addresses `::ffff:a.b.c.d`. */
const mappedPrefix = 0xffffn

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}

/** An IP address: neither with a zone, nor one of version 4 in the form of version 6. */
export class IpAddress extends Opaque {
  override readonly typeName = 'net.IP'
  readonly family: 4 | 6
  readonly bits: bigint

  constructor(family: 4 | 6, bits: bigint) {
    super()
    this.family = family
    this.bits = bits
  }

  static read(text: string): IpAddress | undefined {
    if (isIPv4(text)) return new IpAddress(4, joined(text.split('.').map(Number), 8))
    if (!isIPv6(text) || text.includes('%')) return undefined
    const bits = joined(groupsOf(text), 16)
    return bits >> 32n === mappedPrefix ? undefined : new IpAddress(6, bits)
  }

  /** @throws CelEvaluationError */
  static parse(text: string): IpAddress {
    const address = IpAddress.read(text)
    if (address === undefined) throw new CelEvaluationError(`${quoted(text)} is not an IP address`)
    return address
  }

  override get identity(): string {
    return this.toString()
  }

  /** The canonical form (RFC 5952). */
  override toString(): string {
    if (this.family === 4) return this.#parts(4, 8).join('.')
    const groups = this.#parts(8, 16).map(group => group.toString(16))
    const { start, length } = longestZeros(groups)
    if (length < 2) return groups.join(':')
    return `${groups.slice(0, start).join(':')}::${groups.slice(start + length).join(':')}`
  }

  #parts(count: number, width: number): number[] {
    return Array.from({ length: count }, (_, at) => {
      const shift = BigInt((count - 1 - at) * width)
      return Number((this.bits >> shift) & BigInt(2 ** width - 1))
    })
  }

  get isUnspecified(): boolean {
    return this.bits === 0n
  }

  get isLoopback(): boolean {
    return this.family === 4 ? this.#startsWith(127, 8) : this.bits === 1n
  }

  get isLinkLocalMulticast(): boolean {
    // In version 6 the scope is in the last four bits of the second byte.
    if (this.family === 4) return this.#startsWith(0xe00000, 24)
    return this.#startsWith(0xff, 8) && ((this.bits >> 112n) & 0xfn) === 2n
  }

  get isLinkLocalUnicast(): boolean {
    return this.family === 4 ? this.#startsWith(0xa9fe, 16) : this.#startsWith(0xfe80 >> 6, 10)
  }

  get isGlobalUnicast(): boolean {
    const isMulticast = this.family === 4 ? this.#startsWith(0xe, 4) : this.#startsWith(0xff, 8)
    const isBroadcast = this.family === 4 && this.#startsWith(0xffffffff, 32)
    return !(this.isUnspecified || this.isLoopback || isMulticast || this.isLinkLocalUnicast || isBroadcast)
  }

  #startsWith(prefix: number, bits: number): boolean {
    return this.bits >> BigInt(widths[this.family] - bits) === BigInt(prefix)
  }
}

/** A network: an address and the number of bits that its addresses share. */
export class Cidr extends Opaque {
  override readonly typeName = 'net.CIDR'
  readonly address: IpAddress
  readonly prefixLength: number

  constructor(address: IpAddress, prefixLength: number) {
    super()
    this.address = address
    this.prefixLength = prefixLength
  }

  static read(text: string): Cidr | undefined {
    const [, of = '', bits = ''] = /^([^/]+)\/(0|[1-9]\d{0,2})$/.exec(text) ?? []
    const address = IpAddress.read(of)
    if (address === undefined || Number(bits) > widths[address.family]) return undefined
    return new Cidr(address, Number(bits))
  }

  /** @throws CelEvaluationError */
  static parse(text: string): Cidr {
    const network = Cidr.read(text)
    if (network === undefined)
      throw new CelEvaluationError(`${quoted(text)} is not a network such as 10.0.0.0/8`)
    return network
  }

  override get identity(): string {
    return this.toString()
  }

  override toString(): string {
    return `${this.address}/${this.prefixLength}`
  }

  get masked(): Cidr {
    const { family } = this.address
    const shift = this.#shift
    return new Cidr(new IpAddress(family, (this.address.bits >> shift) << shift), this.prefixLength)
  }

  contains({ family, bits }: IpAddress): boolean {
    return family === this.address.family && bits >> this.#shift === this.address.bits >> this.#shift
  }

  containsNetwork({ address, prefixLength }: Cidr): boolean {
    return prefixLength >= this.prefixLength && this.contains(address)
  }

  get #shift(): bigint {
    return BigInt(widths[this.address.family] - this.prefixLength)
  }
}

function joined(parts: readonly number[], width: number): bigint {
  return parts.reduce((bits, part) => (bits << BigInt(width)) | BigInt(part), 0n)
}

/** Returns the eight groups of an address of version 6, whose end may be written as one of version 4. */
function groupsOf(text: string): number[] {
  const plain = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_all, ...bytes: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.map(Number)
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
  })
  const [before = '', after] = plain.split('::')
  const read = (part = '') => (part === '' ? [] : part.split(':').map(group => Number.parseInt(group, 16)))
  const [first, last] = [read(before), read(after)]
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last]
}

/** Returns the first of the longest runs of groups that are zero. */
function longestZeros(groups: readonly string[]): { start: number; length: number } {
  let best = { start: 0, length: 0 }
  let length = 0
  for (const [at, group] of groups.entries()) {
    length = group === '0' ? length + 1 : 0
    if (length > best.length) best = { start: at - length + 1, length }
  }
  return best
}
