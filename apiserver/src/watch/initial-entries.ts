import type { Entry, ModelSnapshot, ModelStore } from '../cache/index.ts'
import { runQuery } from '../query/index.ts'
import type { Audience } from './audience.ts'

export const initialDefaults = Object.freeze({
  /** Objects that are looked up at once for a client that takes everything. */
  chunk: 500,
})

const byName = { sort: [], at: { kind: 'any' } } as const

/** What the last subscription of an audience found: those that come together, as after a restart, share it. */
const found = new WeakMap<Audience, WeakRef<{ snapshot: ModelSnapshot; items: readonly Entry[] }>>()

/**
 * What an audience is told first: everything that it is interested in, ascending by name, of the state at the call. The
 * state is kept, in which the subscription and everything that is written later share what they have in common; where
 * all objects are wanted they are looked up as the client takes them.
 */
export function initialEntries(store: ModelStore, audience: Audience): Iterator<Entry> {
  const { name, selector } = audience.interest
  if (name !== undefined) {
    const entry = store.get(name)
    return (entry !== undefined && audience.concerns(entry) ? [entry] : []).values()
  }
  const snapshot = store.snapshot()
  if (selector.labels.length === 0 && selector.fields.length === 0) return everything(snapshot, audience)
  const earlier = found.get(audience)?.deref()
  if (earlier?.snapshot === snapshot) return earlier.items.values()
  const paging = { kind: 'chunk', limit: undefined, after: undefined } as const
  const { items } = runQuery(snapshot, { ...byName, selector, paging })
  found.set(audience, new WeakRef({ snapshot, items }))
  return items.values()
}

function* everything(snapshot: ModelSnapshot, { interest: { selector } }: Audience): Generator<Entry> {
  let after: string | undefined
  do {
    const paging = { kind: 'chunk', limit: initialDefaults.chunk, after } as const
    const { items, next } = runQuery(snapshot, { ...byName, selector, paging })
    yield* items
    after = next
  } while (after !== undefined)
}
