import {
  type Candidate,
  type Entry,
  type IndexTree,
  type ModelSnapshot,
  type Slot,
  type SortKey,
  type SortOrder,
  sorted,
} from '../cache/for-query.ts'
import { IndexSet } from '../model/index.ts'
import { type Work, workDefaults } from '../scheduling/index.ts'
import { planCosts, sortCost } from './costs.ts'
import { testWorkOf } from './match.ts'
import { eachOf, gapsBetween, type Members, membersOf } from './members.ts'
import { Ordering } from './ordering.ts'
import { countOf, type Run, type Term } from './terms.ts'
import { walk } from './walk.ts'
import { orderedWindow, windowCost } from './window.ts'

/** Some of the objects of a result in its order, and the number of all. */
export interface Found {
  readonly slots: readonly Slot[]
  readonly total: number
}

/** The wanted items, as positions in the whole result, once its size is known. */
type WindowOf = (total: number) => { readonly offset: number; readonly count: number }

/** One way to run a query. All ways give the same result. */
export interface Plan {
  readonly name: 'ranks' | 'walk' | 'gather' | 'scan'
  /** Expected cost in microseconds, to compare with that of other plans. */
  readonly cost: number
  /** Returns the result, or undefined if it turns out to cost more than `budget`. */
  run(budget: number): Work<Found | undefined>
}

const { taken, scanned, walked, gathered } = planCosts

/**
 * A page of the objects that satisfy every term, sorted, and the ways to it.
 *
 *     ranks     positions alone: no term, or one term that the sort index or the order of names knows about
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
    const plans = [this.#ranks(), this.#walk(), this.#gather(), this.#scan()]
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
    const take = term === undefined ? this.#at([{ from: 0, to: total }]) : this.#inTerm(term)
    if (take === undefined) return undefined
    return {
      name: 'ranks',
      cost: count * taken,
      *run() {
        return { slots: yield* take(offset, count), total }
      },
    }
  }

  #walk(): Plan | undefined {
    const total = this.#total
    if (total === undefined) return undefined
    const { offset, count } = this.#windowOf(total)
    const fromStart = offset + count
    const fromEnd = total - offset
    const forward = fromStart <= fromEnd
    const share = Math.min(fromStart, fromEnd) / Math.max(1, total)
    const { steps, step } = this.#walkedBy(share * this.#snapshot.size, forward)
    return {
      name: 'walk',
      cost: steps * step,
      run: budget =>
        this.#walking(forward, forward ? offset : total - fromStart, count, total, budget / step),
    }
  }

  /** Steps along the sort index that `wanted` take, and the cost of one: with further keys, whole groups are sorted. */
  #walkedBy(wanted: number, forward: boolean): { steps: number; step: number } {
    const { size } = this.#snapshot
    const last = Math.min(size, Math.ceil(wanted))
    if (this.#order.keys.length === 1 || last === 0) return { steps: wanted, step: walked }
    const { from, to, position } = this.#ordering.runAt(forward ? last - 1 : size - last)
    const group = to - from
    const steps = forward ? position + group : size - position
    return { steps, step: walked + sortCost(group) / group }
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
      const members = membersOf(term)
      if (members === undefined) continue
      const cost = members.size * gathered
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
  #inTerm(term: Term): Take | undefined {
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
    if (run === undefined || more.length > 0 || term.negated || !term.inNameOrder) return undefined
    const total = countOf(term, this.#snapshot.size)
    // Backwards, objects of equal names in different namespaces would come in the wrong order.
    const isReversible = !this.#snapshot.indexes.isNamespaced
    if (key.index === IndexSet.name && total !== undefined && (isReversible || !key.descending)) {
      return (offset, count) => {
        const at = key.descending ? total - offset - count : offset
        return takeRun(term.tree, run.from + at, count, key.descending)
      }
    }
    return undefined
  }

  /** The objects at intervals of positions of the ordering; the intervals ascend. */
  #at(intervals: readonly Run[]): Take {
    return (offset, count) => takeAt(this.#ordering, intervals, offset, count)
  }
}

const byName: SortKey = Object.freeze({ index: IndexSet.name, descending: false })

/** One term as a way to the objects of all. */
interface Source {
  readonly term: Term
  readonly members: Members
  readonly cost: number
}

/** Takes objects by position in the result. */
type Take = (offset: number, count: number) => Work<Slot[]>

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
