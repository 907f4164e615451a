import type { EventRecord, RunLog } from '@setpoint/controller-runtime/testing'
import { fieldsOf } from './json.ts'

export type ChangeRecord = Exclude<EventRecord, { type: 'BOOKMARK' | 'ERROR' }>

/** What the store says of who led, and of who wrote meanwhile. */
export interface Tenures {
  /** Writes by another process than the one that held the lease. There should be none. */
  readonly stray: readonly string[]
  /** How often the lease went to another process. */
  readonly changes: number
  /** Who has written. */
  readonly writers: ReadonlySet<string>
}

/**
 * Lays the changes of the lease beside those of the objects that controllers write. The store has one order for both, so
 * whatever clocks say: what is written after the lease went to another process is the other's, or two are active.
 */
export function tenuresOf(lease: RunLog, turns: RunLog): Tenures {
  const stray: string[] = []
  const writers = new Set<string>()
  /** Every process has an identity of its own, and writes its name. */
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
    // What was there before anybody wrote, and what was there when the watcher came.
    if (typeof by !== 'string' || change.type === 'ADDED') continue
    writers.add(by)
    if (holder === '') stray.push(`version ${change.version}: ${by} wrote while nobody held the lease`)
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

/** Of the only watcher. */
function changesIn({ watchers }: RunLog): ChangeRecord[] {
  const events = watchers[0]?.connections.flatMap(connection => connection.events) ?? []
  return events.filter(event => event.type !== 'BOOKMARK' && event.type !== 'ERROR')
}
