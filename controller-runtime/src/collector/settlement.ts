import type { ObjectMeta, OwnerReference } from '../api/object.ts'
import { type PropagationPolicy, propagationFinalizers } from '../api/propagation.ts'
import { isLooseStanding, type Standing } from './graph.ts'

/** What is to be done about a dependent. */
export type Settlement =
  /** Nothing, at least not before more is known of its owners. */
  | { readonly do: 'nothing' }
  /** It stays, with these references only. */
  | { readonly do: 'release'; readonly references: readonly OwnerReference[] }
  /** No owner is left. */
  | { readonly do: 'delete'; readonly policy: PropagationPolicy | undefined }

/**
 * Decides about a dependent, by its live metadata and what is known of each owner that it names.
 *
 *     an owner that holds it (present, unresolved, orphaning)   the loose references go, the object stays
 *     all absent, or waiting in the foreground                  it is deleted
 *
 * One that is being deleted already only lets go of owners that wait for just that. As in Kubernetes, a dependent
 * that goes because of a foreground deletion and has dependents of its own goes in the foreground, too.
 */
export function settlementOf(
  { ownerReferences = [], deletionTimestamp, finalizers = [] }: ObjectMeta,
  standingOf: (reference: OwnerReference) => Standing,
  hasDependents: boolean,
): Settlement {
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
  // What the object itself says about its dependents is left to the server.
  const own = finalizers.includes(propagationFinalizers.Orphan)
  const inForeground = standings.includes('foreground') && hasDependents && !own
  return { do: 'delete', policy: inForeground ? 'Foreground' : undefined }
}
