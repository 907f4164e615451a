/** A line of a difference: in both, only in the new text, or only in the old one. */
export interface DiffLine {
  readonly is: 'same' | 'added' | 'removed'
  readonly text: string
}

/** Lines that are compared exactly. Longer texts differ as a whole. */
const comparedLines = 2_000

/** Returns the difference of two texts by lines, with the lines around changes, and gaps between them. */
export function diffOf(before: string, after: string, around = 2): DiffLine[] {
  const old = before.split('\n')
  const now = after.split('\n')
  let start = 0
  while (start < old.length && start < now.length && old[start] === now[start]) start++
  let end = 0
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++
  const middle = compare(old.slice(start, old.length - end), now.slice(start, now.length - end))
  const same = (lines: readonly string[]) => lines.map(text => ({ is: 'same' as const, text }))
  return withoutFarLines(
    [...same(old.slice(0, start)), ...middle, ...same(old.slice(old.length - end))],
    around,
  )
}

/** The longest common subsequence, by the table of its lengths. */
function compare(old: readonly string[], now: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ is: 'removed', text })
  const added = (text: string): DiffLine => ({ is: 'added', text })
  if (old.length > comparedLines || now.length > comparedLines || old.length * now.length > 1_000_000)
    return [...old.map(removed), ...now.map(added)]
  const width = now.length + 1
  const lengths = new Uint16Array((old.length + 1) * width)
  const lengthAt = (i: number, j: number) => lengths[i * width + j] ?? 0
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      lengths[i * width + j] =
        old[i] === now[j] ? lengthAt(i + 1, j + 1) + 1 : Math.max(lengthAt(i + 1, j), lengthAt(i, j + 1))
  const lines: DiffLine[] = []
  let i = 0
  let j = 0
  while (i < old.length || j < now.length) {
    const [left, right] = [old[i], now[j]]
    if (left !== undefined && left === right) {
      lines.push({ is: 'same', text: left })
      i++
      j++
    } else if (left !== undefined && (right === undefined || lengthAt(i + 1, j) >= lengthAt(i, j + 1))) {
      lines.push(removed(left))
      i++
    } else if (right !== undefined) {
      lines.push(added(right))
      j++
    }
  }
  return lines
}

function withoutFarLines(lines: readonly DiffLine[], around: number): DiffLine[] {
  const near = new Set<number>()
  for (const [index, { is }] of lines.entries())
    if (is !== 'same') for (let each = index - around; each <= index + around; each++) near.add(each)
  return lines.flatMap((line, index) => {
    if (near.has(index)) return [line]
    return near.has(index - 1) || (index === 0 && near.size > 0) ? [{ is: 'same' as const, text: '⋯' }] : []
  })
}
