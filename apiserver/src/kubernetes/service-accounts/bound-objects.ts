import { ApiError, objectKey } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import type { Entry, LogFollower, ModelCache, ReadGate } from '../../cache/index.ts'
import { decodeWire, type ModelRegistry } from '../../model/index.ts'

/** An object that a token depends on: a service account or a Secret. */
export interface BoundObject {
  readonly plural: 'serviceaccounts' | 'secrets'
  readonly namespace: string
  readonly name: string
  /** An object that is created later with the same name has another one. */
  readonly uid: string
}

interface Parts {
  readonly models: ModelRegistry
  readonly follower: Pick<LogFollower, 'cacheOf' | 'trouble'>
  readonly gate: Pick<ReadGate, 'pass'>
}

/**
 * Says from the caches whether the objects exist that tokens depend on. One that is being deleted is absent, because a
 * finalizer would otherwise keep its tokens valid.
 */
export class BoundObjects {
  readonly #parts: Parts
  readonly #uids = new WeakMap<Entry, string | undefined>()
  readonly #observed = new WeakSet<ModelCache>()
  #changed: () => void = () => {}
  #isScheduled = false

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /**
   * Calls back after the deletion of objects has started, once for all of one turn. A second call replaces the
   * observer.
   */
  onDeleted(changed: () => void): void {
    this.#changed = changed
  }

  /** Returns `unknown` while the caches cannot say. */
  find({ plural, namespace, name, uid }: BoundObject): 'present' | 'absent' | 'unknown' {
    const { models, follower } = this.#parts
    const served = models.find('', 'v1', plural)
    const cache = served && follower.cacheOf(served)
    if (cache === undefined || follower.trouble !== undefined) return 'unknown'
    this.#observe(cache)
    const entry = cache.store.get(objectKey({ namespace, name }))
    return entry !== undefined && this.#uidOf(entry) === uid ? 'present' : 'absent'
  }

  /**
   * Confirms that objects exist. An absent one may be newer than the cache. Throws or rejects with ApiError 401 or 503.
   */
  confirm(objects: readonly BoundObject[]): void | Promise<void> {
    if (objects.every(object => this.find(object) === 'present')) return undefined
    return this.#confirmByStore(objects)
  }

  async #confirmByStore(objects: readonly BoundObject[]): Promise<void> {
    await this.#parts.gate.pass()
    for (const object of objects) {
      const found = this.find(object)
      if (found === 'present') continue
      const { plural, namespace, name } = object
      if (found === 'unknown')
        throw new ApiError('ServiceUnavailable', `cannot check the token: ${plural} are not served yet`, {
          retryAfterSeconds,
        })
      throw new ApiError('Unauthorized', `the token is invalid: ${plural} "${namespace}/${name}" is gone`)
    }
  }

  #observe(cache: ModelCache): void {
    if (this.#observed.has(cache)) return
    this.#observed.add(cache)
    cache.observe({
      changed: ({ previous, next }) => {
        if (previous !== undefined && (next === undefined || this.#uidOf(next) !== this.#uidOf(previous)))
          this.#schedule()
      },
      reset: () => this.#schedule(),
    })
  }

  /** A deleted namespace deletes many objects. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#changed()
    })
  }

  /** Returns undefined for an object that is being deleted. */
  #uidOf(entry: Entry): string | undefined {
    if (this.#uids.has(entry)) return this.#uids.get(entry)
    const { uid, deletionTimestamp } = decodeWire(entry.bytes).metadata
    const present = deletionTimestamp === undefined ? uid : undefined
    this.#uids.set(entry, present)
    return present
  }
}
