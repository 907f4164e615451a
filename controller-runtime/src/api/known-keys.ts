import { isRecord } from './is-record.ts'

/**
 * The keys of a declaration, each mapped to true. The compiler rejects a table that lacks a key of `T`, so a new key is
 * added to the type and the table together.
 */
export type KeysOf<T> = Readonly<Record<keyof T, true>>

/**
 * Returns a message for each key of `value` that is not in the table: `unknown key indexs in defineModel, did you mean
 * indexes?`.
 */
export function unknownKeys(value: object, known: Readonly<Record<string, true>>, place: string): string[] {
  const names = Object.keys(known)
  return Object.keys(value).flatMap(key =>
    Object.hasOwn(known, key) ? [] : [`unknown key ${key} in ${place}, ${suggestion(key, names)}`],
  )
}

/** @throws TypeError that lists the keys of `value` that are not in the table, or says that it is no object. */
export function refuseUnknownKeys(value: object, known: Readonly<Record<string, true>>, place: string): void {
  if (!isRecord(value)) throw new TypeError(`${place} must be an object`)
  const problems = unknownKeys(value, known, place)
  if (problems.length > 0) throw new TypeError(problems.join('; '))
}

function suggestion(name: string, valid: readonly string[]): string {
  const nearest = nearestName(name, valid)
  return nearest === undefined ? `valid keys are ${valid.join(', ')}` : `did you mean ${nearest}?`
}

/**
 * Returns the valid name with the fewest edits: at most four, and two in five letters. Undefined if none is that near.
 */
export function nearestName(name: string, valid: Iterable<string>): string | undefined {
  let nearest: string | undefined
  let fewest = Math.min(4, Math.round(name.length * 0.4)) + 1
  for (const candidate of valid) {
    const edits = editDistance(name.toLowerCase(), candidate.toLowerCase())
    if (edits >= fewest) continue
    nearest = candidate
    fewest = edits
  }
  return nearest
}

/** Levenshtein's distance. Names past a bound are never near: the cost is quadratic. */
function editDistance(from: string, to: string): number {
  if (from.length > 100) return Number.POSITIVE_INFINITY
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (const [above, letter] of [...from].entries()) {
    const next = [above + 1]
    for (const [at, other] of [...to].entries()) {
      const replaced = (row[at] ?? 0) + (letter === other ? 0 : 1)
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
