import type { Call, History } from '../history.ts'
import { hasVersion } from '../releases.ts'

/** Returns whether a server may not have had the version of a call, because its release has another one. */
export function mayLackVersion({ served }: History, { server, at, resource, outcome }: Call): boolean {
  const to = outcome.type === 'pending' ? Number.POSITIVE_INFINITY : outcome.at
  return served.some(
    each =>
      each.server === server &&
      each.from <= to &&
      each.until >= at &&
      !hasVersion(each.release, resource.version),
  )
}
