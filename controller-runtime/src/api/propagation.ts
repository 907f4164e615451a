/**
 * How a deletion treats dependents. Background: they are deleted after the object. Foreground: they are deleted first,
 * and the object waits for those that block it. Orphan: they stay and lose their reference.
 */
export type PropagationPolicy = 'Background' | 'Foreground' | 'Orphan'

/** All propagation policies. */
export const propagationPolicies: readonly PropagationPolicy[] = Object.freeze([
  'Background',
  'Foreground',
  'Orphan',
])

/**
 * The finalizers that make a deletion wait for the garbage collector. Named as in Kubernetes, for its tools.
 */
export const propagationFinalizers = Object.freeze({
  Foreground: 'foregroundDeletion',
  Orphan: 'orphan',
})

/**
 * Returns the finalizers of an object when its deletion starts. A given policy overrides one that was set earlier as a
 * finalizer.
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
