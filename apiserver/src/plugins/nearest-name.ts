/** Returns the name that is most like a wrong one, or undefined if none is close to it. */
export function nearestName(wrong: string, names: Iterable<string>): string | undefined {
  let best: string | undefined
  let least = Math.max(2, Math.floor(wrong.length / 3)) + 1
  for (const name of names) {
    const distance = editDistance(wrong.toLowerCase(), name.toLowerCase())
    if (distance >= least) continue
    least = distance
    best = name
  }
  return best
}

/** Returns the number of characters to insert, remove or replace (Levenshtein). */
function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at)
  for (const [at, character] of [...left].entries()) {
    const next = [at + 1]
    for (const [column, other] of [...right].entries()) {
      const replaced = (row[column] ?? 0) + (character === other ? 0 : 1)
      next.push(Math.min(replaced, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}
