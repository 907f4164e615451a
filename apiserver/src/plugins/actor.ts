import type { UserInfo } from '@setpoint/controller-runtime'
import type { ServedModel } from '../model/index.ts'
import { serverUser } from '../registry/index.ts'
import { forbidden, type Grant, type ResourceTarget } from '../security/index.ts'

/** A caller in this process. */
export interface Actor {
  readonly user: UserInfo
  /**
   * Returns what allows a request, or undefined.
   * @param user the actor's, or the one that its request names
   * @throws ApiError 403 if it may not act for the user; 503 while the roles are being read
   */
  grantOf(user: UserInfo, verb: string, served: ServedModel, target: ResourceTarget): Grant | undefined
  /**
   * Calls back when its permissions may have changed. Returns a function that unsubscribes.
   * @param user the one that it acts for. Default: the actor's
   */
  onChange(changed: () => void, user?: UserInfo): () => void
}

const everything: Grant = Object.freeze({ reason: 'the server may do everything' })

/** The server itself. */
export const serverActor: Actor = Object.freeze({
  user: serverUser,
  grantOf: () => everything,
  onChange: () => () => {},
})

/** @throws ApiError 403, 503 */
export function checkActor(
  actor: Actor,
  user: UserInfo,
  verb: string,
  served: ServedModel,
  target: ResourceTarget,
): void {
  if (actor.grantOf(user, verb, served, target) === undefined) throw forbidden(user, verb, target)
}
