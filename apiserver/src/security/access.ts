import type { IncomingMessage } from 'node:http'
import type { UserInfo } from '@setpoint/controller-runtime'
import { systemNamespace } from '@setpoint/controller-runtime/internal'
import type { IdentityKind } from '../scheduling/index.ts'
import { isServiceAccountUser, serviceAccountOf } from './service-account-user.ts'

/** What a caller has proved its identity with. */
export interface Credential {
  /**
   * Calls `revoked` once when the credential becomes invalid, or at once if it already is. Returns a function that
   * unsubscribes.
   */
  onRevoked(revoked: () => void): () => void
}

/** An authenticated caller. */
export interface Identity {
  readonly user: UserInfo
  /** undefined for local callers. */
  readonly credential: Credential | undefined
  /** The caller who acts for `user`, if that is another one. */
  readonly impersonator?: Identity
  /** What the impersonator has asked to be: `user` without the groups that follow from it. */
  readonly impersonated?: UserInfo
}

/**
 * Returns the name that pays for what a caller uses: its turns, and its shares of memory and connections. Nobody can
 * make several of these names:
 *
 * - Callers that act for other users pay themselves, because the users need not exist.
 * - The service accounts of a namespace pay together, as their group, because whoever may create one can create many.
 *   Those of setpoint-system pay on their own, so that the controllers there do not wait for each other.
 */
export function payerOf({ user, impersonator }: Identity): string {
  const { name } = impersonator?.user ?? user
  const account = serviceAccountOf(name)
  if (account === undefined || account.namespace === systemNamespace) return name
  return `${systemGroups.serviceAccounts}:${account.namespace}`
}

/** The parts of a request that authenticate its caller. The socket has the client's certificate. */
export type CallerRequest = Pick<IncomingMessage, 'headers' | 'socket'>

/** Authenticates callers. */
export interface Access {
  /** Throws or rejects with ApiError 401, 403 or 503. Returns a promise only if it must wait. */
  identify(request: CallerRequest): Identity | Promise<Identity>
  /** Calls `revoked` as the credential of the caller does. Returns a function that unsubscribes. */
  onRevoked(identity: Identity, revoked: () => void): () => void
}

/** The groups that follow from the way of authentication, as in Kubernetes. */
export const systemGroups = Object.freeze({
  authenticated: 'system:authenticated',
  unauthenticated: 'system:unauthenticated',
  /** All service accounts. Those of one namespace have its name after a colon. */
  serviceAccounts: 'system:serviceaccounts',
})

/** A caller without credentials, as in Kubernetes. */
export const anonymousUser: UserInfo = Object.freeze({
  name: 'system:anonymous',
  groups: Object.freeze([systemGroups.unauthenticated]),
})

/** The key in `extra` of a user for the id of the credential, as in Kubernetes. */
export const credentialIdKey = 'authentication.kubernetes.io/credential-id'

/** The built-in groups. */
export const builtInGroups = Object.freeze({
  /** May do everything. */
  admins: 'setpoint:admins',
  /** May get, list and watch. */
  viewers: 'setpoint:viewers',
})

/** Returns the kind of a payer, for metrics. @param payer see `payerOf` */
export function kindOfPayer(payer: string): IdentityKind {
  const isAccount = isServiceAccountUser(payer) || payer.startsWith(`${systemGroups.serviceAccounts}:`)
  return isAccount ? 'service-accounts' : 'users'
}
