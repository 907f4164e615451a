const suffixes: Readonly<Record<string, bigint>> = {
  n: 1n,
  u: 10n ** 3n,
  m: 10n ** 6n,
  '': 10n ** 9n,
  k: 10n ** 12n,
  M: 10n ** 15n,
  G: 10n ** 18n,
  T: 10n ** 21n,
  P: 10n ** 24n,
  E: 10n ** 27n,
  Ki: 10n ** 9n * 2n ** 10n,
  Mi: 10n ** 9n * 2n ** 20n,
  Gi: 10n ** 9n * 2n ** 30n,
  Ti: 10n ** 9n * 2n ** 40n,
  Pi: 10n ** 9n * 2n ** 50n,
  Ei: 10n ** 9n * 2n ** 60n,
}

const pattern = /^([+-]?)(\d+\.?\d*|\.\d+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,2}))?$/
const one = 10n ** 9n

/** A number with a unit, such as `500m` or `1.5Gi`. As in Kubernetes, it is exact to a billionth and rounded up. */
export class Quantity {
  /** Billionths of one. */
  readonly nanos: bigint

  constructor(nanos: bigint) {
    this.nanos = nanos
  }

  /** Returns undefined for a text that is no quantity. */
  static parse(text: string): Quantity | undefined {
    const match = text.length <= 100 ? pattern.exec(text) : null
    if (match === null) return undefined
    const [, sign, digits = '', suffix = '', exponent = '0'] = match
    const [whole = '', fraction = ''] = digits.split('.')
    const power = Number(exponent)
    const scale = (suffixes[suffix] ?? one) * 10n ** BigInt(Math.max(power, 0))
    const divisor = 10n ** BigInt(fraction.length + Math.max(-power, 0))
    const product = BigInt(whole + fraction) * scale
    const nanos = (product + divisor - 1n) / divisor
    return new Quantity(sign === '-' ? -nanos : nanos)
  }

  get isInteger(): boolean {
    const whole = this.nanos / one
    return this.nanos % one === 0n && BigInt.asIntN(64, whole) === whole
  }

  get whole(): bigint {
    return this.nanos / one
  }
}

/** Returns the quantity of an integer. */
export function quantityOf(whole: bigint): Quantity {
  return new Quantity(whole * one)
}
