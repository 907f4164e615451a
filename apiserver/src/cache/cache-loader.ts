import { Breather, type Clock } from '@setpoint/controller-runtime'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import type { Logger } from '../log.ts'
import type { ServedModel } from '../model/served-model.ts'
import type { KeyValue, Storage } from '../storage/index.ts'
import { ModelCache } from './model-cache.ts'

export const loaderDefaults = Object.freeze({
  /** Objects read in one page while a cache is built: large enough to be quick, small enough to let others run. */
  pageSize: 500,
})

/** Makes caches out of what the store has at one revision. */
export class CacheLoader {
  readonly #storage: Storage
  readonly #log: Logger
  readonly #clock: Clock
  readonly #objectsRead = new Map<string, number>()

  constructor({ storage, log, clock }: { storage: Storage; log: Logger; clock: Clock }) {
    this.#storage = storage
    this.#log = log
    this.#clock = clock
  }

  empty(served: ServedModel): ModelCache {
    return this.#newCache(served, zeroRevision)
  }

  /** @param at the state at this revision; the present one if absent. @throws what the store throws. */
  async load(
    served: ServedModel,
    signal: AbortSignal,
    at?: Revision,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const breather = new Breather(this.#clock)
    const limit = loaderDefaults.pageSize
    let cache: ModelCache | undefined
    let objectsRead = 0
    this.#objectsRead.set(served.resource, 0)
    for await (const { revision, pairs } of pagesOf(this.#storage, served.keyPrefix, {
      limit,
      signal,
      revision: at,
    })) {
      cache ??= this.#newCache(served, revision)
      for (const pair of pairs) {
        cache.load(pair)
        // Index functions may be slow, and others must not wait for a whole page of them.
        const pause = breather.pause()
        if (pause !== undefined) await pause
      }
      objectsRead += pairs.length
      this.#objectsRead.set(served.resource, objectsRead)
      onProgress?.(pairs.length)
    }
    cache ??= this.#newCache(served, at ?? zeroRevision)
    await cache.finishLoading(breather)
    return cache
  }

  /** Objects that the latest loading of a model has read so far; undefined before the first one. */
  objectsRead(served: ServedModel): number | undefined {
    return this.#objectsRead.get(served.resource)
  }

  forget(served: ServedModel): void {
    this.#objectsRead.delete(served.resource)
  }

  #newCache(served: ServedModel, revision: Revision): ModelCache {
    return new ModelCache(
      served,
      revision,
      (key, error) => this.#log.error({ key, err: error }, 'a stored value is no object and is left out'),
      this.#clock,
    )
  }
}

/** All pages of a list, of one revision, at least one. The store looks for the next while one is being worked on. */
export async function* pagesOf(
  storage: Storage,
  prefix: string,
  options: {
    readonly limit: number
    readonly signal: AbortSignal
    readonly revision: Revision | undefined
    readonly keysOnly?: boolean
  },
): AsyncGenerator<{ readonly revision: Revision; readonly pairs: readonly KeyValue[] }, void, undefined> {
  const { limit, signal, keysOnly = false, revision: at } = options
  let page = await storage.list(prefix, {
    limit,
    signal,
    keysOnly,
    ...(at !== undefined && { revision: at }),
  })
  for (;;) {
    const { revision } = page
    const after = page.more ? page.pairs.at(-1)?.key : undefined
    const next =
      after === undefined ? undefined : storage.list(prefix, { limit, signal, keysOnly, revision, after })
    // Awaited below, but its failure may come before.
    next?.catch(() => {})
    yield page
    if (next === undefined) return
    page = await next
  }
}
