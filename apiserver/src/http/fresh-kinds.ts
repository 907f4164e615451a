import type { ServedModel } from '../model/index.ts'
import type { RequestInfo } from './request-info.ts'

/** Kinds that come and go with objects: those of definitions. */
export interface FreshKinds {
  /** The kind of these objects. */
  readonly kind: ServedModel
  /**
   * Resolves when this server serves what any server served before the call.
   * @param name of the object that the kind comes from: `<plural>.<group>`. Default: all of them
   * @throws ApiError 503
   */
  settled(name?: string): Promise<void>
}

/**
 * Reads a request again if it may be for a kind that another server serves already, because clients act on what that
 * one said. Returns a promise only then.
 */
export function readFresh(
  read: () => RequestInfo,
  kinds: FreshKinds | undefined,
): RequestInfo | Promise<RequestInfo> {
  const info = read()
  if (kinds === undefined || typeof info.target === 'string' || isReady(info.served)) return info
  const { group, plural } = info.target
  // Every group of a definition has a dot.
  return group.includes('.') ? kinds.settled(`${plural}.${group}`).then(read) : info
}

function isReady(served: ServedModel | undefined): boolean {
  if (served === undefined) return false
  return served.defined === undefined || served.phase.name === 'Started'
}
