import { Breather, type Clock } from '@setpoint/controller-runtime'
import type { Revision } from '@setpoint/controller-runtime/api'
import {
  type Change,
  compactionKey,
  type KeyValue,
  parseCompactionRecord,
  type Storage,
} from '../storage/index.ts'
import { type CacheLoader, loaderDefaults, pagesOf } from './cache-loader.ts'
import type { ModelCache } from './model-cache.ts'
import { type ObjectChange, StateDifference, type Verdict } from './state-difference.ts'
import { storedRevisions } from './stored-revisions.ts'

export const rebuildDefaults = Object.freeze({
  /** Keys of one page, without their values: some hundred kilobytes. */
  pageSize: 2_000,
  /** Changed objects that are read at once, each by itself. */
  concurrency: 16,
  /** A model of which more than one object in this many has changed is read as a whole: a page costs as much as a few. */
  wholeFrom: 8,
})

/** How a cache gets to the store's present state. */
export type Outcome =
  /** By these changes, which are all that there were, ascending by revision. */
  | { readonly kind: 'exact'; readonly changes: readonly Change[] }
  /** By starting over from this one: what has happened cannot be told. */
  | { readonly kind: 'reset'; readonly fresh: ModelCache; readonly why: string }

export interface Rebuilt {
  /** The state that the outcomes lead to. */
  readonly revision: Revision
  readonly outcomes: ReadonlyMap<ModelCache, Outcome>
}

export interface RebuildOptions {
  readonly storage: Storage
  readonly loader: CacheLoader
  readonly clock: Clock
  readonly caches: readonly ModelCache[]
  /** The caches are the state at this revision, or a later one where their own says so. They do not change meanwhile. */
  readonly from: Revision
  /** The store is not the one that was followed: its revisions say nothing about the caches. */
  readonly replaced: boolean
  readonly signal: AbortSignal
}

/**
 * Reads the store's present state and finds, for each cache, the way to it. Nothing is changed: whoever asks applies the
 * outcomes, all of them or none.
 * @throws CompactedError when that state has been compacted too, or the store replaced, meanwhile; what the store throws.
 */
export async function rebuildCaches(options: RebuildOptions): Promise<Rebuilt> {
  const { storage, loader, caches, signal } = options
  const { revision, verdicts } = await differenceSince(options)
  const outcomes = new Map<ModelCache, Outcome>()
  for (const cache of caches) {
    const verdict = verdicts.get(cache.served.resource) ?? replacedStore
    if (verdict.kind === 'exact') {
      const changes = await changesOf(options, cache, verdict.changes, revision)
      outcomes.set(cache, { kind: 'exact', changes })
    } else {
      outcomes.set(cache, {
        kind: 'reset',
        fresh: await loader.load(cache.served, signal, revision),
        why: verdict.why,
      })
    }
  }
  if (options.replaced) return { revision, outcomes }
  // A watch of nothing, which is refused if the store that was read is not the one that was followed.
  for await (const _ of storage.watch('', { after: revision, until: revision, signal })) break
  return { revision, outcomes }
}

const replacedStore: Verdict = { kind: 'reset', why: 'the store is another one than before' }

async function differenceSince({
  storage,
  caches,
  from,
  replaced,
  clock,
  signal,
}: RebuildOptions): Promise<{ revision: Revision; verdicts: ReadonlyMap<string, Verdict> }> {
  const { current } = await storage.head({ signal })
  if (replaced || current < from) return { revision: current, verdicts: new Map() }
  const difference = new StateDifference(
    from,
    caches.map(({ served, revision, store, unreadable }) => ({
      resource: served.resource,
      revision,
      objects: storedRevisions(store.snapshot(), unreadable),
    })),
  )
  const breather = new Breather(clock)
  const limit = rebuildDefaults.pageSize
  for await (const { pairs } of pagesOf(storage, '', { limit, signal, revision: current, keysOnly: true })) {
    for (const pair of pairs) {
      difference.see(pair)
      const pause = breather.pause()
      if (pause !== undefined) await pause
    }
  }
  const { pairs } = await storage.list(compactionKey, { limit: 1, revision: current, signal })
  const record = pairs.find(({ key }) => key === compactionKey)
  if (record !== undefined) difference.seeRounds(parseCompactionRecord(record.value).rounds)
  return { revision: current, verdicts: difference.conclude(current) }
}

/** The changes with what was put, as the log would have brought them. */
async function changesOf(
  { storage, signal }: RebuildOptions,
  { served, store }: ModelCache,
  changes: readonly ObjectChange[],
  revision: Revision,
): Promise<Change[]> {
  const wanted = new Map<string, Change>()
  const deletions: Change[] = []
  const found = ({ key, value, puts }: KeyValue) => {
    const change = wanted.get(key)
    if (change !== undefined) wanted.set(key, { ...change, value, ...(puts !== undefined && { puts }) })
  }
  for (const { name, revision, deleted } of changes) {
    const change = {
      key: served.keyOf(name),
      revision,
      value: undefined,
      previous: undefined,
      createRevision: revision,
    }
    if (deleted) deletions.push(change)
    else wanted.set(change.key, change)
  }
  const keys = [...wanted.keys()]
  if (keys.length * rebuildDefaults.wholeFrom > store.size) {
    const limit = loaderDefaults.pageSize
    for await (const { pairs } of pagesOf(storage, served.keyPrefix, { limit, signal, revision }))
      for (const pair of pairs) found(pair)
  } else {
    for (let at = 0; at < keys.length; at += rebuildDefaults.concurrency) {
      const some = keys.slice(at, at + rebuildDefaults.concurrency)
      await Promise.all(
        some.map(async key => {
          // The first key that begins with this one is this one.
          const { pairs } = await storage.list(key, { limit: 1, revision, signal })
          for (const pair of pairs) found(pair)
        }),
      )
    }
  }
  for (const { key, value } of wanted.values())
    if (value === undefined) throw new Error(`${key} was in the store at revision ${revision}, and is not`)
  return [...deletions, ...wanted.values()].sort((a, b) => a.revision - b.revision)
}
