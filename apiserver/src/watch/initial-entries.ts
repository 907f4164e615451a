import type { Entry, ModelSnapshot, ModelStore } from '../cache/index.ts'
import { selectedByName } from '../query/index.ts'
import type { Audience } from './audience.ts'

export const initialDefaults = Object.freeze({
  /** Objects that are looked at for a client in one turn of the event loop where few of them concern it. */
  looks: 2_000,
})

/** What an audience is told first, as far as it has been found, and how it is found. */
interface Finding {
  readonly snapshot: ModelSnapshot
  readonly found: Entry[]
  /** Looks at some more objects. */
  readonly work: Iterator<number>
}

/** What the last subscription of an audience looks for: those that come together, as after a restart, share it. */
const findings = new WeakMap<Audience, WeakRef<Finding>>()

/**
 * What an audience is told first: everything that it is interested in, ascending by name, of the state at the call.
 * The state is kept, in which the subscription and everything that is written later share what they have in common;
 * objects are looked for as the client takes them. Undefined stands for a step in which none was found: others may go
 * on before the next.
 */
export function initialEntries(store: ModelStore, audience: Audience): Iterator<Entry | undefined> {
  const { name, selector } = audience.interest
  if (name !== undefined) {
    const entry = store.get(name)
    return (entry !== undefined && audience.concerns(entry) ? [entry] : []).values()
  }
  const snapshot = store.snapshot()
  const earlier = findings.get(audience)?.deref()
  if (earlier?.snapshot === snapshot) return eachOf(earlier)
  const found: Entry[] = []
  const work = selectedByName(snapshot, selector, undefined, entry => found.push(entry) > 0)
  const finding = { snapshot, found, work }
  findings.set(audience, new WeakRef(finding))
  return eachOf(finding)
}

function* eachOf({ found, work }: Finding): Generator<Entry | undefined, void, undefined> {
  let looked = 0
  for (let at = 0; ; ) {
    const entry = found[at]
    if (entry !== undefined) {
      at++
      yield entry
      continue
    }
    const { done, value } = work.next()
    looked += value ?? 0
    if (done && found.length === at) return
    if (found.length > at || looked < initialDefaults.looks) continue
    looked = 0
    yield undefined
  }
}
