import { compareCodePoints } from '../model/index.ts'

export const rangeTableDefaults = Object.freeze({
  /** Ranges of a block. A larger block takes longer to search, a smaller one makes more blocks to skip. */
  block: 128,
})

/** The values from `from` to `to`, both inclusive, by code point. */
export interface ValueRange {
  /** The empty text is below all others. */
  readonly from: string
  /** Undefined if there is no upper bound. */
  readonly to: string | undefined
}

interface Row<T> {
  readonly range: ValueRange
  readonly items: Set<T>
}

interface Block<T> {
  /** Never empty, ascending: see `compareRanges`. */
  readonly rows: Row<T>[]
  /** The last end of all rows. */
  to: string | undefined
}

/**
 * Items by range, to find those whose range contains a value. The ranges are sorted by their start and cut into blocks,
 * and each block knows its last end:
 *
 *     blocks    [a-c a-f b-d] to f    [d-e e-e f-h] to h    [k-m n-] no end
 *     visit g   skipped: ends before   searched              starts after
 *
 * A visit reads the bounds of each block that starts at or before the value, and the ranges of those that also end at
 * or after it. So beyond the ranges that it finds, it reads two of each block and the rest of the blocks that an end
 * shares with them: of 10,000 ranges side by side, a few hundred. It never reads more than all (range-table.test.ts).
 */
export class RangeTable<T> {
  readonly #blocks: Block<T>[] = []

  get isEmpty(): boolean {
    return this.#blocks.length === 0
  }

  add(range: ValueRange, item: T): void {
    const { row, block, position, at } = this.#find(range)
    if (row !== undefined) {
      row.items.add(item)
      return
    }
    const added = { range, items: new Set([item]) }
    if (block === undefined) {
      this.#blocks.push({ rows: [added], to: range.to })
      return
    }
    block.rows.splice(at, 0, added)
    if (block.rows.length > rangeTableDefaults.block) {
      const rows = block.rows.splice(block.rows.length >> 1)
      this.#blocks.splice(position + 1, 0, { rows, to: lastEnd(rows) })
    }
    block.to = lastEnd(block.rows)
  }

  delete(range: ValueRange, item: T): void {
    const { row, block, position, at } = this.#find(range)
    if (row === undefined || block === undefined) return
    row.items.delete(item)
    if (row.items.size > 0) return
    block.rows.splice(at, 1)
    if (block.rows.length === 0) this.#blocks.splice(position, 1)
    else block.to = lastEnd(block.rows)
  }

  /** Visits the items whose range contains the value. */
  visit(value: string, visit: (item: T) => void): void {
    for (const { rows, to } of this.#blocks) {
      if (isAfter(rows[0], value)) return
      if (to !== undefined && compareCodePoints(to, value) < 0) continue
      for (const row of rows) {
        if (isAfter(row, value)) return
        const end = row.range.to
        if (end === undefined || compareCodePoints(end, value) >= 0) row.items.forEach(visit)
      }
    }
  }

  /** The row of a range, or the block and the position in it where the row belongs. */
  #find(range: ValueRange): {
    row: Row<T> | undefined
    block: Block<T> | undefined
    position: number
    at: number
  } {
    const isBefore = (row: Row<T> | undefined) => row !== undefined && compareRanges(row.range, range) < 0
    const following = firstNot(this.#blocks, ({ rows }) => isBefore(rows.at(-1)))
    // A range after all others belongs into the last block.
    const position = Math.min(following, Math.max(0, this.#blocks.length - 1))
    const block = this.#blocks[position]
    const at = block === undefined ? 0 : firstNot(block.rows, isBefore)
    const found = block?.rows[at]
    const row = found !== undefined && compareRanges(found.range, range) === 0 ? found : undefined
    return { row, block, position, at }
  }
}

/** By start, then by end; no end comes last. */
function compareRanges(left: ValueRange, right: ValueRange): number {
  return compareCodePoints(left.from, right.from) || compareEnds(left.to, right.to)
}

function compareEnds(left: string | undefined, right: string | undefined): number {
  if (left === right) return 0
  if (left === undefined) return 1
  return right === undefined ? -1 : compareCodePoints(left, right)
}

function lastEnd<T>(rows: readonly Row<T>[]): string | undefined {
  return rows.map(({ range }) => range.to).reduce((last, end) => (compareEnds(end, last) > 0 ? end : last))
}

function isAfter<T>(row: Row<T> | undefined, value: string): boolean {
  return row !== undefined && compareCodePoints(row.range.from, value) > 0
}

/** Binary search: returns the number of elements, from the start, that are before. */
function firstNot<E>(elements: readonly E[], isBefore: (element: E) => boolean): number {
  let low = 0
  let high = elements.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const element = elements[middle]
    if (element !== undefined && isBefore(element)) low = middle + 1
    else high = middle
  }
  return low
}
