import type { UserInfo } from '@setpoint/controller-runtime'
import type { ServedModel } from '../model/index.ts'
import { serverUser } from '../registry/index.ts'
import { forbidden, type Grant, type Target } from '../security/index.ts'

/** What an actor asks for. */
interface ActorRequest {
  readonly verb: string
  readonly target: Target
  /** Undefined for a kind that is not served. */
  readonly served: ServedModel | undefined
}

/** A caller in this process. */
export interface Actor {
  readonly user: UserInfo
  /**
   * Checks that it may act for a user.
   * @param user the actor's, or the one that its request names
   * @throws ApiError 403
   */
  checkUser(user: UserInfo): void
  /** Returns what allows a request, or undefined. @throws ApiError 503 while the roles are being read */
  grantOf(user: UserInfo, request: ActorRequest): Grant | undefined
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
  checkUser() {},
  grantOf: () => everything,
  onChange: () => () => {},
})

/** Checks a request that has passed all checks again, or a further one of the same user. @throws ApiError 403, 503 */
export function checkActor(actor: Actor, user: UserInfo, request: ActorRequest): void {
  actor.checkUser(user)
  if (actor.grantOf(user, request) === undefined) throw forbidden(user, request.verb, request.target)
}
