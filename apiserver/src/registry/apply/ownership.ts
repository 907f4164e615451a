import type { ManagedFieldsEntry } from '@setpoint/controller-runtime/api'
import { compare } from './compare.ts'
import { covers, difference, type FieldSet, intersection, isEmpty, noFields, union } from './field-set.ts'
import type { FieldType } from './field-type.ts'
import { entryOf, isSameManager, type Manager } from './managed-fields.ts'
import { merge } from './merge.ts'
import { reconcile } from './reconcile.ts'
import { removeItems, withNamedFields, withoutEmptied } from './remove-items.ts'
import { fieldsOf } from './to-field-set.ts'

/** An object in one of its versions, without managed fields. */
export interface VersionedObject {
  readonly apiVersion: string
  readonly value: unknown
}

/** The versions of a kind. */
export interface Versions {
  /** Returns undefined if the kind no longer has the version. */
  typeOf(apiVersion: string): FieldType | undefined
  /** Converts an object between two versions that the kind has. */
  convert(object: VersionedObject, apiVersion: string): VersionedObject
  /** Returns the versions with conversions that keep the fields of this object which only the hub has. */
  keepingFieldsOf(object: VersionedObject): Versions
}

/** Fields that another manager owns, and that an apply would change. */
export interface Conflict {
  readonly entry: ManagedFieldsEntry
  readonly fields: FieldSet
}

interface OwnedObject {
  readonly object: VersionedObject
  readonly entries: readonly ManagedFieldsEntry[]
}

/**
 * Who owns which field after a write. The rules are those of `merge/update.go` of structured-merge-diff:
 *
 * - A writer that changes a field takes it from all others. A field that is removed has no owner.
 * - An applier owns the fields of its configuration, and shares those that others own with the same value. If it would
 *   change a field of another manager, that is a conflict, unless it forces the change.
 * - A field that an applier no longer names is removed, unless another manager owns it.
 */
export class Ownership {
  readonly #versions: Versions
  /** Leaves out the fields that the write cannot change. */
  readonly #writable: (set: FieldSet) => FieldSet

  constructor(versions: Versions, writable: (set: FieldSet) => FieldSet) {
    this.#versions = versions
    this.#writable = writable
  }

  /**
   * Returns the entries after a write that is not an apply, and the fields that its writer now owns.
   * @param apiVersion the version of the request
   */
  update(
    before: VersionedObject,
    after: VersionedObject,
    entries: readonly ManagedFieldsEntry[],
    apiVersion: string,
  ): { entries: readonly ManagedFieldsEntry[]; taken: FieldSet } {
    const comparisons = new Comparisons(this.#versions, this.#writable, before, after)
    const { left } = this.#takeChanged(comparisons, this.#reconciled(entries))
    const own = comparisons.at(apiVersion)
    return { entries: left, taken: own?.changed ?? noFields }
  }

  /** Merges a configuration into an object. Without `force`, conflicts leave the object as it is. */
  apply(
    live: VersionedObject,
    config: VersionedObject,
    entries: readonly ManagedFieldsEntry[],
    applier: Manager,
    force: boolean,
  ): OwnedObject | { readonly conflicts: readonly Conflict[] } {
    const { apiVersion } = config
    const type = this.#versions.typeOf(apiVersion)
    if (type === undefined) throw new RangeError(`the kind has no version ${apiVersion}`)
    const reconciled = this.#reconciled(entries)
    const fields = this.#writable(fieldsOf(type, config.value))
    const own = entryOf(applier, fields)
    const others = reconciled.filter(entry => !isSameManager(entry, applier))
    const last = reconciled.find(entry => isSameManager(entry, applier))
    const merged = { apiVersion, value: merge(type, live.value, config.value) }
    const object = last === undefined ? merged : this.#prune(merged, last, own, others)
    const comparisons = new Comparisons(this.#versions, this.#writable, live, object)
    const { left, conflicts } = this.#takeChanged(comparisons, others)
    if (conflicts.length > 0 && !force) return { conflicts }
    return {
      object: object === merged ? merged : { apiVersion, value: withoutEmptied(object.value) },
      entries: [...left, own],
    }
  }

  /** Takes changed and removed fields from their owners. Drops the entries of versions that are gone. */
  #takeChanged(
    comparisons: Comparisons,
    entries: readonly ManagedFieldsEntry[],
  ): { left: ManagedFieldsEntry[]; conflicts: Conflict[] } {
    const left: ManagedFieldsEntry[] = []
    const conflicts: Conflict[] = []
    for (const entry of entries) {
      const differences = comparisons.at(entry.apiVersion)
      if (differences === undefined) continue
      const { changed, removed } = differences
      const taken = intersection(changed, entry.fieldsV1)
      if (!isEmpty(taken)) conflicts.push({ entry, fields: taken })
      const fieldsV1 = difference(difference(entry.fieldsV1, taken), removed)
      if (!isEmpty(fieldsV1)) left.push(fieldsV1 === entry.fieldsV1 ? entry : { ...entry, fieldsV1 })
    }
    return { left, conflicts }
  }

  #reconciled(entries: readonly ManagedFieldsEntry[]): readonly ManagedFieldsEntry[] {
    return entries.flatMap(entry => {
      const type = this.#versions.typeOf(entry.apiVersion)
      if (type === undefined) return []
      const fieldsV1 = reconcile(type, entry.fieldsV1)
      return [fieldsV1 === entry.fieldsV1 ? entry : { ...entry, fieldsV1 }]
    })
  }

  /** Removes the fields of the applier's last configuration that neither it nor another manager owns now. */
  #prune(
    merged: VersionedObject,
    last: ManagedFieldsEntry,
    own: ManagedFieldsEntry,
    others: readonly ManagedFieldsEntry[],
  ): VersionedObject {
    if (last.apiVersion === own.apiVersion && covers(own.fieldsV1, last.fieldsV1)) return merged
    const type = this.#versions.typeOf(last.apiVersion)
    if (type === undefined) return merged
    // The live object lacks what the configuration adds.
    const versions = this.#versions.keepingFieldsOf(merged)
    const whole = versions.convert(merged, last.apiVersion)
    const lastFields = withNamedFields(type, last.fieldsV1)
    const bare = { ...whole, value: removeItems(type, whole.value, lastFields) }
    const owned = this.#withOwned(versions, whole, bare, [own, ...others])
    const kept = versions.convert(owned, last.apiVersion)
    const gone = difference(namedFieldsOf(type, whole), namedFieldsOf(type, kept))
    const pruned = removeItems(type, whole.value, intersection(gone, lastFields))
    return versions.convert({ ...whole, value: pruned }, own.apiVersion)
  }

  /** Returns `pruned` with the fields of `whole` that a manager owns, compared in each manager's version. */
  #withOwned(
    versions: Versions,
    whole: VersionedObject,
    pruned: VersionedObject,
    entries: readonly ManagedFieldsEntry[],
  ): VersionedObject {
    // A conversion may need the fields that are owned in the version of the object.
    const owned = new Map<string, FieldSet>([[whole.apiVersion, noFields]])
    for (const { apiVersion, fieldsV1 } of entries)
      owned.set(apiVersion, union(owned.get(apiVersion) ?? noFields, fieldsV1))
    let result = pruned
    for (const [apiVersion, fields] of owned) {
      const type = versions.typeOf(apiVersion)
      if (type === undefined) continue
      const all = versions.convert(whole, apiVersion)
      const kept = union(
        namedFieldsOf(type, versions.convert(result, apiVersion)),
        withNamedFields(type, fields),
      )
      result = { apiVersion, value: removeItems(type, all.value, difference(namedFieldsOf(type, all), kept)) }
    }
    return result
  }
}

function namedFieldsOf(type: FieldType, { value }: VersionedObject): FieldSet {
  return withNamedFields(type, fieldsOf(type, value))
}

/** The fields that a write changes, and those that it removes. */
interface Differences {
  /** Added or modified. */
  readonly changed: FieldSet
  readonly removed: FieldSet
}

/** The differences of two objects in each version that is asked for. */
class Comparisons {
  readonly #versions: Versions
  readonly #writable: (set: FieldSet) => FieldSet
  readonly #before: VersionedObject
  readonly #after: VersionedObject
  readonly #known = new Map<string, Differences>()

  constructor(
    versions: Versions,
    writable: (set: FieldSet) => FieldSet,
    before: VersionedObject,
    after: VersionedObject,
  ) {
    this.#versions = versions
    this.#writable = writable
    this.#before = before
    this.#after = after
  }

  /** Returns undefined if the kind no longer has the version. */
  at(apiVersion: string): Differences | undefined {
    const known = this.#known.get(apiVersion)
    if (known !== undefined) return known
    const type = this.#versions.typeOf(apiVersion)
    if (type === undefined) return undefined
    const before = this.#versions.convert(this.#before, apiVersion)
    const after = this.#versions.convert(this.#after, apiVersion)
    const { added, modified, removed } = compare(type, before.value, after.value)
    const differences = {
      changed: this.#writable(union(added, modified)),
      removed: this.#writable(removed),
    }
    this.#known.set(apiVersion, differences)
    return differences
  }
}
