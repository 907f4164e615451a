import {
  type AdmitLister,
  type AdmitListOptions,
  type ApiObject,
  type DeepReadonly,
  type KeysOf,
  type ListedModel,
  type ObjectKey,
  refuseBareName,
  refuseUnknownKeys,
  splitObjectKey,
} from '@setpoint/controller-runtime/api'
import type { Entry, LogFollower, ModelCache } from '../cache/index.ts'
import { freezeJson, IndexSet, type ModelRegistry, valuesAt } from '../model/index.ts'
import { notReady } from '../registry/index.ts'
import { type Actor, checkActor } from './actor.ts'

export const admitDefaults = Object.freeze({
  /** Objects that one run of an `admit` hook reads. */
  objects: 1_000,
  /** Bytes of them. To decode these takes some 20 ms, in which the server does nothing else. */
  bytes: 2 * 1024 * 1024,
})

const listKeys: KeysOf<AdmitListOptions> = { namespace: true, index: true }
const indexKeys: KeysOf<AdmitListOptions['index'] & object> = { name: true, value: true }

interface AdmitReadsParts {
  readonly models: ModelRegistry
  readonly follower: LogFollower
  /** The plugin, whose permissions count. */
  readonly actor: Actor
}

/** Reads other objects for one run of an `admit` hook, from this server's caches. */
export class AdmitReads implements AdmitLister {
  readonly #parts: AdmitReadsParts
  #objects = 0
  #bytes = 0

  constructor(parts: AdmitReadsParts) {
    this.#parts = parts
  }

  get<T extends ApiObject>(model: ListedModel<T>, key: ObjectKey): DeepReadonly<T> | undefined
  get(model: ListedModel, key: ObjectKey): unknown {
    refuseBareName(model, key)
    const { namespace, name } =
      model.scope === 'Namespaced' ? splitObjectKey(key) : { namespace: undefined, name: key }
    const cache = this.#cacheOf(model, 'get', namespace, name)
    this.#count(cache, 1)
    const entry = cache.store.get(key)
    return entry && this.#decode(cache, entry, model)
  }

  list<T extends ApiObject>(model: ListedModel<T>, options?: AdmitListOptions): readonly DeepReadonly<T>[]
  list(model: ListedModel, options: AdmitListOptions = {}): readonly unknown[] {
    refuseUnknownKeys(options, listKeys, 'the options of list')
    const { namespace, index } = options
    if (index !== undefined) refuseUnknownKeys(index, indexKeys, 'index of list')
    const cache = this.#cacheOf(model, 'list', namespace, undefined)
    const { indexes } = cache.served
    const terms: { readonly position: number; readonly value: string }[] = []
    if (index !== undefined) {
      const position = indexes.indexOf(index.name)
      if (position === undefined) throw new TypeError(`${cache.served.title} has no index ${index.name}`)
      terms.push({ position, value: index.value })
    }
    if (namespace !== undefined) {
      if (!indexes.isNamespaced) throw new TypeError(`${cache.served.title} are not in namespaces`)
      terms.push({ position: IndexSet.namespace, value: namespace })
    }
    return this.#entriesOf(cache, terms).map(entry => this.#decode(cache, entry, model))
  }

  /** Returns the entries that have all values, from the index where fewest have one. */
  #entriesOf(
    cache: ModelCache,
    terms: readonly { readonly position: number; readonly value: string }[],
  ): Entry[] {
    const snapshot = cache.store.snapshot()
    const ranges = terms.map(({ position, value }) => ({ position, ...snapshot.rangeOf(position, value) }))
    const [best] = ranges.sort((one, other) => one.to - one.from - (other.to - other.from))
    this.#count(cache, best === undefined ? snapshot.size : best.to - best.from)
    const found: Entry[] = []
    const visit = (entry: Entry) => {
      if (terms.every(({ position, value }) => valuesAt(entry, position).includes(value))) found.push(entry)
    }
    if (best === undefined) snapshot.objects.forEachValue(visit)
    else
      snapshot
        .view(best.position)
        .values.forEachValue(slot => visit(snapshot.entryOf(slot)), best.from, best.to)
    return found
  }

  /** @throws ApiError 403, 503; Error for a kind that is not served */
  #cacheOf(
    { group, version, plural }: ListedModel,
    verb: 'get' | 'list',
    namespace: string | undefined,
    name: string | undefined,
  ): ModelCache {
    const { models, follower, actor } = this.#parts
    const served = models.find(group, version, plural)
    if (served === undefined || served.review !== undefined)
      throw new TypeError(`nothing serves ${plural} of ${group}/${version}`)
    const target = { group, plural, namespace, name, subresource: undefined }
    checkActor(actor, actor.user, { verb, target, served })
    const cache = follower.cacheOf(served)
    if (follower.trouble !== undefined || cache === undefined || served.phase.name !== 'Started')
      throw notReady(served, follower.trouble ?? 'its objects are being read')
    return cache
  }

  #decode(cache: ModelCache, entry: Entry, model: ListedModel): unknown {
    const bytes = cache.bytesOf(entry, cache.served.versionAt(model))
    this.#bytes += bytes.length
    if (this.#bytes > admitDefaults.bytes)
      throw new RangeError(
        `admit reads more than ${admitDefaults.bytes} bytes: read fewer or smaller objects`,
      )
    return freezeJson(JSON.parse(bytes.toString()))
  }

  #count({ served }: ModelCache, objects: number): void {
    this.#objects += objects
    if (this.#objects > admitDefaults.objects)
      throw new RangeError(
        `admit reads ${this.#objects} objects, the last of them ${served.title}, and may read ${admitDefaults.objects}: list by an index that fewer objects share`,
      )
  }
}
