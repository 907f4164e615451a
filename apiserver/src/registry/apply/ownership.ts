import { compare } from './compare.ts'
import { covers, difference, type FieldSet, intersection, isEmpty, noFields, union } from './field-set.ts'
import type { FieldType } from './field-type.ts'
import { isSameManager, type Manager, type OwnedFields, ownedBy } from './managed-fields.ts'
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
  readonly entry: OwnedFields
  readonly fields: FieldSet
}

interface OwnedObject {
  readonly object: VersionedObject
  readonly entries: readonly OwnedFields[]
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
  /** The named fields of the objects of this write. */
  readonly #named = new Map<unknown, FieldSet>()

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
    entries: readonly OwnedFields[],
    apiVersion: string,
  ): { entries: readonly OwnedFields[]; taken: FieldSet } {
    const comparisons = new Comparisons(this.#versions, this.#writable, before, after)
    const { left } = this.#takeChanged(comparisons, this.#reconciled(entries))
    const own = comparisons.at(apiVersion)
    return { entries: left, taken: own?.changed ?? noFields }
  }

  /**
   * Merges a configuration into an object. Without `force`, conflicts leave the object as it is.
   * @param config.fields those that the configuration sets
   */
  apply(
    live: VersionedObject,
    config: VersionedObject & { readonly fields: FieldSet },
    entries: readonly OwnedFields[],
    applier: Manager,
    force: boolean,
  ): OwnedObject | { readonly conflicts: readonly Conflict[] } {
    const { apiVersion } = config
    const type = this.#versions.typeOf(apiVersion)
    if (type === undefined) throw new RangeError(`the kind has no version ${apiVersion}`)
    const reconciled = this.#reconciled(entries)
    const own = ownedBy(applier, this.#writable(config.fields))
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
    entries: readonly OwnedFields[],
  ): { left: OwnedFields[]; conflicts: Conflict[] } {
    const left: OwnedFields[] = []
    const conflicts: Conflict[] = []
    for (const entry of entries) {
      const differences = comparisons.at(entry.apiVersion)
      if (differences === undefined) continue
      const { changed, removed } = differences
      const taken = intersection(changed, entry.fields)
      if (!isEmpty(taken)) conflicts.push({ entry, fields: taken })
      const fields = difference(difference(entry.fields, taken), removed)
      if (!isEmpty(fields)) left.push(fields === entry.fields ? entry : { ...entry, fields })
    }
    return { left, conflicts }
  }

  #reconciled(entries: readonly OwnedFields[]): readonly OwnedFields[] {
    return entries.flatMap(entry => {
      const type = this.#versions.typeOf(entry.apiVersion)
      if (type === undefined) return []
      const fields = reconcile(type, entry.fields)
      return [fields === entry.fields ? entry : { ...entry, fields }]
    })
  }

  /** Removes the fields of the applier's last configuration that neither it nor another manager owns now. */
  #prune(
    merged: VersionedObject,
    last: OwnedFields,
    own: OwnedFields,
    others: readonly OwnedFields[],
  ): VersionedObject {
    if (last.apiVersion === own.apiVersion && covers(own.fields, last.fields)) return merged
    const type = this.#versions.typeOf(last.apiVersion)
    if (type === undefined) return merged
    // The live object lacks what the configuration adds.
    const versions = this.#versions.keepingFieldsOf(merged)
    const whole = versions.convert(merged, last.apiVersion)
    const lastFields = withNamedFields(type, last.fields)
    const bare = { ...whole, value: removeItems(type, whole.value, lastFields) }
    const owned = this.#withOwned(versions, whole, bare, [own, ...others])
    const kept = versions.convert(owned, last.apiVersion)
    const gone = difference(this.#namedFieldsOf(type, whole), this.#namedFieldsOf(type, kept))
    const pruned = removeItems(type, whole.value, intersection(gone, lastFields))
    return versions.convert({ ...whole, value: pruned }, own.apiVersion)
  }

  /** Returns `pruned` with the fields of `whole` that a manager owns, compared in each manager's version. */
  #withOwned(
    versions: Versions,
    whole: VersionedObject,
    pruned: VersionedObject,
    entries: readonly OwnedFields[],
  ): VersionedObject {
    // A conversion may need the fields that are owned in the version of the object.
    const owned = new Map<string, FieldSet>([[whole.apiVersion, noFields]])
    for (const { apiVersion, fields } of entries)
      owned.set(apiVersion, union(owned.get(apiVersion) ?? noFields, fields))
    let result = pruned
    for (const [apiVersion, fields] of owned) {
      const type = versions.typeOf(apiVersion)
      if (type === undefined) continue
      const all = versions.convert(whole, apiVersion)
      const kept = union(
        this.#namedFieldsOf(type, versions.convert(result, apiVersion)),
        withNamedFields(type, fields),
      )
      const surplus = difference(this.#namedFieldsOf(type, all), kept)
      result = { apiVersion, value: removeItems(type, all.value, surplus) }
    }
    return result
  }

  #namedFieldsOf(type: FieldType, { value }: VersionedObject): FieldSet {
    const known = this.#named.get(value)
    if (known !== undefined) return known
    const named = withNamedFields(type, fieldsOf(type, value))
    this.#named.set(value, named)
    return named
  }
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
