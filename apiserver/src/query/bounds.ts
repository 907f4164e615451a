import { isComparison, type Requirement } from '@setpoint/controller-runtime/api'
import { compareCodePoints } from '../model/index.ts'

/** The tightest comparisons of a field, which imply all others of it. At least one is present. */
export interface Bounds {
  /** A `>` or `>=`. */
  readonly lower: Requirement | undefined
  /** A `<` or `<=`. */
  readonly upper: Requirement | undefined
}

/** Returns the bounds of each field that a selector compares. */
export function boundsOf(fields: readonly Requirement[]): ReadonlyMap<string, Bounds> {
  const bounds = new Map<string, Bounds>()
  for (const requirement of fields) {
    const { key, operator } = requirement
    if (!isComparison(operator)) continue
    const { lower, upper } = bounds.get(key) ?? { lower: undefined, upper: undefined }
    const isLower = operator.startsWith('>')
    bounds.set(key, {
      lower: isLower ? tighterBound(requirement, lower, -1) : lower,
      upper: isLower ? upper : tighterBound(requirement, upper, 1),
    })
  }
  return bounds
}

/** Returns the value that a comparison compares with. */
export function boundValue({ values: [bound = ''] }: Requirement): string {
  return bound
}

function tighterBound(one: Requirement, known: Requirement | undefined, direction: 1 | -1): Requirement {
  if (known === undefined) return one
  const order = compareCodePoints(boundValue(one), boundValue(known)) * direction
  const isTighter = order < 0 || (order === 0 && !one.operator.endsWith('='))
  return isTighter ? one : known
}
