import type { ObjectMeta, OwnerReference } from '../api/object.ts'
import { type PropagationPolicy, propagationFinalizers } from '../api/propagation.ts'
import { isLooseStanding, type Standing } from './graph.ts'

/** What to do with a dependent. */
type SyncAction =
  /** Nothing, until more is known of its owners. */
  | { readonly do: 'nothing' }
  /** Keep it with these references only. */
  | { readonly do: 'release'; readonly references: readonly OwnerReference[] }
  /** Delete it: no owner is left. */
  | { readonly do: 'delete'; readonly policy: PropagationPolicy | undefined }

/**
 * Decides what to do with a dependent, by its live metadata and the standing of its owners.
 *
 *     an owner keeps it (present, unresolved, orphaning)   remove the loose references
 *     all absent, or waiting in the foreground             delete it
 *
 * A dependent that is already deleting only releases orphaning owners. As in Kubernetes, foreground deletion is
 * propagated to dependents that have dependents of their own.
 */
export function syncActionFor(
  { ownerReferences = [], deletionTimestamp, finalizers = [] }: ObjectMeta,
  standingOf: (reference: OwnerReference) => Standing,
  hasDependents: boolean,
): SyncAction {
  const standings = ownerReferences.map(standingOf)
  if (standings.includes('unchecked')) return { do: 'nothing' }
  const isKept = (standing: Standing) =>
    deletionTimestamp === undefined ? !isLooseStanding(standing) : standing !== 'orphaning'
  if (standings.every(isKept)) return { do: 'nothing' }
  const isHeld = standings.some(standing => standing === 'orphaning' || !isLooseStanding(standing))
  if (isHeld || deletionTimestamp !== undefined) {
    const references = ownerReferences.filter((_, at) => isKept(standings[at] ?? 'unresolved'))
    return { do: 'release', references }
  }
  // The object's own orphan finalizer takes precedence.
  const own = finalizers.includes(propagationFinalizers.Orphan)
  const inForeground = standings.includes('foreground') && hasDependents && !own
  return { do: 'delete', policy: inForeground ? 'Foreground' : undefined }
}
