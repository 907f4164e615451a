import { ApiError } from '@setpoint/controller-runtime/api'
import { retryAfterSeconds } from '@setpoint/controller-runtime/internal'
import type { CacheEvent, Entry, LogFollower } from '../../cache/index.ts'
import { decodeWire, Quantity, type ServedModel } from '../../model/index.ts'
import { type NamespaceGrowth, notReady } from '../../registry/index.ts'
import { recordOf, textOf } from '../fields.ts'
import type { Bound, BoundSource, Measure } from './bounded-namespaces.ts'
import { countNamesOf, type QuotaUsage } from './quota-usage.ts'

interface Limit {
  readonly value: number
  readonly text: string
}

/** A ResourceQuota. */
export interface Quota {
  readonly entry: Entry
  readonly namespace: string
  readonly uid: string
  /** By name: `count/configmaps`. */
  readonly hard: ReadonlyMap<string, Limit>
  readonly status: unknown
}

const none: readonly Bound[] = Object.freeze([])

/** The limits of the ResourceQuotas, which it follows. In a namespace without any, a write costs one look-up. */
export class QuotaBounds implements BoundSource {
  readonly usage: QuotaUsage
  /** By namespace, then by name. */
  readonly #quotas = new Map<string, Map<string, Quota>>()
  #isComplete = false

  constructor(usage: QuotaUsage) {
    this.usage = usage
  }

  /** Follows the cache of the quotas, which must be complete. Returns a function that ends it. */
  follow(kind: ServedModel, follower: Pick<LogFollower, 'cacheOf'>): () => void {
    const cache = follower.cacheOf(kind)
    if (cache === undefined) throw new Error(`${kind.title} has no cache`)
    const reset = () => {
      this.#quotas.clear()
      cache.store.snapshot().objects.forEachValue(entry => this.#set(entry))
    }
    const changed = ({ next, previous }: CacheEvent) => {
      if (next !== undefined) this.#set(next)
      else if (previous !== undefined) this.#remove(previous)
    }
    reset()
    this.#isComplete = true
    return cache.observe({ changed, reset })
  }

  /** All quotas. */
  *all(): Generator<Quota> {
    for (const quotas of this.#quotas.values()) yield* quotas.values()
  }

  boundsOf(namespace: string, growth: NamespaceGrowth): readonly Bound[] {
    if (!this.#isComplete)
      throw new ApiError('ServiceUnavailable', 'the quotas of the namespace are being read', {
        retryAfterSeconds,
      })
    const quotas = this.#quotas.get(namespace)
    if (quotas === undefined) return none
    const measures = this.#measuresOf(namespace, growth)
    return [...quotas].flatMap(([name, { hard }]) => {
      const limited = measures.flatMap(measure => {
        const limit = hard.get(measure.name)
        return limit === undefined ? [] : [{ ...measure, limit: limit.value, limitText: limit.text }]
      })
      return limited.length === 0 ? [] : [{ title: `quota: ${name}`, measures: limited }]
    })
  }

  #measuresOf(
    namespace: string,
    { served, previous, bytes }: NamespaceGrowth,
  ): Omit<Measure, 'limit' | 'limitText'>[] {
    const objects = () => {
      const counted = this.usage.objectsIn(namespace, served)
      if (counted === undefined) throw notReady(served, 'its objects are being read')
      return counted
    }
    const counts =
      previous === undefined ? countNamesOf(served).map(name => ({ name, requested: 1, used: objects })) : []
    const requested = this.usage.countsBytesOf(served) ? bytes() : 0
    if (requested <= 0) return counts
    return [...counts, { name: this.usage.bytesName, requested, used: () => this.usage.bytesIn(namespace) }]
  }

  #set(entry: Entry): void {
    const { namespace, name } = entry
    if (namespace === undefined) return
    const inNamespace = this.#quotas.get(namespace) ?? new Map<string, Quota>()
    const { metadata, spec, status } = decodeWire(entry.bytes)
    const quota = { entry, namespace, uid: metadata.uid, hard: limitsOf(recordOf(spec).hard), status }
    this.#quotas.set(namespace, inNamespace.set(name, quota))
  }

  #remove({ namespace = '', name }: Entry): void {
    const inNamespace = this.#quotas.get(namespace)
    inNamespace?.delete(name)
    if (inNamespace?.size === 0) this.#quotas.delete(namespace)
  }
}

/** Ignores what validation would refuse. */
function limitsOf(hard: unknown): Map<string, Limit> {
  const limits = new Map<string, Limit>()
  for (const [name, value] of Object.entries(recordOf(hard))) {
    const text = textOf(value)
    const quantity = Quantity.parse(text)
    if (quantity !== undefined) limits.set(name, { value: Number(quantity.whole), text })
  }
  return limits
}
