/**
 * What becomes of an object's dependents when it is deleted. Background: they are collected once it has gone.
 * Foreground: they go first, the object waits for those that block it. Orphan: they stay and lose their reference.
 */
export type PropagationPolicy = 'Background' | 'Foreground' | 'Orphan'

/** What may become of the dependents of an object that is deleted. */
export const propagationPolicies: readonly PropagationPolicy[] = Object.freeze([
  'Background',
  'Foreground',
  'Orphan',
])

/**
 * The finalizers by which a deletion waits for the collector of dependents. Named as in Kubernetes, whose tools show
 * and take away these.
 */
export const propagationFinalizers = Object.freeze({
  Foreground: 'foregroundDeletion',
  Orphan: 'orphan',
})

/**
 * The finalizers that an object has once its deletion has begun. A policy that is given overrides one that was put
 * on the object as a finalizer; without a policy that one holds.
 */
export function finalizersForDeletion(
  finalizers: readonly string[] | undefined,
  policy: PropagationPolicy | undefined,
): string[] {
  const { Foreground, Orphan } = propagationFinalizers
  if (policy === undefined) return [...(finalizers ?? [])]
  const others = (finalizers ?? []).filter(finalizer => finalizer !== Foreground && finalizer !== Orphan)
  return policy === 'Background' ? others : [...others, propagationFinalizers[policy]]
}
