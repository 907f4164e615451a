import { type Work, workDefaults } from '../scheduling/index.ts'

const { stride } = workDefaults

/** Merges sorted runs into one, stably. */
export function* mergeRuns<T extends string | object>(
  sortedRuns: readonly (readonly T[])[],
  compare: (left: T, right: T) => number,
): Work<readonly T[]> {
  let runs = sortedRuns
  while (runs.length > 1) {
    const merged: (readonly T[])[] = []
    for (let at = 0; at < runs.length; at += 2) {
      const [left = [], right] = [runs[at], runs[at + 1]]
      merged.push(right === undefined ? left : yield* merge(left, right, compare))
    }
    runs = merged
  }
  return runs[0] ?? []
}

function* merge<T extends string | object>(
  left: readonly T[],
  right: readonly T[],
  compare: (left: T, right: T) => number,
): Work<readonly T[]> {
  const last = left.at(-1)
  const first = right[0]
  // Values often grow with names, as counters and times do.
  if (last === undefined || first === undefined || compare(last, first) <= 0) return left.concat(right)
  const merged: T[] = []
  let l = 0
  let r = 0
  for (;;) {
    const a = left[l]
    const b = right[r]
    if (b !== undefined && (a === undefined || compare(b, a) < 0)) {
      merged.push(b)
      r++
    } else if (a !== undefined) {
      merged.push(a)
      l++
    } else break
    if (merged.length % stride === 0) yield stride
  }
  yield merged.length % stride
  return merged
}
