import type { Entry, ModelSnapshot, ModelStore } from '../cache/index.ts'
import { selectedByName } from '../query/index.ts'
import type { Work } from '../scheduling/index.ts'
import type { Audience } from './audience.ts'

/** The initial objects of an audience that have been found so far, and the search for the rest. */
interface Finding {
  readonly snapshot: ModelSnapshot
  readonly found: Entry[]
  readonly work: Work<void>
}

/** The latest search of each audience. Subscriptions that begin together, as after a restart, share it. */
const findings = new WeakMap<Audience, WeakRef<Finding>>()

/**
 * The initial objects of an audience, ascending by key, as of the call. They are searched for as the client takes
 * them. A number stands for a step of the search, which has handled so many entries.
 */
export function initialEntries(store: ModelStore, audience: Audience): Iterator<Entry | number> {
  const { key, selector } = audience.interest
  if (key !== undefined) {
    const entry = store.get(key)
    return (entry !== undefined && audience.matches(entry) ? [entry] : []).values()
  }
  const snapshot = store.snapshot()
  const earlier = findings.get(audience)?.deref()
  if (earlier?.snapshot === snapshot) return eachOf(earlier)
  const found: Entry[] = []
  const work = selectedByName(
    snapshot,
    selector,
    { after: undefined, wanted: Infinity },
    entry => found.push(entry) > 0,
  )
  const finding = { snapshot, found, work }
  findings.set(audience, new WeakRef(finding))
  return eachOf(finding)
}

function* eachOf({ found, work }: Finding): Generator<Entry | number, void, undefined> {
  for (let at = 0; ; ) {
    const entry = found[at]
    if (entry !== undefined) {
      at++
      yield entry
      continue
    }
    const { done, value } = work.next()
    if (!done) yield value
    else if (found.length === at) return
  }
}
