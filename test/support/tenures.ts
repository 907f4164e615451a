import { fieldsOf } from './json.ts'
import type { EventRecord, RunLog } from './watch-record/index.ts'

export type ChangeRecord = Exclude<EventRecord, { type: 'BOOKMARK' | 'ERROR' }>

/** Compares the holders of a lease with the writers of objects, as the store recorded them. */
export interface Tenures {
  /** Writes by a process that did not hold the lease. Must be empty. */
  readonly stray: readonly string[]
  /** Number of times that the lease went to another process. */
  readonly changes: number
  /** The names of all writers. */
  readonly writers: ReadonlySet<string>
}

/**
 * Merges the changes of the lease with those of the objects that controllers write. The store orders both, so clocks do
 * not matter: a write by the former holder means that two processes were active.
 */
export function tenuresOf(lease: RunLog, turns: RunLog): Tenures {
  const stray: string[] = []
  const writers = new Set<string>()
  /** Maps the identity of each process to the name that it writes. */
  const nameOf = new Map<string, string>()
  let holder = ''
  let changes = 0
  for (const { kind, change } of inOrder(lease, turns)) {
    if (change.type === 'DELETED') continue
    if (kind === 'lease') {
      const { holderIdentity } = fieldsOf(change.object.spec)
      const next = typeof holderIdentity === 'string' ? holderIdentity : ''
      if (next !== '' && next !== holder) changes += 1
      holder = next
      continue
    }
    const { by } = fieldsOf(change.object.status ?? {})
    // The state before the first write, and the state when the watcher started.
    if (typeof by !== 'string' || change.type === 'ADDED') continue
    writers.add(by)
    if (holder === '') stray.push(`version ${change.version}: ${by} wrote while the lease was free`)
    else if (!nameOf.has(holder)) nameOf.set(holder, by)
    else if (nameOf.get(holder) !== by)
      stray.push(`version ${change.version}: ${by} wrote while ${nameOf.get(holder)} held the lease`)
  }
  return { stray, changes, writers }
}

function inOrder(
  lease: RunLog,
  turns: RunLog,
): { readonly kind: 'lease' | 'turn'; readonly change: ChangeRecord }[] {
  const of = (log: RunLog, kind: 'lease' | 'turn') => changesIn(log).map(change => ({ kind, change }))
  return [...of(lease, 'lease'), ...of(turns, 'turn')].sort((a, b) => a.change.version - b.change.version)
}

/** The events of the only watcher. */
function changesIn({ watchers }: RunLog): ChangeRecord[] {
  const events = watchers[0]?.connections.flatMap(connection => connection.events) ?? []
  return events.filter(event => event.type !== 'BOOKMARK' && event.type !== 'ERROR')
}
