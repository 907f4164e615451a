import type { UserInfo } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import type { ResourceTarget } from '../security/index.ts'

export const eventDefaults = Object.freeze({
  /** Characters of `requestURI`: a path and usual selectors. Selectors may have 16 KiB. */
  uriLength: 2_048,
  /** Characters of `userAgent` (Kubernetes' limit). */
  userAgentLength: 1_024,
  /** Addresses in `sourceIPs`. All but the last are claims of the client. */
  sourceIPs: 16,
  /** Characters of the message in `responseStatus`. */
  messageLength: 1_024,
  /** Bytes of `requestObject`, and of `responseObject`. A larger one is left out (Kubernetes' limit for an event). */
  objectBytes: 100 * 1_024,
})

/** Where a request came from. */
export interface AuditOrigin {
  /** The path and query, as sent. */
  readonly uri: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Undefined for a client in this process. */
  readonly remoteAddress: string | undefined
}

/** Users live as long as their credentials, so most requests have one that is known. */
const users = new WeakMap<UserInfo, string>()

/** Returns the JSON of the `user` or `impersonatedUser` of an event. */
export function userJson(user: UserInfo | undefined): string {
  if (user === undefined) return '{}'
  let json = users.get(user)
  if (json === undefined) {
    const { name, uid, groups, extra } = user
    json = JSON.stringify({ username: name, uid, groups, extra })
    users.set(user, json)
  }
  return json
}

/** The `objectRef` of an event. Undefined for a path that is not about objects. */
export function objectRefOf(target: (ResourceTarget & { readonly version: string }) | string, name?: string) {
  if (typeof target === 'string') return undefined
  const { group, version, plural, namespace, subresource } = target
  return {
    resource: plural,
    namespace,
    name: target.name ?? name,
    apiGroup: group === '' ? undefined : group,
    apiVersion: version,
    subresource,
  }
}

let latest = { ms: 0, text: '' }

/** Returns an RFC 3339 time with microseconds, the form of Kubernetes' MicroTime. Many events share a millisecond. */
export function microTime(ms: number): string {
  if (latest.ms !== ms) latest = { ms, text: `${new Date(ms).toISOString().slice(0, -1)}000Z` }
  return latest.text
}

export function userAgentOf({ headers }: AuditOrigin): string | undefined {
  const text = first(headers['user-agent'])
  const { userAgentLength } = eventDefaults
  return text !== undefined && text.length > userAgentLength
    ? `${text.slice(0, userAgentLength)}...TRUNCATED`
    : text
}

/**
 * Returns the addresses that the request came through, as Kubernetes does: those of `X-Forwarded-For`, then `X-Real-Ip`,
 * then the peer of the connection. Only the last one is certain.
 */
export function sourceIPsOf({ headers, remoteAddress }: AuditOrigin): string[] | undefined {
  if (remoteAddress === undefined) return undefined
  const peer = remoteAddress.replace(/^::ffff:/, '')
  const forwarded = first(headers['x-forwarded-for'])
  const real = first(headers['x-real-ip'])
  if (forwarded === undefined && real === undefined) return [peer]
  const claimed = (forwarded ?? '').split(',', eventDefaults.sourceIPs).concat(real ?? [])
  const addresses = claimed.map(text => text.trim()).filter(text => /^[0-9a-f.:]{2,45}$/i.test(text))
  return [...new Set([...addresses.slice(0, eventDefaults.sourceIPs - 1), peer])]
}

const secretName = /token|secret|password|authorization/i

/**
 * Returns the `requestURI` of an event, cut to `uriLength`. Parameters that look like credentials have no value, and
 * requests for a sensitive kind have no query, since a selector can have values of objects.
 */
export function requestURIOf({ uri }: AuditOrigin, isSensitive: boolean): string {
  const { uriLength } = eventDefaults
  const cut = uri.length > uriLength ? `${uri.slice(0, uriLength)}…` : uri
  const at = cut.indexOf('?')
  if (at < 0) return cut
  if (isSensitive) return cut.slice(0, at)
  const parameters = cut.slice(at + 1).split('&')
  return `${cut.slice(0, at)}?${parameters.map(withoutCredential).join('&')}`
}

function withoutCredential(parameter: string): string {
  const at = parameter.indexOf('=')
  if (at < 0) return parameter
  const name = parameter.slice(0, at)
  return secretName.test(decoded(name)) ? `${name}=[secret]` : parameter
}

function decoded(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Returns an object, or each item of a list, without `metadata.managedFields`. */
export function withoutManagedFields(value: unknown): unknown {
  if (!isRecord(value)) return value
  const { metadata, items } = value
  if (Array.isArray(items)) return { ...value, items: items.map(withoutManagedFields) }
  if (!isRecord(metadata) || metadata.managedFields === undefined) return value
  return { ...value, metadata: { ...metadata, managedFields: undefined } }
}

function first(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : value?.[0]
}
