import { nameOfKey, type Selector } from '@setpoint/controller-runtime/api'
import type { CacheEvent, Entry } from '../cache/index.ts'
import { IndexSet, valuesAt } from '../model/index.ts'
import { boundsOf, boundValue } from '../query/index.ts'
import { type Audience, type Interest, interestKey } from './audience.ts'
import { RangeTable, type ValueRange } from './range-table.ts'

/**
 * How a change finds an audience: by one term that every selected object satisfies. Of several terms it is the one with
 * the fewest other audiences, so a common value in many selectors leads to few of them. A comparison is an anchor only
 * without a term that names values. An audience with only negative terms has no such term, and every change tests it.
 */
type Anchor =
  | { readonly by: 'name'; readonly name: string }
  | { readonly by: 'field'; readonly position: number; readonly values: readonly string[] }
  | { readonly by: 'label'; readonly key: string; readonly values: readonly string[] }
  | { readonly by: 'range'; readonly position: number; readonly range: ValueRange }
  | { readonly by: 'label key'; readonly key: string }
  | { readonly by: 'nothing' }

/** Audiences by the value of a term. A value that leads to one audience, as most do, has no set of its own. */
class ValueTable {
  readonly #audiences = new Map<string, Audience | Set<Audience>>()

  get isEmpty(): boolean {
    return this.#audiences.size === 0
  }

  add(value: string, audience: Audience): void {
    const known = this.#audiences.get(value)
    if (known === undefined) this.#audiences.set(value, audience)
    else if (known instanceof Set) known.add(audience)
    else if (known !== audience) this.#audiences.set(value, new Set([known, audience]))
  }

  delete(value: string, audience: Audience): void {
    const known = this.#audiences.get(value)
    if (known instanceof Set) known.delete(audience)
    if (known === audience || (known instanceof Set && known.size === 0)) this.#audiences.delete(value)
  }

  /** Visits the audiences of a value. */
  visit(value: string, visit: (audience: Audience) => void): void {
    const known = this.#audiences.get(value)
    if (known instanceof Set) known.forEach(visit)
    else if (known !== undefined) visit(known)
  }

  /** Number of audiences of a value. */
  count(value: string): number {
    const known = this.#audiences.get(value)
    return known instanceof Set ? known.size : known === undefined ? 0 : 1
  }
}

/**
 * The audiences of one model, and the way from a change to those it may concern. The cost of a change grows with the
 * audiences that the object's own name, labels and index values lead to, not with all audiences.
 */
export class AudienceIndex {
  readonly #indexes: IndexSet
  readonly #all = new Map<string, Audience>()
  /** The key and the anchor of each audience. */
  readonly #places = new Map<Audience, { readonly key: string; readonly anchor: Anchor }>()
  readonly #byName = new ValueTable()
  /** By position in the model's indexes. */
  readonly #byField = new Map<number, ValueTable>()
  readonly #byRange = new Map<number, RangeTable<Audience>>()
  readonly #byLabel = new Map<string, ValueTable>()
  readonly #byLabelKey = new ValueTable()
  readonly #asked = new Set<Audience>()

  constructor(indexes: IndexSet) {
    this.#indexes = indexes
  }

  get size(): number {
    return this.#all.size
  }

  [Symbol.iterator](): Iterator<Audience> {
    return this.#all.values()
  }

  /** Returns the audience of an interest, and makes it if it is missing. */
  ensure(interest: Interest, make: () => Audience): Audience {
    const key = interestKey(interest)
    const known = this.#all.get(key)
    if (known !== undefined) return known
    const audience = make()
    this.#all.set(key, audience)
    const anchor = this.#anchorOf(interest)
    this.#places.set(audience, { key, anchor })
    this.#change(anchor, audience, 'add')
    return audience
  }

  remove(audience: Audience): void {
    const place = this.#places.get(audience)
    if (place === undefined) return
    this.#places.delete(audience)
    this.#all.delete(place.key)
    this.#change(place.anchor, audience, 'delete')
  }

  /**
   * Visits once every audience that the change may concern. An anchor is one of several terms, so the audience decides.
   */
  visit(change: CacheEvent, visit: (audience: Audience) => void): void {
    const visitOnce = (audience: Audience) => {
      if (audience.seen === change) return
      audience.seen = change
      visit(audience)
    }
    this.#asked.forEach(visitOnce)
    // The previous content leads to the audiences that the object no longer matches.
    if (change.next !== undefined) this.#follow(change.next, visitOnce)
    if (change.previous !== undefined) this.#follow(change.previous, visitOnce)
  }

  #follow(entry: Entry, visit: (audience: Audience) => void): void {
    this.#byName.visit(entry.name, visit)
    for (const tables of [this.#byField, this.#byRange]) {
      for (const [position, table] of tables) {
        if (position === IndexSet.name) table.visit(entry.name, visit)
        else for (const value of valuesAt(entry, position)) table.visit(value, visit)
      }
    }
    if (this.#byLabel.size === 0 && this.#byLabelKey.isEmpty) return
    for (const key of Object.keys(entry.labels)) {
      this.#byLabelKey.visit(key, visit)
      this.#byLabel.get(key)?.visit(entry.labels[key] ?? '', visit)
    }
  }

  #change(anchor: Anchor, audience: Audience, change: 'add' | 'delete'): void {
    switch (anchor.by) {
      case 'name':
        this.#byName[change](anchor.name, audience)
        break
      case 'field':
        changeTable(this.#byField, anchor.position, anchor.values, audience, change)
        break
      case 'label':
        changeTable(this.#byLabel, anchor.key, anchor.values, audience, change)
        break
      case 'range': {
        const { position, range } = anchor
        const table = this.#byRange.get(position) ?? new RangeTable()
        this.#byRange.set(position, table)
        table[change](range, audience)
        if (table.isEmpty) this.#byRange.delete(position)
        break
      }
      case 'label key':
        this.#byLabelKey[change](anchor.key, audience)
        break
      case 'nothing':
        this.#asked[change](audience)
    }
  }

  #anchorOf({ key: object, selector: { labels, fields } }: Interest): Anchor {
    if (object !== undefined) return { by: 'name', name: nameOfKey(object) }
    const candidates: Anchor[] = []
    for (const { key, operator, values } of fields) {
      const position = this.#indexes.indexOf(key)
      if (operator === 'in' && position !== undefined) candidates.push({ by: 'field', position, values })
    }
    for (const { key, operator, values } of labels) {
      if (operator === 'in') candidates.push({ by: 'label', key, values })
    }
    const [first = this.#rangeOf(fields) ?? this.#withoutValues(labels), ...others] = candidates
    return others.reduce((best, other) => (this.#crowd(other) < this.#crowd(best) ? other : best), first)
  }

  /** A range that contains a value of every selected object. */
  #rangeOf(fields: Selector['fields']): Anchor | undefined {
    for (const [key, { lower, upper }] of boundsOf(fields)) {
      const position = this.#indexes.indexOf(key)
      if (position === undefined) continue
      const from = lower === undefined ? '' : boundValue(lower)
      const to = upper && boundValue(upper)
      // Of several values, one may satisfy the lower bound and another the upper one.
      const isJoint = to === undefined || !this.#indexes.specs[position]?.multiple
      return { by: 'range', position, range: { from: isJoint ? from : '', to } }
    }
    return undefined
  }

  #withoutValues(labels: Selector['labels']): Anchor {
    const key = labels.find(({ operator }) => ['exists', 'gt', 'lt'].includes(operator))?.key
    return key === undefined ? { by: 'nothing' } : { by: 'label key', key }
  }

  /** Audiences that the values of an anchor already lead to. */
  #crowd(anchor: Anchor): number {
    if (anchor.by !== 'field' && anchor.by !== 'label') return 0
    const table = anchor.by === 'field' ? this.#byField.get(anchor.position) : this.#byLabel.get(anchor.key)
    return anchor.values.reduce((sum, value) => sum + (table?.count(value) ?? 0), 0)
  }
}

function changeTable<K>(
  tables: Map<K, ValueTable>,
  key: K,
  values: readonly string[],
  audience: Audience,
  change: 'add' | 'delete',
): void {
  const table = tables.get(key) ?? new ValueTable()
  tables.set(key, table)
  for (const value of values) table[change](value, audience)
  if (table.isEmpty) tables.delete(key)
}
