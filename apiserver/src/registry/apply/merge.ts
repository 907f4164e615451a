import { isRecord } from '@setpoint/controller-runtime/api'
import { setOwn } from '../../model/index.ts'
import {
  type FieldType,
  formOf,
  itemElement,
  type ListType,
  type MapType,
  typeOfField,
} from './field-type.ts'
import type { PathElement } from './path-element.ts'
import { isEmptyMap } from './to-field-set.ts'

/**
 * Returns `live` with the fields that `config` sets; removes none. The result shares parts with both. Items of a list
 * keep the order of `live`; those that `config` names follow its order, and new ones come where it puts them. From
 * `typed/merge.go` of structured-merge-diff.
 */
export function merge(type: FieldType, live: unknown, config: unknown): unknown {
  if (config === undefined) return live
  if (live === undefined) return config
  const form = formOf(type, config)
  if (form === 'map' && type.map !== undefined) return mergeMaps(type.map, live, config)
  if (form === 'list' && type.list !== undefined) return mergeLists(type.list, live, config)
  return config
}

function mergeMaps(type: MapType, live: unknown, config: unknown): unknown {
  const base = isRecord(live) ? live : {}
  const wanted = isRecord(config) ? config : {}
  if (type.isAtomic || (isEmptyMap(base) && isEmptyMap(wanted))) return config
  const result: Record<string, unknown> = {}
  for (const name in base) {
    const value = base[name]
    const other = Object.hasOwn(wanted, name) ? wanted[name] : undefined
    setOwn(result, name, merge(typeOfField(type, name), value, other))
  }
  for (const name in wanted) {
    const value = wanted[name]
    if (value !== undefined && !Object.hasOwn(base, name)) setOwn(result, name, value)
  }
  return result
}

function mergeLists(type: ListType, live: unknown, config: unknown): unknown {
  const base: readonly unknown[] = Array.isArray(live) ? live : []
  const wanted: readonly unknown[] = Array.isArray(config) ? config : []
  if (type.kind === 'atomic' || (base.length === 0 && wanted.length === 0)) return config
  return new ListMerge(type, base, wanted).result()
}

/** Merges two lists of type set or map. `wanted` has no duplicates. */
class ListMerge {
  readonly #type: ListType
  readonly #base: readonly unknown[]
  readonly #elements: readonly PathElement[]
  readonly #wanted: readonly (readonly [PathElement, unknown])[]
  readonly #wantedElements: ReadonlySet<PathElement>
  /** Items of `base`, or undefined where several have one element: these give way to the wanted one. */
  readonly #baseItems = new Map<PathElement, unknown>()
  readonly #merged: unknown[] = []

  constructor(type: ListType, base: readonly unknown[], wanted: readonly unknown[]) {
    this.#type = type
    this.#base = base
    this.#elements = base.map(item => itemElement(type, item))
    this.#wanted = wanted.map(item => [itemElement(type, item), item] as const)
    this.#wantedElements = new Set(this.#wanted.map(([element]) => element))
    for (const [index, element] of this.#elements.entries())
      this.#baseItems.set(element, this.#baseItems.has(element) ? undefined : base[index])
  }

  /**
   * Walks both lists at once. An item that only `base` has keeps its place. Of the items that both have, the next one
   * in the order of `wanted` waits for its turn in `base`, together with the new ones before it.
   */
  result(): unknown[] {
    const shared = this.#wanted.map(([element]) => element).filter(element => this.#baseItems.has(element))
    const taken = new Set<PathElement>()
    let nextShared = 0
    let at = 0
    let wantedAt = 0
    const takeWanted = () => {
      const next = this.#wanted[wantedAt++]
      if (next === undefined) return
      const [element, item] = next
      taken.add(element)
      if (shared[nextShared] === element) nextShared++
      this.#merged.push(merge(this.#type.items, this.#baseItems.get(element), item))
    }
    while (at < this.#elements.length || wantedAt < this.#wanted.length) {
      const element = this.#elements[at]
      const wanted = this.#wanted[wantedAt]?.[0]
      if (element !== undefined && wanted !== undefined) {
        if (element === wanted) {
          at++
          takeWanted()
          continue
        }
        const waitsFor = shared[nextShared]
        if (this.#wantedElements.has(element) && waitsFor !== undefined && waitsFor !== element) {
          at++
          continue
        }
      }
      if (element !== undefined) {
        if (!this.#wantedElements.has(element)) {
          this.#merged.push(this.#base[at++])
          continue
        }
        if (taken.has(element)) at++
      }
      takeWanted()
    }
    return this.#merged
  }
}
