import type { CountedTreeView } from './counted-tree.ts'
import type { Entry } from './entry.ts'
import { type IndexSet, noValues } from './index-set.ts'
import { byName, largestOf, type NamesByValue, namesByValue, smallestOf } from './names-by-value.ts'

/** One index of a snapshot. An index of at most one value per object needs one tree, which then has all three roles. */
export interface IndexView {
  /** Every value of every object. In a single-value index the objects without one follow at the end. */
  readonly values: NamesByValue
  /** Each object once, by its smallest value, those without one at the end: the ascending order. */
  readonly smallest: NamesByValue
  /** Each object once, by its largest value, those without one at the end: read backwards, the descending order. */
  readonly largest: NamesByValue
}

/** The objects and all indexes of a model as they were at one moment. */
export class ModelSnapshot {
  readonly indexes: IndexSet
  /** Entries by name. */
  readonly objects: CountedTreeView<string, Entry>
  /** By position in `indexes`. */
  readonly views: readonly IndexView[]
  /** Pairs (label key, name). */
  readonly labelKeys: NamesByValue

  constructor(
    indexes: IndexSet,
    objects: CountedTreeView<string, Entry>,
    views: readonly IndexView[],
    labelKeys: NamesByValue,
  ) {
    this.indexes = indexes
    this.objects = objects
    this.views = views
    this.labelKeys = labelKeys
  }

  get size(): number {
    return this.objects.size
  }

  get(name: string): Entry | undefined {
    return this.objects.get(name)
  }

  /** @throws RangeError for a position that the model has not. */
  view(position: number): IndexView {
    const view = this.views[position]
    if (view === undefined) throw new RangeError(`no index at position ${position}`)
    return view
  }
}

/**
 * The objects of one model by name, with all their indexes. One writer; readers take snapshots.
 *
 * Guarantees: a write changes the objects and all indexes in one step; it touches only those indexes in which the
 * object's values differ; a snapshot is taken in time that depends on the number of indexes alone and never changes.
 */
export class ModelStore {
  readonly indexes: IndexSet
  readonly #objects = byName<Entry>()
  readonly #labelKeys = namesByValue()
  readonly #indexes: readonly Index[]
  #snapshot: ModelSnapshot | undefined

  constructor(indexes: IndexSet) {
    this.indexes = indexes
    this.#indexes = indexes.specs.map(spec =>
      spec.multiple ? new MultiValueIndex() : new SingleValueIndex(),
    )
  }

  get size(): number {
    return this.#objects.size
  }

  get(name: string): Entry | undefined {
    return this.#objects.get(name)
  }

  /**
   * Puts `next` in the place of `previous`; without `previous` adds it, without `next` removes.
   * @throws Error when `previous` is not what is stored: the indexes would no longer agree with the objects.
   */
  apply(next: Entry | undefined, previous: Entry | undefined): void {
    const name = next?.name ?? previous?.name
    if (name === undefined) return
    if (previous !== undefined && previous.name !== name) {
      throw new Error(`model store: ${previous.name} cannot become ${name}`)
    }
    if (this.#objects.get(name) !== previous) {
      throw new Error(`model store: ${name} is not what it is said to have been`)
    }
    this.#snapshot = undefined
    if (next === undefined) this.#objects.delete(name)
    else this.#objects.set(name, next)
    for (let position = 0; position < this.#indexes.length; position++) {
      const before = previous && (previous.values[position] ?? noValues)
      const after = next && (next.values[position] ?? noValues)
      if (before === after || (before && after && sameValues(before, after))) continue
      this.#indexes[position]?.change(name, before, after)
    }
    const labelsBefore = previous?.labels
    const labelsAfter = next?.labels
    if (labelsBefore === labelsAfter) return
    for (const key in labelsBefore) {
      if (labelsAfter === undefined || !Object.hasOwn(labelsAfter, key)) this.#labelKeys.delete(key, name)
    }
    for (const key in labelsAfter) {
      if (labelsBefore === undefined || !Object.hasOwn(labelsBefore, key)) this.#labelKeys.set(key, name)
    }
  }

  /** The present state. The same snapshot until the next write. */
  snapshot(): ModelSnapshot {
    this.#snapshot ??= new ModelSnapshot(
      this.indexes,
      this.#objects.snapshot(),
      this.#indexes.map(index => index.view()),
      this.#labelKeys.snapshot(),
    )
    return this.#snapshot
  }
}

interface Index {
  /** The object's values change; undefined where it does not exist before or after. */
  change(name: string, before: readonly string[] | undefined, after: readonly string[] | undefined): void
  view(): IndexView
}

class SingleValueIndex implements Index {
  readonly #tree = namesByValue()

  change(name: string, before: readonly string[] | undefined, after: readonly string[] | undefined): void {
    if (before !== undefined) this.#tree.delete(before[0], name)
    if (after !== undefined) this.#tree.set(after[0], name)
  }

  view(): IndexView {
    const tree = this.#tree.snapshot()
    return { values: tree, smallest: tree, largest: tree }
  }
}

class MultiValueIndex implements Index {
  readonly #values = namesByValue()
  readonly #smallest = namesByValue()
  readonly #largest = namesByValue()

  change(name: string, before: readonly string[] | undefined, after: readonly string[] | undefined): void {
    for (const value of before ?? noValues) if (!after?.includes(value)) this.#values.delete(value, name)
    for (const value of after ?? noValues) if (!before?.includes(value)) this.#values.set(value, name)
    this.#move(
      this.#smallest,
      name,
      before && { value: smallestOf(before) },
      after && { value: smallestOf(after) },
    )
    this.#move(
      this.#largest,
      name,
      before && { value: largestOf(before) },
      after && { value: largestOf(after) },
    )
  }

  #move(
    tree: ReturnType<typeof namesByValue>,
    name: string,
    before: { value: string | undefined } | undefined,
    after: { value: string | undefined } | undefined,
  ): void {
    if (before && after && before.value === after.value) return
    if (before) tree.delete(before.value, name)
    if (after) tree.set(after.value, name)
  }

  view(): IndexView {
    return {
      values: this.#values.snapshot(),
      smallest: this.#smallest.snapshot(),
      largest: this.#largest.snapshot(),
    }
  }
}

function sameValues(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false
  for (let at = 0; at < left.length; at++) if (left[at] !== right[at]) return false
  return true
}
