import type { LogFollower, ModelCache, NamespaceUsage } from '../../cache/index.ts'
import type { ServedModel } from '../../model/index.ts'

/** The kinds of the core group that Kubernetes counts by their plural, too. */
const plainNames: ReadonlySet<string> = new Set(['configmaps', 'secrets', 'resourcequotas'])

/** Returns the names under which quotas count the objects of a kind, as in Kubernetes. */
export function countNamesOf({ model: { group, plural } }: ServedModel): string[] {
  if (group !== '') return [`count/${plural}.${group}`]
  return plainNames.has(plural) ? [`count/${plural}`, plural] : [`count/${plural}`]
}

/** Counts what namespaces hold, by the caches. Objects of kinds that are not served now do not count. */
export class QuotaUsage {
  readonly #follower: Pick<LogFollower, 'cacheOf' | 'caches'>
  readonly #quotas: ServedModel
  /** The name of the bytes of all objects. */
  readonly bytesName: string

  constructor(parts: {
    follower: Pick<LogFollower, 'cacheOf' | 'caches'>
    quotas: ServedModel
    reservedDomain: string
  }) {
    this.#follower = parts.follower
    this.#quotas = parts.quotas
    this.bytesName = `${parts.reservedDomain}/bytes`
  }

  /** Returns true if the bytes of a kind count. Those of quotas do not: their status would change what it tells. */
  countsBytesOf({ resource }: ServedModel): boolean {
    return resource !== this.#quotas.resource
  }

  /** Returns the bytes of the objects in a namespace. */
  bytesIn(namespace: string): number {
    let bytes = 0
    for (const cache of this.#caches())
      if (this.countsBytesOf(cache.served)) bytes += usageIn(cache, namespace).bytes
    return bytes
  }

  /** Returns the number of objects of a kind in a namespace, or undefined while its cache is incomplete. */
  objectsIn(namespace: string, served: ServedModel): number | undefined {
    const cache = this.#follower.cacheOf(served)
    return cache && usageIn(cache, namespace).objects
  }

  /** Returns a function that tells what a namespace holds by the name of a limit, and undefined for other names. */
  reader(): (namespace: string, name: string) => number | undefined {
    const counted = new Map<string, ModelCache>()
    for (const cache of this.#caches())
      if (cache.served.indexes.isNamespaced)
        for (const name of countNamesOf(cache.served)) counted.set(name, cache)
    return (namespace, name) => {
      if (name === this.bytesName) return this.bytesIn(namespace)
      const cache = counted.get(name)
      return cache && usageIn(cache, namespace).objects
    }
  }

  /** One cache of each resource: there are two while a kind is reloaded. */
  #caches(): Iterable<ModelCache> {
    return new Map(this.#follower.caches().map(cache => [cache.served.resource, cache])).values()
  }
}

function usageIn({ store }: ModelCache, namespace: string): NamespaceUsage {
  return store.usages.of(namespace)
}
