import type { Budget } from './budget.ts'
import { CelEvaluationError } from './errors.ts'
import { checkedInt } from './operators.ts'
import { type OverloadTable, overload } from './overloads.ts'
import { Duration } from './time.ts'
import { bool, type CelType, dyn, int, isCompatible, itemOf, string } from './types.ts'
import { type CelList, type CelValue, compare, equals, weightOf } from './values.ts'

function sum(list: CelList): CelValue {
  const [first = 0n, ...rest] = list
  return rest.reduce(add, first)
}

function add(total: CelValue, item: CelValue): CelValue {
  if (typeof total === 'bigint' && typeof item === 'bigint') return checkedInt(total + item)
  if (typeof total === 'number' && typeof item === 'number') return total + item
  if (total instanceof Duration && item instanceof Duration) return new Duration(total.nanos + item.nanos)
  throw new CelEvaluationError('sum needs a list of int, double or duration')
}

/** Returns the first item in the order; `sign` turns the order around. */
function extreme(list: CelList, sign: 1 | -1, budget: Budget): CelValue {
  const [first, ...rest] = list
  if (first === undefined) throw new CelEvaluationError('an empty list has no minimum and no maximum')
  return rest.reduce((best, item) => (compareItems(item, best, budget) * sign < 0 ? item : best), first)
}

/** A step that grows with the shorter item: many items may be the same long string. */
function compareItems(a: CelValue, b: CelValue, budget: Budget): number {
  budget.spend(1 + Math.min(weightOf(a), weightOf(b)))
  return compare(a, b)
}

function indexOf(list: CelList, item: CelValue, budget: Budget, step: 1 | -1): bigint {
  for (let at = step === 1 ? 0 : list.length - 1; at >= 0 && at < list.length; at += step) {
    const other = list[at]
    if (other !== undefined && equals(item, other, budget)) return BigInt(at)
  }
  return -1n
}

const firstItemOf = ([list]: readonly CelType[]) => itemOf(list)

function intOfItem([list, item = dyn]: readonly CelType[]): CelType | undefined {
  return isCompatible(itemOf(list), item) ? int : undefined
}

function boolOfLists([a, b]: readonly CelType[]): CelType | undefined {
  return isCompatible(itemOf(a), itemOf(b)) ? bool : undefined
}

export const listFunctions: OverloadTable = {
  isSorted: [
    overload(['list'], bool, ([list], budget) =>
      list.every((item, at) => {
        const before = at === 0 ? undefined : list[at - 1]
        return before === undefined || compareItems(before, item, budget) <= 0
      }),
    ),
  ],
  sum: [overload(['list'], firstItemOf, ([list]) => sum(list))],
  min: [overload(['list'], firstItemOf, ([list], budget) => extreme(list, 1, budget))],
  max: [overload(['list'], firstItemOf, ([list], budget) => extreme(list, -1, budget))],
  indexOf: [overload(['list', 'dyn'], intOfItem, ([list, item], budget) => indexOf(list, item, budget, 1))],
  lastIndexOf: [
    overload(['list', 'dyn'], intOfItem, ([list, item], budget) => indexOf(list, item, budget, -1)),
  ],
  join: [
    overload(['strings'], string, ([texts], budget) => joinTexts(texts, '', budget)),
    overload(['strings', 'string'], string, ([texts, separator], budget) =>
      joinTexts(texts, separator, budget),
    ),
  ],
}

function joinTexts(texts: readonly string[], separator: string, budget: Budget): string {
  // Before the text is made: many items may be the same long string.
  for (const text of texts) budget.spend((text.length + separator.length) >> 6)
  return texts.join(separator)
}

/** Returns true if all items are in the other list. */
function contains(list: CelList, items: CelList, budget: Budget): boolean {
  return items.every(item => list.some(each => equals(each, item, budget)))
}

/** The functions for lists as sets. */
export const setFunctions: OverloadTable = {
  'sets.contains': [
    overload(['list', 'list'], boolOfLists, ([list, items], budget) => contains(list, items, budget)),
  ],
  'sets.equivalent': [
    overload(
      ['list', 'list'],
      boolOfLists,
      ([a, b], budget) => contains(a, b, budget) && contains(b, a, budget),
    ),
  ],
  'sets.intersects': [
    overload(['list', 'list'], boolOfLists, ([a, b], budget) =>
      a.some(item => b.some(each => equals(each, item, budget))),
    ),
  ],
}
