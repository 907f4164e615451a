import type { Findings } from '../findings.ts'
import { problemOfLabel } from '../label.ts'

/** The versions of reviews that Kubernetes knows, of admission and of conversion. */
export const knownReviews: readonly string[] = ['v1', 'v1beta1']

/** Checks the versions of reviews that a webhook understands. @param allowsUnknown true if it need not understand a known one */
export function checkReviewVersions(
  versions: readonly string[],
  at: string,
  allowsUnknown: boolean,
  found: Findings,
): void {
  if (versions.length === 0) {
    found.required(at, `must have at least one of ${knownReviews.join(', ')}`)
    return
  }
  const seen = new Set<string>()
  for (const [index, version] of versions.entries()) {
    const problem = seen.has(version) ? 'must not be given twice' : problemOfLabel(version)
    if (problem !== undefined) found.invalid(`${at}[${index}]`, problem)
    seen.add(version)
  }
  if (!allowsUnknown && !hasKnownReview(versions))
    found.invalid(at, `must include at least one of ${knownReviews.join(', ')}`)
}

/** Returns true if Kubernetes knows one of the versions. */
export function hasKnownReview(versions: readonly string[]): boolean {
  return versions.some(version => knownReviews.includes(version))
}
