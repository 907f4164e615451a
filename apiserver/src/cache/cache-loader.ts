import type { Clock } from '@setpoint/controller-runtime'
import { type Revision, zeroRevision } from '@setpoint/controller-runtime/api'
import { Yielder } from '@setpoint/controller-runtime/internal'
import type { Logger } from '../log/index.ts'
import type { ServedModel } from '../model/index.ts'
import type { KeyValue, Storage } from '../storage/index.ts'
import { ModelCache } from './model-cache.ts'

export const loaderDefaults = Object.freeze({
  /** Objects in one page: large enough to be quick, small enough to let other work run. */
  pageSize: 500,
})

/** Builds caches from the state of the store at one revision. */
export class CacheLoader {
  readonly #storage: Storage
  readonly #log: Logger
  readonly #clock: Clock
  readonly #objectsRead = new Map<ServedModel, number>()

  constructor({ storage, log, clock }: { storage: Storage; log: Logger; clock: Clock }) {
    this.#storage = storage
    this.#log = log
    this.#clock = clock
  }

  empty(served: ServedModel): ModelCache {
    return this.#newCache(served, zeroRevision)
  }

  /** @param at the revision to read; the latest one by default. @throws errors of the store */
  async load(
    served: ServedModel,
    signal: AbortSignal,
    at?: Revision,
    onProgress?: (objects: number) => void,
  ): Promise<ModelCache> {
    const yielder = new Yielder(this.#clock)
    const limit = loaderDefaults.pageSize
    let cache: ModelCache | undefined
    let objectsRead = 0
    this.#objectsRead.set(served, 0)
    for await (const { revision, pairs } of pagesOf(this.#storage, served.keyPrefix, {
      limit,
      signal,
      revision: at,
    })) {
      cache ??= this.#newCache(served, revision)
      for (const pair of pairs) {
        cache.load(pair)
        // Index functions may be slow: do not block for a whole page of them.
        const pause = yielder.pause()
        if (pause !== undefined) await pause
      }
      objectsRead += pairs.length
      this.#objectsRead.set(served, objectsRead)
      onProgress?.(objectsRead)
    }
    cache ??= this.#newCache(served, at ?? zeroRevision)
    await cache.finishLoading(yielder)
    return cache
  }

  /** Objects read so far by the latest load of a model; undefined before the first one. */
  objectsRead(served: ServedModel): number | undefined {
    return this.#objectsRead.get(served)
  }

  forget(served: ServedModel): void {
    this.#objectsRead.delete(served)
  }

  #newCache(served: ServedModel, revision: Revision): ModelCache {
    return new ModelCache(
      served,
      revision,
      (key, error) => this.#log.error({ key, err: error }, 'failed to decode a stored value, leaving it out'),
      this.#clock,
    )
  }
}

/** Yields the pages of a list at one revision, at least one. Prefetches the next page. */
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
    revision: at,
  })
  for (;;) {
    const { revision } = page
    const after = page.more ? page.pairs.at(-1)?.key : undefined
    const next =
      after === undefined ? undefined : storage.list(prefix, { limit, signal, keysOnly, revision, after })
    // It is awaited below, and may fail before that.
    next?.catch(() => {})
    yield page
    if (next === undefined) return
    page = await next
  }
}
