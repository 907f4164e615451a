import { type OverloadTable, overload } from './overloads.ts'
import { Semver } from './semver.ts'
import { bool, type CelType, int } from './types.ts'

const semver: CelType = { kind: 'semver' }

/** The functions for semantic versions, as in Kubernetes. */
export const semverFunctions: OverloadTable = {
  semver: [
    overload(['string'], semver, ([text]) => Semver.parse(text)),
    overload(['string', 'bool'], semver, ([text, normalizes]) => Semver.parse(text, normalizes)),
  ],
  isSemver: [
    overload(['string'], bool, ([text]) => Semver.read(text) !== undefined),
    overload(['string', 'bool'], bool, ([text, normalizes]) => Semver.read(text, normalizes) !== undefined),
  ],
}

function numberAt(at: number) {
  return [overload(['semver'], int, ([{ numbers }]) => numbers[at] ?? 0n)]
}

export const semverMethods: OverloadTable = {
  major: numberAt(0),
  minor: numberAt(1),
  patch: numberAt(2),
  isLessThan: [overload(['semver', 'semver'], bool, ([a, b]) => a.compare(b) < 0)],
  isGreaterThan: [overload(['semver', 'semver'], bool, ([a, b]) => a.compare(b) > 0)],
  compareTo: [overload(['semver', 'semver'], int, ([a, b]) => BigInt(a.compare(b)))],
}
