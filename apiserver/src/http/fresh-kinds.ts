import type { ServedModel } from '../model/index.ts'
import type { RequestInfo } from './request-info.ts'

/** Kinds that come and go with objects: those of definitions. */
export interface FreshKinds {
  /** The kind of these objects. */
  readonly kind: ServedModel
  /** Resolves when this server serves every kind that any server served before the call. @throws ApiError 503 */
  settled(): Promise<void>
}

/**
 * Reads a request again if it may be for a kind that another server serves already, because clients act on what that one
 * said. Returns a promise only then.
 */
export function readFresh(
  read: () => RequestInfo,
  kinds: FreshKinds | undefined,
): RequestInfo | Promise<RequestInfo> {
  const info = read()
  if (kinds === undefined || info.served !== undefined || typeof info.target === 'string') return info
  // Every group of a definition has a dot.
  if (!info.target.group.includes('.')) return info
  return kinds.settled().then(read)
}
