import type { IncomingMessage } from 'node:http'
import type { UserInfo } from '@setpoint/controller-runtime'
import { ApiError } from '@setpoint/controller-runtime/api'
import { quote } from '@setpoint/controller-runtime/internal'
import { type Access, anonymousUser, type CallerRequest, type Identity, systemGroups } from './access.ts'
import type { Authorizer, ResourceTarget } from './authorize.ts'
import { serviceAccountOf } from './service-account-user.ts'

export const impersonationLimits = Object.freeze({
  /**
   * Groups and values of extra attributes of an impersonated user. Each is authorized, and some checks try every group.
   */
  values: 1000,
})

const prefix = 'impersonate-'
const extraPrefix = 'impersonate-extra-'

/**
 * Lets callers act for other users, as in Kubernetes: `Impersonate-User`, `Impersonate-Group`, `Impersonate-Uid` and
 * `Impersonate-Extra-<key>`. Each of them needs the verb `impersonate`, before anything else of the request is
 * authorized.
 */
export class ImpersonatingAccess implements Access {
  readonly #access: Access
  readonly #authorizer: Authorizer

  constructor(access: Access, authorizer: Authorizer) {
    this.#access = access
    this.#authorizer = authorizer
  }

  identify(request: CallerRequest): Identity | Promise<Identity> {
    const caller = this.authenticate(request)
    if (caller instanceof Promise) return caller.then(each => this.impersonate(each, request.headers))
    return this.impersonate(caller, request.headers)
  }

  /** The first part of `identify`. Returns the caller, without regard to impersonation. */
  authenticate(request: CallerRequest): Identity | Promise<Identity> {
    return this.#access.identify(request)
  }

  /** The second part of `identify`. Returns the impersonated user, or the caller. @throws ApiError 400, 403, 503 */
  impersonate(impersonator: Identity, headers: IncomingMessage['headers']): Identity {
    if (!asksForImpersonation(headers)) return impersonator
    const impersonated = readImpersonation(headers)
    checkImpersonation(this.#authorizer, impersonator.user, impersonated)
    return {
      user: withSystemGroups(impersonated),
      credential: impersonator.credential,
      impersonator,
      impersonated,
    }
  }

  onRevoked(identity: Identity, revoked: () => void): () => void {
    return this.#access.onRevoked(identity.impersonator ?? identity, revoked)
  }
}

/**
 * Checks that the caller may do something, and may still act for the impersonated user, if any.
 * @throws ApiError 403, 503
 */
export function authorizeAs(
  authorizer: Pick<Authorizer, 'authorize'>,
  { user, impersonator, impersonated }: Identity,
  verb: string,
  target: ResourceTarget,
): void {
  if (impersonator !== undefined && impersonated !== undefined)
    checkImpersonation(authorizer, impersonator.user, impersonated)
  authorizer.authorize(user, verb, target)
}

function asksForImpersonation(headers: IncomingMessage['headers']): boolean {
  for (const name in headers) if (name.startsWith(prefix)) return true
  return false
}

/** @throws ApiError 400 */
function readImpersonation(headers: IncomingMessage['headers']): UserInfo {
  const name = textOf(headers['impersonate-user'])
  if (name === '') throw new ApiError('BadRequest', 'impersonation needs the header Impersonate-User')
  const groups = listOf(headers['impersonate-group'])
  let count = groups.length
  const extra: Record<string, readonly string[]> = {}
  for (const [header, value] of Object.entries(headers)) {
    if (!header.startsWith(prefix) || ownHeaders.has(header)) continue
    if (!header.startsWith(extraPrefix) || header === extraPrefix)
      throw new ApiError('BadRequest', `the header ${quote(header)} of impersonation is not known`)
    const values = listOf(value)
    count += values.length
    extra[decodeKey(header.slice(extraPrefix.length))] = values
  }
  if (count > impersonationLimits.values)
    throw new ApiError(
      'BadRequest',
      `the impersonated user has ${count} groups and extra values, at most ${impersonationLimits.values} are allowed`,
    )
  const uid = textOf(headers['impersonate-uid'])
  return {
    name,
    groups,
    ...(uid !== '' && { uid }),
    ...(Object.keys(extra).length > 0 && { extra }),
  }
}

const ownHeaders: ReadonlySet<string> = new Set(['impersonate-user', 'impersonate-group', 'impersonate-uid'])

/** @throws ApiError 403 for the first part that the caller may not impersonate */
function checkImpersonation(
  authorizer: Pick<Authorizer, 'authorize'>,
  by: UserInfo,
  { name, groups, uid, extra = {} }: UserInfo,
): void {
  const check = (group: string, plural: string, name: string, rest: Partial<ResourceTarget> = {}) =>
    authorizer.authorize(by, 'impersonate', {
      group,
      plural,
      name,
      namespace: undefined,
      subresource: undefined,
      ...rest,
    })
  const account = serviceAccountOf(name)
  if (account === undefined) check('', 'users', name)
  else check('', 'serviceaccounts', account.name, { namespace: account.namespace })
  for (const group of groups) check('', 'groups', group)
  if (uid !== undefined) check('authentication.k8s.io', 'uids', uid)
  for (const [key, values] of Object.entries(extra))
    for (const value of values) check('authentication.k8s.io', 'userextras', value, { subresource: key })
}

/**
 * An impersonated user has the groups that all authenticated users have; a service account without groups has its own.
 */
function withSystemGroups(user: UserInfo): UserInfo {
  const account = serviceAccountOf(user.name)
  const own =
    account !== undefined && user.groups.length === 0
      ? [systemGroups.serviceAccounts, `${systemGroups.serviceAccounts}:${account.namespace}`]
      : []
  const isAnonymous = user.name === anonymousUser.name || user.groups.includes(systemGroups.unauthenticated)
  const standing = isAnonymous ? systemGroups.unauthenticated : systemGroups.authenticated
  return { ...user, groups: [...new Set([...user.groups, ...own, standing])] }
}

/** Keys may be percent-encoded, because header names take few characters. */
function decodeKey(key: string): string {
  try {
    return decodeURIComponent(key)
  } catch {
    throw new ApiError('BadRequest', 'the name of a header Impersonate-Extra is not properly percent-encoded')
  }
}

function textOf(value: string | string[] | undefined): string {
  return typeof value === 'string' ? value : (value?.join(', ') ?? '')
}

/**
 * Returns the values of a header. Node joins repeated ones by commas, which the names of groups therefore cannot
 * contain.
 */
function listOf(value: string | string[] | undefined): string[] {
  return textOf(value)
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '')
}
