import { CelEvaluationError } from './errors.ts'
import { Opaque } from './opaque.ts'

const number = '0|[1-9]\\d*'
const label = '[0-9A-Za-z-]+'
/** The parts of a version (semver.org). */
const version = new RegExp(
  `^(${number})\\.(${number})\\.(${number})(?:-((?:${number}|\\d*[A-Za-z-][0-9A-Za-z-]*)(?:\\.(?:${number}|\\d*[A-Za-z-][0-9A-Za-z-]*))*))?(?:\\+(${label}(?:\\.${label})*))?$`,
)
const maxLength = 256
const maxNumber = 2n ** 64n - 1n

/** A semantic version. What follows a plus sign does not count. */
export class Semver extends Opaque {
  override readonly typeName = 'kubernetes.Semver'
  readonly numbers: readonly bigint[]
  readonly prerelease: readonly string[]

  private constructor(numbers: readonly bigint[], prerelease: readonly string[]) {
    super()
    this.numbers = numbers
    this.prerelease = prerelease
  }

  /** @param normalizes true if the text may begin with a v, have leading zeros, or leave out the last numbers */
  static read(text: string, normalizes = false): Semver | undefined {
    if (text.length > maxLength) return undefined
    const normal = normalizes ? normalized(text) : text
    const [, major = '', minor = '', patch = '', prerelease = ''] = version.exec(normal) ?? []
    if (major === '') return undefined
    const numbers = [major, minor, patch].map(BigInt)
    if (numbers.some(each => each > maxNumber)) return undefined
    return new Semver(numbers, prerelease === '' ? [] : prerelease.split('.'))
  }

  /** @throws CelEvaluationError */
  static parse(text: string, normalizes = false): Semver {
    const read = Semver.read(text, normalizes)
    if (read === undefined)
      throw new CelEvaluationError(`${JSON.stringify(text.slice(0, 100))} is not a semantic version`)
    return read
  }

  override get identity(): string {
    return `${this.numbers.join('.')}-${this.prerelease.join('.')}`
  }

  /** Returns a number below, at or above 0. A version before its release is below it. */
  compare(other: Semver): -1 | 0 | 1 {
    for (const [at, mine] of this.numbers.entries()) {
      const theirs = other.numbers[at] ?? 0n
      if (mine !== theirs) return mine < theirs ? -1 : 1
    }
    const [mine, theirs] = [this.prerelease, other.prerelease]
    if (mine.length === 0 || theirs.length === 0) return compareNumbers(theirs.length, mine.length)
    for (const [at, part] of mine.entries()) {
      const other = theirs[at]
      if (other === undefined) return 1
      if (part !== other) return compareLabels(part, other)
    }
    return mine.length < theirs.length ? -1 : 0
  }
}

function compareNumbers(a: number | bigint | string, b: number | bigint | string): -1 | 0 | 1 {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Numbers are below other labels. */
function compareLabels(a: string, b: string): -1 | 0 | 1 {
  const [isNumber, isOtherNumber] = [/^\d+$/.test(a), /^\d+$/.test(b)]
  if (isNumber && isOtherNumber) return compareNumbers(BigInt(a), BigInt(b))
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1
  return compareNumbers(a, b)
}

function normalized(text: string): string {
  const [, major = '', minor, rest] = /^([^.]*)(?:\.([^.]*)(?:\.(.*))?)?$/s.exec(text.replace(/^v/, '')) ?? []
  const parts = [major, minor, rest].filter(part => part !== undefined)
  // A short version with anything after its numbers is none.
  if (parts.length < 3 && /[+-]/.test(parts.at(-1) ?? '')) return ''
  const plain = parts.map(part => part.replace(/^0+(?=\d)/, ''))
  return [...plain, '0', '0'].slice(0, 3).join('.')
}
