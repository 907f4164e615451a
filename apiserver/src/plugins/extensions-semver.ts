/** A semantic version, as https://semver.org (2.0.0) defines it; build metadata does not count. */
interface SemanticVersion {
  /** Major, minor and patch. */
  readonly numbers: readonly string[]
  /** Empty for a release. */
  readonly preRelease: readonly string[]
}

const pattern =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$/

/** Whether a text is a semantic version such as `1.2.3` or `2.0.0-rc.1`. */
export function isSemanticVersion(text: string): boolean {
  return parse(text) !== undefined
}

/**
 * Orders two versions by precedence: negative, zero or positive. A pre-release comes before its release. A text that
 * is no semantic version comes before every one that is.
 */
export function compareSemanticVersions(left: string, right: string): number {
  const a = parse(left)
  const b = parse(right)
  if (a === undefined || b === undefined) return Number(a !== undefined) - Number(b !== undefined)
  const numbers = compareEach(a.numbers, b.numbers)
  if (numbers !== 0) return numbers
  if (a.preRelease.length === 0 || b.preRelease.length === 0) {
    return Number(a.preRelease.length === 0) - Number(b.preRelease.length === 0)
  }
  return compareEach(a.preRelease, b.preRelease)
}

function parse(text: string): SemanticVersion | undefined {
  // npm's own bound; beyond it, it is no version but somebody's mistake.
  const match = text.length > 256 ? null : pattern.exec(text)
  if (match === null) return undefined
  const [, major = '', minor = '', patch = '', preRelease = ''] = match
  return { numbers: [major, minor, patch], preRelease: preRelease === '' ? [] : preRelease.split('.') }
}

/** Identifier by identifier; where one has more of them and all before are equal, it is the higher. */
function compareEach(left: readonly string[], right: readonly string[]): number {
  for (const [index, a] of left.entries()) {
    const b = right[index]
    if (b === undefined) return 1
    const order = compareIdentifiers(a, b)
    if (order !== 0) return order
  }
  return left.length - right.length
}

/** Numbers as numbers of any length, and before words; words by their ASCII order. */
function compareIdentifiers(a: string, b: string): number {
  const aIsNumber = /^\d+$/.test(a)
  const bIsNumber = /^\d+$/.test(b)
  if (aIsNumber !== bIsNumber) return aIsNumber ? -1 : 1
  // Without leading zeros the longer number is the larger.
  if (aIsNumber && a.length !== b.length) return a.length - b.length
  return a < b ? -1 : a > b ? 1 : 0
}
