import { isDeepStrictEqual } from 'node:util'

/**
 * Returns true if a merge patch of top-level fields would change the status. Every run computes the whole status, and
 * most runs change nothing: at a start with many objects this saves a request for each.
 */
export function isChange(status: object | undefined, patch: object): boolean {
  const present = new Map<string, unknown>(Object.entries(status ?? {}))
  return Object.entries(patch).some(
    ([field, value]) => !isDeepStrictEqual(present.get(field), value ?? undefined),
  )
}
