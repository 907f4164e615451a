import { defaultIndexes } from '../api/default-indexes.ts'
import type { IndexDeclaration, IndexSpec } from '../api/index-spec.ts'
import type { Model } from '../api/model.ts'
import type { ApiObject } from '../api/object.ts'
import { type ObjectKey, objectKey } from '../api/object-key.ts'
import { compareVersions } from '../api/version.ts'

/** A difference of one object between two states of a store. `before` or `after` is defined, or both. */
export interface Change<T extends ApiObject = ApiObject> {
  readonly key: ObjectKey
  readonly before: T | undefined
  readonly after: T | undefined
  /** The last known state; for a deleted object, the state in its deletion event. */
  readonly last: T
}

/**
 * Objects by key and by index: the model's indexes, the default ones, and added ones.
 *
 * An index is built at its first use and maintained from then on. If the index function throws for an object, it has no
 * entry in it.
 */
export class Store<T extends ApiObject = ApiObject> {
  readonly #kind: string
  readonly #specs: Map<string, IndexSpec<T>>
  #objects = new Map<string, T>()
  readonly #indexes = new Map<string, StoreIndex<T>>()

  constructor(model: Model<T>) {
    this.#kind = model.kind
    this.#specs = new Map([...defaultIndexes(model.scope), ...model.indexes].map(spec => [spec.name, spec]))
  }

  get size(): number {
    return this.#objects.size
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key)
  }

  /** Returns all objects, in no particular order. */
  list(): T[] {
    return [...this.#objects.values()]
  }

  /** @throws TypeError if another index has that name. */
  addIndex(index: IndexDeclaration<T>): void {
    const spec = index()
    if (this.addIndexes([spec])) return
    throw new TypeError(`${this.#kind} has another index ${JSON.stringify(spec.name)}`)
  }

  /** Adds the indexes that are missing. Returns false, and adds none, if another index has the name of one of them. */
  addIndexes(specs: readonly IndexSpec<T>[]): boolean {
    if (specs.some(spec => (this.#specs.get(spec.name) ?? spec) !== spec)) return false
    for (const spec of specs) this.#specs.set(spec.name, spec)
    return true
  }

  /**
   * Returns the objects with the given value in an index.
   * @throws TypeError if there is no such index.
   */
  byIndex(name: string, value: string): T[] {
    const found: T[] = []
    for (const key of this.#index(name).keys(value)) {
      const object = this.#objects.get(key)
      if (object !== undefined) found.push(object)
    }
    return found
  }

  /** Adds or replaces an object. Returns undefined if the version is already stored. */
  put(object: T): Change<T> | undefined {
    const { version } = object.metadata
    const key = objectKey(object.metadata)
    const before = this.#objects.get(key)
    if (before !== undefined && compareVersions(before.metadata.version, version) === 0) return undefined
    this.#objects.set(key, object)
    for (const index of this.#indexes.values()) index.update(before, object)
    return { key, before, after: object, last: object }
  }

  /** Removes an object; `last` is the state in its deletion event. Returns undefined if there is no such object. */
  delete(last: T): Change<T> | undefined {
    const key = objectKey(last.metadata)
    const before = this.#objects.get(key)
    if (before === undefined) return undefined
    this.#objects.delete(key)
    for (const index of this.#indexes.values()) index.update(before, undefined)
    return { key, before, after: undefined, last }
  }

  /** Replaces all objects in one step. Returns the differences: deletions first, then additions and updates. */
  replace(objects: readonly T[]): Change<T>[] {
    const previous = this.#objects
    const next = new Map<string, T>()
    for (const object of objects) next.set(objectKey(object.metadata), object)
    const changes: Change<T>[] = []
    for (const [key, before] of previous) {
      if (!next.has(key)) changes.push({ key, before, after: undefined, last: before })
    }
    for (const [key, after] of next) {
      const before = previous.get(key)
      if (before !== undefined && isSame(before, after)) next.set(key, before)
      else changes.push({ key, before, after, last: after })
    }
    this.#objects = next
    for (const index of this.#indexes.values()) {
      for (const { before, after } of changes) index.update(before, after)
    }
    return changes
  }

  #index(name: string): StoreIndex<T> {
    const known = this.#indexes.get(name)
    if (known !== undefined) return known
    const spec = this.#specs.get(name)
    if (spec === undefined) {
      throw new TypeError(`${this.#kind} has no index ${JSON.stringify(name)}`)
    }
    const index = new StoreIndex(spec)
    for (const object of this.#objects.values()) index.update(undefined, object)
    this.#indexes.set(name, index)
    return index
  }
}

/** The uid matters too: a restored store may reuse a version for another object. */
function isSame(left: ApiObject, right: ApiObject): boolean {
  return (
    left.metadata.uid === right.metadata.uid &&
    compareVersions(left.metadata.version, right.metadata.version) === 0
  )
}

class StoreIndex<T extends ApiObject> {
  readonly #spec: IndexSpec<T>
  /** The keys of each value. A Set only for several; most values have one. */
  readonly #keys = new Map<string, ObjectKey | Set<ObjectKey>>()

  constructor(spec: IndexSpec<T>) {
    this.#spec = spec
  }

  keys(value: string): Iterable<ObjectKey> {
    const keys = this.#keys.get(value)
    return keys === undefined ? [] : typeof keys === 'string' ? [keys] : keys
  }

  update(before: T | undefined, after: T | undefined): void {
    if (before !== undefined) {
      for (const value of this.#safeValues(before)) this.#remove(value, objectKey(before.metadata))
    }
    if (after !== undefined) {
      for (const value of this.#safeValues(after)) this.#add(value, objectKey(after.metadata))
    }
  }

  #add(value: string, key: ObjectKey): void {
    const keys = this.#keys.get(value)
    if (keys === undefined) this.#keys.set(value, key)
    else if (typeof keys !== 'string') keys.add(key)
    else if (keys !== key) this.#keys.set(value, new Set([keys, key]))
  }

  #remove(value: string, key: ObjectKey): void {
    const keys = this.#keys.get(value)
    if (keys === key) this.#keys.delete(value)
    else if (typeof keys === 'object' && keys.delete(key) && keys.size === 0) this.#keys.delete(value)
  }

  #safeValues(object: T): readonly string[] {
    try {
      return this.#spec.valuesOf(object)
    } catch {
      // The server reports such objects; they can be found by key only.
      return []
    }
  }
}
