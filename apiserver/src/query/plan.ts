import {
  type Candidate,
  type Entry,
  type IndexTree,
  type ModelSnapshot,
  type Slot,
  type SortKey,
  SortOrder,
  sorted,
  sortValue,
  type Work,
  workDefaults,
} from '../cache/for-query.ts'
import { IndexSet } from '../model/index.ts'
import { testWorkOf } from './match.ts'
import { Complement, eachOf, gapsBetween, type Members, membersOf, othersOf } from './members.ts'
import { Ordering } from './ordering.ts'
import { countOf, type Run, runTerm, type Term } from './terms.ts'
import { walk } from './walk.ts'
import { orderedWindow, slotsOf, sortCost, windowCost } from './window.ts'

/** Some of the objects of a result in its order, and the number of all. */
export interface Found {
  readonly slots: readonly Slot[]
  readonly total: number
}

/** The wanted items, as positions in the whole result, once its size is known. */
type WindowOf = (total: number) => { readonly offset: number; readonly count: number }

/** One way to run a query. All ways give the same result. */
export interface Plan {
  readonly name: 'ranks' | 'groups' | 'exclude' | 'walk' | 'gather' | 'scan'
  /** Expected cost in microseconds, to compare with that of other plans. */
  readonly cost: number
  /** Returns the result, or undefined if it turns out to cost more than `budget`. */
  run(budget: number): Work<Found | undefined>
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
  /** A plan with a guessed cost may take this many times the cost of the next best plan. */
  patience: 2,
})

/** Objects that a page may leave out for `exclude`: their positions are sorted at once. */
const mostExcluded = workDefaults.stride

const { taken, scanned, walked, gathered, search } = planCosts

/**
 * A page of the objects that satisfy every term, sorted, and the ways to it.
 *
 *     ranks     positions alone: no term, or one term that the sort index or the order of names knows about
 *     groups    no term, several keys: the runs of the first key that the page meets, each sorted by the others
 *     exclude   few objects are left out: skip their positions
 *     walk      the number is known: follow the sort index from the nearer end until the page is full
 *     gather    take the objects of the smallest term, test the other terms, sort
 *     scan      test every object, sort
 */
export class PageRequest {
  readonly #snapshot: ModelSnapshot
  readonly #terms: readonly Term[]
  readonly #order: SortOrder
  readonly #windowOf: WindowOf
  readonly #ordering: Ordering
  /** The number of objects in the result, if the indexes alone tell. */
  readonly #total: number | undefined

  constructor(snapshot: ModelSnapshot, terms: readonly Term[], order: SortOrder, windowOf: WindowOf) {
    this.#snapshot = snapshot
    this.#terms = terms
    this.#order = order
    this.#windowOf = windowOf
    this.#ordering = new Ordering(snapshot, order.keys[0] ?? byName)
    const [term, ...more] = terms
    if (term === undefined) this.#total = snapshot.size
    else if (more.length === 0) this.#total = countOf(term, snapshot.size)
    else if (terms.some(({ negated, inRuns }) => !negated && inRuns === 0)) this.#total = 0
  }

  /** All plans, cheapest first. The last one never gives up. */
  plans(): Plan[] {
    const plans = [this.#ranks(), this.#groups(), this.#exclude(), this.#walk(), this.#gather(), this.#scan()]
    return plans.filter(plan => plan !== undefined).sort((left, right) => left.cost - right.cost)
  }

  /** All objects that satisfy every term, in order, whatever the page. */
  *all(): Work<readonly Candidate[]> {
    const source = this.#smallestSource()
    const most = this.#most()
    const sorting = sortCost(Math.min(most, source?.members.size ?? most))
    const gathering = Math.min(source?.cost ?? Infinity, this.#scanCost()) + sorting
    const walking = this.#snapshot.size * walked + (this.#order.keys.length > 1 ? sorting : 0)
    if (gathering < walking) return yield* sorted(yield* this.#collect(source), this.#order)
    const candidates: Candidate[] = []
    const take = (candidate: Candidate) => {
      candidates.push(candidate)
      return true
    }
    yield* walk({ ...this.#whole(), forward: true, take }, Infinity)
    return candidates
  }

  #ranks(): Plan | undefined {
    const total = this.#total
    if (total === undefined) return undefined
    const { offset, count } = this.#windowOf(total)
    if (count === 0) return { name: 'ranks', cost: 0, run: () => nothing(total) }
    if (this.#order.keys.length > 1) return undefined
    const [term] = this.#terms
    const inOrder = term === undefined ? this.#at([{ from: 0, to: total }]) : this.#inTerm(term)
    if (inOrder === undefined) return undefined
    return {
      name: 'ranks',
      cost: count * inOrder.cost,
      *run() {
        return { slots: yield* inOrder.take(offset, count), total }
      },
    }
  }

  #groups(): Plan | undefined {
    if (this.#terms.length > 0 || this.#order.keys.length < 2) return undefined
    const total = this.#snapshot.size
    const { offset, count } = this.#windowOf(total)
    if (count === 0) return undefined
    // Only the first and the last value can have objects outside the page.
    const first = this.#ordering.runAt(offset)
    const last = this.#ordering.runAt(offset + count - 1)
    const skip = offset - first.position
    const inFirst = Math.min(first.to - first.from - skip, count)
    const firstPlans = this.#groupPlans(first, skip, inFirst)
    const middle = { from: offset + inFirst, to: Math.max(last.position, offset + inFirst) }
    const inLast = offset + count - middle.to
    const lastPlans = inLast > 0 ? this.#groupPlans(last, 0, inLast) : []
    const planned = (firstPlans[0]?.cost ?? 0) + (lastPlans[0]?.cost ?? 0)
    const size = middle.to - middle.from
    return {
      name: 'groups',
      cost: planned + size * walked + sortCost(size),
      run: () => this.#inGroups(firstPlans, middle, lastPlans),
    }
  }

  /** The objects of the first group's page, all those in between, and those of the last group's page. */
  *#inGroups(firstPlans: readonly Plan[], middle: Run, lastPlans: readonly Plan[]): Work<Found> {
    const slots: Slot[] = []
    yield* append(slots, (yield* runPlans(firstPlans)).slots)
    const found: Candidate[] = []
    for (const slot of yield* this.#at([middle]).take(0, middle.to - middle.from)) {
      found.push({ key: this.#order.keyOf(this.#snapshot.entryOf(slot)), slot })
      if (found.length % workDefaults.stride === 0) yield workDefaults.stride
    }
    yield* append(slots, yield* slotsOf(yield* sorted(found, this.#order), 0, found.length))
    yield* append(slots, (yield* runPlans(lastPlans)).slots)
    return { slots, total: this.#snapshot.size }
  }

  /** The ways to `count` objects from `offset` of one group, whose objects are sorted by the other keys. */
  #groupPlans(group: Group, offset: number, count: number): Plan[] {
    const [key = byName, ...others] = this.#order.keys
    const term = runTerm(this.#ordering.tree, group, entry => sortValue(entry, key) === group.value)
    const order = group.to - group.from > 1 ? new SortOrder(others) : nameOrder
    return new PageRequest(this.#snapshot, [term], order, () => ({ offset, count })).plans()
  }

  #exclude(): Plan | undefined {
    if (this.#order.keys.length > 1 || this.#terms.length === 0) return undefined
    const sources: Members[] = []
    let cost = 0
    let size = 0
    for (const term of this.#terms) {
      const others = othersOf(this.#snapshot, term)
      if (others === undefined) return undefined
      sources.push(others)
      size += others.size
      cost += others.size * (gathered + others.searches * search + 2 * search)
    }
    return size > mostExcluded ? undefined : { name: 'exclude', cost, run: () => this.#excluding(sources) }
  }

  *#excluding(sources: readonly Members[]): Work<Found> {
    const [key = byName] = this.#order.keys
    const slots = new Set<Slot>()
    for (const source of sources) yield* source.each(slot => slots.add(slot))
    const total = this.#snapshot.size - slots.size
    const { offset, count } = this.#windowOf(total)
    const positions: number[] = []
    for (const slot of slots) {
      positions.push(this.#ordering.positionOf(sortValue(this.#snapshot.entryOf(slot), key), slot))
    }
    yield slots.size
    positions.sort((left, right) => left - right)
    const excluded = positions.map(position => ({ from: position, to: position + 1 }))
    const rest = this.#at(gapsBetween(excluded, this.#snapshot.size))
    return { slots: yield* rest.take(offset, count), total }
  }

  #walk(): Plan | undefined {
    const total = this.#total
    const grouping = this.#order.keys.length > 1
    if (total === undefined || (grouping && this.#terms.length === 0)) return undefined
    const { offset, count } = this.#windowOf(total)
    const fromStart = offset + count
    const fromEnd = total - offset
    // With further keys whole groups are taken and sorted.
    const step = grouping ? walked * 4 : walked
    const steps = (Math.min(fromStart, fromEnd) / Math.max(1, total)) * this.#snapshot.size
    const forward = fromStart <= fromEnd
    return {
      name: 'walk',
      cost: steps * step,
      run: budget =>
        this.#walking(forward, forward ? offset : total - fromStart, count, total, budget / step),
    }
  }

  /** Follows the sort index from one end, and takes `count` of the objects that match after leaving out `skip`. */
  *#walking(
    forward: boolean,
    skip: number,
    count: number,
    total: number,
    maxSteps: number,
  ): Work<Found | undefined> {
    const slots: Slot[] = []
    let toSkip = skip
    const take = ({ slot }: Candidate) => {
      if (toSkip > 0) toSkip--
      else if (slots.length < count) slots.push(slot)
      return slots.length < count
    }
    if (!(yield* walk({ ...this.#whole(), forward, take }, maxSteps))) return undefined
    if (!forward) slots.reverse()
    return { slots, total }
  }

  #gather(): Plan | undefined {
    const source = this.#smallestSource()
    if (source === undefined) return undefined
    const { size } = source.members
    return {
      name: 'gather',
      cost: source.cost + this.#sortingCost(Math.min(size, this.#total ?? size)),
      run: () => this.#collecting(source),
    }
  }

  #scan(): Plan {
    return {
      name: 'scan',
      cost: this.#scanCost() + this.#sortingCost(this.#total ?? this.#most()),
      run: () => this.#collecting(undefined),
    }
  }

  *#collecting(source: Source | undefined): Work<Found> {
    const found = yield* this.#collect(source)
    const total = found.length
    const { offset, count } = this.#windowOf(total)
    return { slots: yield* orderedWindow(found, this.#order, this.#ordering, offset, count), total }
  }

  /** The objects that satisfy every term, out of those of one term or out of all. */
  *#collect(source: Source | undefined): Work<Candidate[]> {
    const found: Candidate[] = []
    const seen = source?.members.repeats ? new Set<Slot>() : undefined
    const terms = this.#terms.filter(term => term !== source?.term)
    const visit = (slot: Slot) => {
      if (seen?.has(slot)) return
      seen?.add(slot)
      const entry = this.#snapshot.entryOf(slot)
      for (const term of terms) if (!term.test(entry)) return
      found.push({ key: this.#order.keyOf(entry), slot })
    }
    const work =
      source === undefined
        ? eachOf(this.#snapshot.view(IndexSet.name).values, [{ from: 0, to: this.#snapshot.size }], visit)
        : source.members.each(visit)
    const each = testWorkOf(terms.length)
    for (const handled of work) yield handled * each
    return found
  }

  #whole() {
    return {
      snapshot: this.#snapshot,
      ordering: this.#ordering,
      order: this.#order,
      testWork: testWorkOf(this.#terms.length),
      matches: (entry: Entry) => {
        for (const term of this.#terms) if (!term.test(entry)) return false
        return true
      },
    }
  }

  /** The term with the cheapest objects. */
  #smallestSource(): Source | undefined {
    let smallest: Source | undefined
    for (const term of this.#terms) {
      const members = membersOf(this.#snapshot, term)
      if (members === undefined) continue
      const cost = members.size * (gathered + members.searches * search)
      if (cost < (smallest?.cost ?? Infinity)) smallest = { term, members, cost }
    }
    return smallest
  }

  #scanCost(): number {
    return this.#snapshot.size * scanned
  }

  /** The size of the smallest term, which bounds the result. */
  #most(): number {
    const { size } = this.#snapshot
    return Math.min(size, ...this.#terms.map(term => (term.negated ? size - term.inRuns : term.inRuns)))
  }

  #sortingCost(total: number): number {
    const { offset, count } = this.#windowOf(total)
    return windowCost(total, this.#order, this.#ordering, offset, count)
  }

  /** The objects of one term in the order of the only sort key, if ranks tell them. */
  #inTerm(term: Term): InOrder | undefined {
    const [key = byName] = this.#order.keys
    if (term.whole && term.tree === this.#ordering.tree) {
      const intervals = term.runs.map(({ from, to }) => {
        const position = this.#ordering.positionOfRun(from, to)
        return { from: position, to: position + to - from }
      })
      intervals.sort((left, right) => left.from - right.from)
      return this.#at(term.negated ? gapsBetween(intervals, this.#snapshot.size) : intervals)
    }
    const [run, ...more] = term.runs
    if (run === undefined || more.length > 0 || !term.inNameOrder) return undefined
    const total = countOf(term, this.#snapshot.size)
    // Backwards, objects of equal names in different namespaces would come in the wrong order.
    const isReversible = !this.#snapshot.indexes.isNamespaced
    if (key.index === IndexSet.name && total !== undefined && (isReversible || !key.descending)) {
      const complement = term.negated ? new Complement(this.#snapshot, term.tree, run) : undefined
      return {
        cost: complement === undefined ? taken : 2 * search * Math.log2(run.to - run.from + 2),
        take: (offset, count) => {
          const at = key.descending ? total - offset - count : offset
          return complement === undefined
            ? takeRun(term.tree, run.from + at, count, key.descending)
            : takeMissing(complement, at, count, key.descending)
        },
      }
    }
    return undefined
  }

  /** The objects at intervals of positions of the ordering; the intervals ascend. */
  #at(intervals: readonly Run[]): InOrder {
    return {
      cost: taken,
      take: (offset, count) => takeAt(this.#ordering, intervals, offset, count),
    }
  }
}

const byName: SortKey = Object.freeze({ index: IndexSet.name, descending: false })
const nameOrder = new SortOrder([byName])

/** One term as a way to the objects of all. */
interface Source {
  readonly term: Term
  readonly members: Members
  readonly cost: number
}

/** Objects of one value of the first key. */
interface Group extends Run {
  readonly value: string | undefined
}

/** Objects by position in the result; `cost` is for one of them. */
interface InOrder {
  readonly cost: number
  take(offset: number, count: number): Work<Slot[]>
}

/** Runs the cheapest plan that does not give up. */
export function* runPlans(plans: readonly Plan[]): Work<Found> {
  for (const [at, plan] of plans.entries()) {
    const next = plans[at + 1]
    const found = yield* plan.run(next === undefined ? Infinity : next.cost * planCosts.patience)
    if (found !== undefined) return found
  }
  return { slots: [], total: 0 }
}

function* nothing(total: number): Work<Found> {
  yield 0
  return { slots: [], total }
}

/** `count` objects from `offset` of those at the intervals of an ordering. */
function* takeAt(ordering: Ordering, intervals: readonly Run[], offset: number, count: number): Work<Slot[]> {
  const slots: Slot[] = []
  let skip = offset
  for (const { from, to } of intervals) {
    if (slots.length === count) break
    if (skip >= to - from) {
      skip -= to - from
      continue
    }
    const cursor = ordering.cursor(from + skip)
    for (let left = Math.min(to - from - skip, count - slots.length); left > 0; left--) {
      const { slot } = cursor
      if (slot !== undefined) slots.push(slot)
      cursor.next()
      if (slots.length % workDefaults.stride === 0) yield workDefaults.stride
    }
    skip = 0
  }
  yield slots.length % workDefaults.stride
  return slots
}

/** `count` objects of a tree from a rank on, or the same backwards. */
function* takeRun(tree: IndexTree, from: number, count: number, backwards: boolean): Work<Slot[]> {
  const slots: Slot[] = []
  yield* eachOf(tree, [{ from, to: from + count }], slot => slots.push(slot))
  return backwards ? slots.reverse() : slots
}

/** `count` of the missing objects from a position on, or the same backwards. */
function* takeMissing(complement: Complement, from: number, count: number, backwards: boolean): Work<Slot[]> {
  const slots: Slot[] = []
  for (let at = from; at < from + count; at++) {
    slots.push(complement.slotAt(at))
    yield complement.searches
  }
  return backwards ? slots.reverse() : slots
}

function* append(slots: Slot[], more: readonly Slot[]): Work<void> {
  for (const slot of more) {
    slots.push(slot)
    if (slots.length % workDefaults.stride === 0) yield workDefaults.stride
  }
}
