import type { Entry } from '../cache/entry.ts'
import { IndexSet } from '../cache/index-set.ts'
import type { Slot } from '../cache/index-tree.ts'
import type { ModelSnapshot } from '../cache/model-store.ts'
import type { SortKey } from './list-query.ts'
import { Complement, gapsBetween, type Members, membersOf, othersOf } from './members.ts'
import { Ordering } from './ordering.ts'
import { entryComparator, sortValue } from './sort.ts'
import { countOf, type Run, runTerm, type Term } from './terms.ts'
import { orderedWindow, windowCost } from './window.ts'

/** Some of the objects of an answer in its order, and the number of all. */
export interface Found {
  readonly items: readonly Entry[]
  readonly total: number
}

/** The items wanted, as positions in the whole answer, once its number is known. */
export type WindowOf = (total: number) => { readonly offset: number; readonly count: number }

/** One way to answer a query. All ways give the same answer. */
export interface Plan {
  readonly name: 'ranks' | 'groups' | 'exclude' | 'walk' | 'gather' | 'scan'
  /** Expected cost in microseconds, to compare with that of other plans. */
  readonly cost: number
  /** Answers, or gives up (undefined) where it turns out to cost more than `budget`. */
  run(budget: number): Found | undefined
}

/** Costs in microseconds, as measured on a store of 100,000 objects under load. Only their ratios matter. */
export const planCosts = Object.freeze({
  /** Taking the next object of an index. */
  taken: 0.2,
  /** Testing the next object by name: neighbours in the tree are mostly neighbours in memory. */
  scanned: 0.2,
  /** Testing the next object of a sort index. */
  walked: 0.35,
  /** Testing and keeping an object of a term. */
  gathered: 0.45,
  /** Finding the rank of a value and name, or what is at a rank. */
  search: 0.8,
  /** Planning and answering for one group of equal first keys. */
  grouped: 4,
  /** How many times the cost of the next best plan one may reach whose own can only be guessed. */
  patience: 2,
})

const { taken, scanned, walked, gathered, search, grouped } = planCosts

/**
 * All plans for the objects that satisfy every term, sorted, cheapest first. The last one never gives up.
 *
 *     ranks     positions alone: no term, or one term that the sort index or the order of names knows about
 *     groups    no term, several keys: the runs of the first key that the page meets, each sorted by the others
 *     exclude   few objects are left out: skip their positions
 *     walk      the number is known: follow the sort index from the nearer end until the page is full
 *     gather    take the objects of the smallest term, test the other terms, sort
 *     scan      test every object, sort
 */
export function plansFor(
  snapshot: ModelSnapshot,
  terms: readonly Term[],
  sort: readonly SortKey[],
  windowOf: WindowOf,
): Plan[] {
  const request = new Request(snapshot, terms, sort, windowOf)
  const plans = [
    request.ranks(),
    request.groups(),
    request.exclude(),
    request.walk(),
    request.gather(),
    request.scan(),
  ]
  return plans.filter(plan => plan !== undefined).sort((left, right) => left.cost - right.cost)
}

/** Runs the cheapest plan that does not give up. */
export function runPlans(plans: readonly Plan[]): Found {
  for (const [at, plan] of plans.entries()) {
    const next = plans[at + 1]
    const found = plan.run(next === undefined ? Infinity : next.cost * planCosts.patience)
    if (found !== undefined) return found
  }
  return { items: [], total: 0 }
}

class Request {
  readonly #snapshot: ModelSnapshot
  readonly #terms: readonly Term[]
  readonly #sort: readonly SortKey[]
  readonly #windowOf: WindowOf
  readonly #ordering: Ordering
  /** The number of objects in the answer, where the indexes alone tell. */
  readonly #total: number | undefined

  constructor(snapshot: ModelSnapshot, terms: readonly Term[], sort: readonly SortKey[], windowOf: WindowOf) {
    this.#snapshot = snapshot
    this.#terms = terms
    // Nothing is left to decide after the name.
    const last = sort.findIndex(({ index }) => index === IndexSet.name)
    this.#sort = last < 0 ? sort : sort.slice(0, last + 1)
    this.#windowOf = windowOf
    this.#ordering = new Ordering(snapshot, this.#sort[0] ?? byName)
    const [term, ...more] = terms
    if (term === undefined) this.#total = snapshot.size
    else if (more.length === 0) this.#total = countOf(term, snapshot.size)
    else if (terms.some(({ negated, inRuns }) => !negated && inRuns === 0)) this.#total = 0
  }

  ranks(): Plan | undefined {
    const total = this.#total
    if (total === undefined) return undefined
    const { offset, count } = this.#windowOf(total)
    if (count === 0) return { name: 'ranks', cost: 0, run: () => ({ items: [], total }) }
    if (this.#sort.length > 1) return undefined
    const [term] = this.#terms
    const inOrder = term === undefined ? this.#at([{ from: 0, to: total }]) : this.#inTerm(term)
    if (inOrder === undefined) return undefined
    return {
      name: 'ranks',
      cost: count * inOrder.cost,
      run: () => ({ items: this.#entriesOf(inOrder.take(offset, count)), total }),
    }
  }

  groups(): Plan | undefined {
    const [key, ...others] = this.#sort
    if (this.#terms.length > 0 || key === undefined || others.length === 0) return undefined
    const total = this.#snapshot.size
    const { offset, count } = this.#windowOf(total)
    return {
      name: 'groups',
      cost: count * grouped,
      run: () => {
        const items: Entry[] = []
        while (items.length < count) {
          const group = this.#ordering.runAt(offset + items.length)
          const skip = offset + items.length - group.position
          const take = Math.min(group.to - group.from - skip, count - items.length)
          if (take <= 0) break
          const term = runTerm(this.#ordering.tree, group, entry => sortValue(entry, key) === group.value)
          const inGroup = group.to - group.from > 1 ? others : [byName]
          const found = plansFor(this.#snapshot, [term], inGroup, () => ({ offset: skip, count: take }))
          for (const item of runPlans(found).items) items.push(item)
        }
        return { items, total }
      },
    }
  }

  exclude(): Plan | undefined {
    if (this.#sort.length > 1 || this.#terms.length === 0) return undefined
    const sources: Members[] = []
    let cost = 0
    for (const term of this.#terms) {
      const others = othersOf(this.#snapshot, term)
      if (others === undefined) return undefined
      sources.push(others)
      cost += others.size * (gathered + others.searches * search + 2 * search)
    }
    const [key = byName] = this.#sort
    return {
      name: 'exclude',
      cost,
      run: () => {
        const slots = new Set<Slot>()
        for (const source of sources) source.each(slot => slots.add(slot))
        const total = this.#snapshot.size - slots.size
        const { offset, count } = this.#windowOf(total)
        const positions: number[] = []
        for (const slot of slots) {
          positions.push(this.#ordering.positionOf(sortValue(this.#snapshot.entryOf(slot), key), slot))
        }
        positions.sort((left, right) => left - right)
        const excluded = positions.map(position => ({ from: position, to: position + 1 }))
        const rest = this.#at(gapsBetween(excluded, this.#snapshot.size))
        return { items: this.#entriesOf(rest.take(offset, count)), total }
      },
    }
  }

  walk(): Plan | undefined {
    const total = this.#total
    const grouping = this.#terms.length === 0 && this.#sort.length > 1
    if (total === undefined || grouping) return undefined
    const { offset, count } = this.#windowOf(total)
    const fromStart = offset + count
    const fromEnd = total - offset
    // With further keys whole groups are taken and sorted.
    const step = this.#sort.length > 1 ? walked * 4 : walked
    const steps = (Math.min(fromStart, fromEnd) / Math.max(1, total)) * this.#snapshot.size
    return {
      name: 'walk',
      cost: steps * step,
      run: budget =>
        fromStart <= fromEnd
          ? this.#walk(true, offset, count, total, budget / step)
          : this.#walk(false, total - fromStart, count, total, budget / step),
    }
  }

  gather(): Plan | undefined {
    let base: Members | undefined
    let baseTerm: Term | undefined
    let cost = Infinity
    for (const term of this.#terms) {
      const members = membersOf(this.#snapshot, term)
      if (members === undefined) continue
      const termCost = members.size * (gathered + members.searches * search)
      if (termCost >= cost) continue
      base = members
      baseTerm = term
      cost = termCost
    }
    if (base === undefined) return undefined
    const { size, repeats } = base
    const source = base
    const others = this.#terms.filter(term => term !== baseTerm)
    return {
      name: 'gather',
      cost: cost + this.#sortingCost(Math.min(size, this.#total ?? size)),
      run: () => {
        const found: Entry[] = []
        const seen = repeats ? new Set<Slot>() : undefined
        source.each(slot => {
          if (seen?.has(slot)) return
          seen?.add(slot)
          const entry = this.#snapshot.entryOf(slot)
          for (const term of others) if (!term.test(entry)) return
          found.push(entry)
        })
        return this.#windowIn(found)
      },
    }
  }

  scan(): Plan {
    return {
      name: 'scan',
      cost: this.#snapshot.size * scanned + this.#sortingCost(this.#total ?? this.#smallest()),
      run: () => {
        const found: Entry[] = []
        this.#snapshot.objects.forEachValue(entry => {
          if (this.#matches(entry)) found.push(entry)
        })
        return this.#windowIn(found)
      },
    }
  }

  #matches(entry: Entry): boolean {
    for (const term of this.#terms) if (!term.test(entry)) return false
    return true
  }

  /** The size of the smallest term: the answer has no more objects. */
  #smallest(): number {
    const { size } = this.#snapshot
    return Math.min(size, ...this.#terms.map(term => (term.negated ? size - term.inRuns : term.inRuns)))
  }

  #sortingCost(total: number): number {
    const { offset, count } = this.#windowOf(total)
    return windowCost(total, this.#sort, this.#ordering, offset, count)
  }

  #windowIn(found: Entry[]): Found {
    const { offset, count } = this.#windowOf(found.length)
    return {
      items: orderedWindow(found, this.#sort, this.#ordering, offset, count),
      total: found.length,
    }
  }

  /** The objects of one term in the order of the one sort key, where ranks tell them. */
  #inTerm(term: Term): InOrder | undefined {
    const [key = byName] = this.#sort
    if (term.whole && term.tree === this.#ordering.tree) {
      const intervals = term.runs.map(({ from, to }) => {
        const position = this.#ordering.positionOfRun(from, to)
        return { from: position, to: position + to - from }
      })
      intervals.sort((left, right) => left.from - right.from)
      return this.#at(term.negated ? gapsBetween(intervals, this.#snapshot.size) : intervals)
    }
    const [run, ...more] = term.runs
    if (run === undefined || more.length > 0) return undefined
    const total = countOf(term, this.#snapshot.size)
    if (key.index === IndexSet.name && total !== undefined) {
      const complement = term.negated ? new Complement(this.#snapshot, term.tree, run) : undefined
      return {
        cost: taken + search * (complement === undefined ? 1 : 2 * Math.log2(run.to - run.from + 2)),
        take: (offset, count) => {
          const slots: Slot[] = []
          for (let position = offset; position < offset + count; position++) {
            const at = key.descending ? total - 1 - position : position
            const slot = complement === undefined ? term.tree.valueAt(run.from + at) : complement.slotAt(at)
            if (slot !== undefined) slots.push(slot)
          }
          return slots
        },
      }
    }
    return undefined
  }

  /** The objects at intervals of positions of the ordering; the intervals ascend. */
  #at(intervals: readonly Run[]): InOrder {
    return {
      cost: taken,
      take: (offset, count) => {
        const slots: Slot[] = []
        let skip = offset
        for (const { from, to } of intervals) {
          if (slots.length === count) break
          if (skip >= to - from) {
            skip -= to - from
            continue
          }
          const cursor = this.#ordering.cursor(from + skip)
          for (let left = Math.min(to - from - skip, count - slots.length); left > 0; left--) {
            const { slot } = cursor
            if (slot !== undefined) slots.push(slot)
            cursor.next()
          }
          skip = 0
        }
        return slots
      },
    }
  }

  /** Follows the sort index from one end, and takes `count` of the objects that match after leaving out `skip`. */
  #walk(forward: boolean, skip: number, count: number, total: number, maxSteps: number): Found | undefined {
    const items: Entry[] = []
    let toSkip = skip
    const take = (entry: Entry) => {
      if (toSkip > 0) toSkip--
      else if (items.length < count) items.push(entry)
    }
    // With further keys the objects of one value are collected, and taken once they are sorted.
    const compare = this.#sort.length > 1 ? entryComparator(this.#sort) : undefined
    let group: Entry[] = []
    let groupValue: string | undefined
    const takeGroup = () => {
      if (compare !== undefined) group.sort(forward ? compare : (left, right) => compare(right, left))
      for (const entry of group) take(entry)
      group = []
    }
    const cursor = this.#ordering.cursor(forward ? 0 : this.#ordering.size - 1)
    for (let steps = 0; items.length < count; steps++) {
      if (steps > maxSteps) return undefined
      const { slot, value } = cursor
      if (slot === undefined) {
        takeGroup()
        break
      }
      if (compare !== undefined && value !== groupValue) {
        takeGroup()
        groupValue = value
      }
      const entry = this.#snapshot.entryOf(slot)
      if (this.#matches(entry)) {
        if (compare === undefined) take(entry)
        else group.push(entry)
      }
      if (forward) cursor.next()
      else cursor.previous()
    }
    if (!forward) items.reverse()
    return { items, total }
  }

  #entriesOf(slots: readonly Slot[]): Entry[] {
    return slots.map(slot => this.#snapshot.entryOf(slot))
  }
}

const byName: SortKey = Object.freeze({ index: IndexSet.name, descending: false })

/** Objects by position in the answer; `cost` is for one of them. */
interface InOrder {
  readonly cost: number
  take(offset: number, count: number): Slot[]
}
