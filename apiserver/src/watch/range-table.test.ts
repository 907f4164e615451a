import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareCodePoints } from '../model/index.ts'
import { RangeTable, rangeTableDefaults, type ValueRange } from './range-table.ts'

const value = fc.constantFrom('', 'a', 'b', 'c', 'ca', '\u{ffff}', '\u{1f600}')
const change = fc.record({
  isAdded: fc.boolean(),
  range: fc.record({ from: value, to: fc.option(value, { nil: undefined }) }),
  item: fc.nat(3),
})
const contains = ({ from, to }: ValueRange, value: string) =>
  compareCodePoints(from, value) <= 0 && (to === undefined || compareCodePoints(value, to) <= 0)

function visited<T>(table: RangeTable<T>, value: string): T[] {
  const found: T[] = []
  table.visit(value, item => found.push(item))
  return found
}

const bound = (n: number) => String(n).padStart(6, '0')

describe('a table of ranges', () => {
  it('finds the items whose range contains a value, through additions and deletions', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), changes => {
        const table = new RangeTable<string>()
        const model = new Map<string, ValueRange>()
        for (const { isAdded, range, item } of changes) {
          const id = JSON.stringify([range.from, range.to, item])
          table[isAdded ? 'add' : 'delete'](range, id)
          if (isAdded) model.set(id, range)
          else model.delete(id)
          expect(table.isEmpty).toBe(model.size === 0)
        }
        for (const at of ['', 'a', 'b', 'bb', 'ca', 'd', '\u{ffff}', '\u{1f600}']) {
          const expected = [...model].filter(([, range]) => contains(range, at)).map(([id]) => id)
          expect(visited(table, at).sort()).toEqual(expected.sort())
        }
      }),
      { numRuns: 2_000 },
    )
  })

  it('finds them in many blocks, filled and emptied in any order', () => {
    const count = 20 * rangeTableDefaults.block
    const ranges = Array.from({ length: count }, (_, n) => {
      const at = (n * 7919) % count
      return { from: bound(at), to: at % 100 === 0 ? undefined : bound(at + (at % 30)) }
    })
    const table = new RangeTable<ValueRange>()
    const check = (left: readonly ValueRange[]) => {
      for (let n = 0; n < count; n += 97) {
        const expected = left.filter(range => contains(range, bound(n)))
        expect(new Set(visited(table, bound(n)))).toEqual(new Set(expected))
      }
    }
    for (const range of ranges) table.add(range, range)
    check(ranges)
    for (const range of ranges.slice(0, count / 2)) table.delete(range, range)
    check(ranges.slice(count / 2))
    for (const range of ranges) table.delete(range, range)
    expect(table.isEmpty).toBe(true)
  })

  it('reads few of many ranges', () => {
    const count = 10_000
    let reads = 0
    const counted = (from: string, to: string | undefined): ValueRange => ({
      get from() {
        reads++
        return from
      },
      get to() {
        reads++
        return to
      },
    })
    const readsOf = (ranges: readonly ValueRange[], value: string) => {
      const table = new RangeTable<ValueRange>()
      for (const range of ranges) table.add(range, range)
      reads = 0
      const found = visited(table, value).length
      return { found, reads }
    }
    const numbers = Array.from({ length: count }, (_, n) => n)
    const beside = readsOf(
      numbers.map(n => counted(bound(n), `${bound(n)}z`)),
      `${bound(9_000)}x`,
    )
    expect(beside.found).toBe(1)
    expect(beside.reads).toBeLessThan(count / 20)
    const below = readsOf(
      numbers.map(n => counted('', bound(n))),
      bound(count - 10),
    )
    expect(below.found).toBe(10)
    expect(below.reads).toBeLessThan(count / 20)
    const above = readsOf(
      numbers.map(n => counted(bound(n), undefined)),
      bound(10),
    )
    expect(above.found).toBe(11)
    expect(above.reads).toBeLessThan(count / 20)
  })
})
