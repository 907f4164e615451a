import type { IncomingHttpHeaders } from 'node:http'
import type { UserInfo } from '@setpoint/controller-runtime'

/** Who a caller is, and by what it was recognised. */
export interface Identity {
  readonly user: UserInfo
  /** What may be taken back while a request lasts; undefined where nothing can. Says nothing of the secret. */
  readonly credential: string | undefined
}

/** Finds out who calls. */
export interface Access {
  /** For what everybody may ask who may call at all, such as whether the server is alive. @throws ApiError 403 */
  checkCaller(headers: IncomingHttpHeaders): void
  /** @throws ApiError 401, 403 */
  identify(headers: IncomingHttpHeaders): Identity
  /**
   * Calls back once when the credential has ceased to be valid, at once where it has done so already. Answers a function
   * that ends the watching.
   */
  onRevoked(identity: Identity, revoked: () => void): () => void
  close(): void
}

/** Groups that are built in. */
export const builtInGroups = Object.freeze({
  /** May do everything. */
  admins: 'setpoint:admins',
  /** May get, list and watch. */
  viewers: 'setpoint:viewers',
})
