import type { Violation } from './guarantees.ts'
import type { RunLog } from './run-log.ts'
import type { Truth } from './truth.ts'

/**
 * Checks that no two objects had a unique value at one version. Objects from before the run count from their first
 * change on.
 */
export function checkUniqueValues({ uniqueOf }: RunLog, truth: Truth): Violation[] {
  const violations: Violation[] = []
  const holders = new Map<string, string>()
  for (const { version, name, before, after } of truth.changes) {
    if (before !== undefined)
      for (const value of uniqueOf(before)) if (holders.get(value) === name) holders.delete(value)
    if (after === undefined) continue
    for (const value of uniqueOf(after)) {
      const holder = holders.get(value)
      holders.set(value, name)
      if (holder === undefined || holder === name) continue
      // It may have lost the value in a gap of the history.
      const other = truth.stateAt(version).get(holder)
      if (other === undefined || !uniqueOf(other).includes(value)) continue
      const message = `version ${version} gave ${value} to ${name}, while ${holder} of version ${other.metadata.version} had it`
      violations.push({ guarantee: 'unique value', seenBy: undefined, message })
    }
  }
  return violations
}
