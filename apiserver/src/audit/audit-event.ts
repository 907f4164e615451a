import type { UserInfo } from '@setpoint/controller-runtime'
import { isRecord } from '@setpoint/controller-runtime/api'
import type { Grant, ResourceTarget } from '../security/index.ts'

export const eventDefaults = Object.freeze({
  /** Characters of `requestURI`: a path and usual selectors. Selectors may have 16 KiB. */
  uriLength: 2_048,
  /** Characters of `userAgent` (Kubernetes' limit). */
  userAgentLength: 1_024,
  /** Addresses in `sourceIPs`. All but the last are claims of the client. */
  sourceIPs: 16,
  /** Characters of the message in `responseStatus`. */
  messageLength: 1_024,
  /** Characters of the annotations of policies and webhooks. Further ones are left out. */
  annotationsLength: 64 * 1_024,
  /** Bytes of `requestObject`, and of `responseObject`. A larger one is left out (Kubernetes' limit for an event). */
  objectBytes: 100 * 1_024,
})

/** Objects with the API version of the request, or a path that is not about objects. */
export type AuditTarget = (ResourceTarget & { readonly version: string }) | string

/** Where a request came from. */
export interface AuditOrigin {
  /** The path and query, as sent. */
  readonly uri: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** Undefined for a client in this process. */
  readonly remoteAddress: string | undefined
}

/** Where a user's last request came from, with the fields about it as JSON. */
interface Place {
  readonly impersonated: UserInfo | undefined
  readonly remoteAddress: string | undefined
  readonly agent: string | undefined
  readonly forwarded: string | undefined
  readonly real: string | undefined
  readonly json: string
}

/** Users live as long as their credentials, and most send all their requests from one place. */
const places = new WeakMap<UserInfo, Place>()

/**
 * Returns the fields about the sender of a request as JSON: `user`, `impersonatedUser`, `sourceIPs` and `userAgent`.
 */
export function senderJson(
  user: UserInfo | undefined,
  impersonated: UserInfo | undefined,
  { headers, remoteAddress }: AuditOrigin,
): string {
  const known = user && places.get(user)
  const agent = first(headers['user-agent'])
  const forwarded = first(headers['x-forwarded-for'])
  const real = first(headers['x-real-ip'])
  const isKnown =
    known !== undefined &&
    known.impersonated === impersonated &&
    known.remoteAddress === remoteAddress &&
    known.agent === agent &&
    known.forwarded === forwarded &&
    known.real === real
  if (isKnown) return known.json
  const addresses = remoteAddress === undefined ? undefined : sourceIPsOf(remoteAddress, forwarded, real)
  const json =
    `"user":${userJson(user)}` +
    optionalField('impersonatedUser', impersonated && userJson(impersonated)) +
    optionalField('sourceIPs', addresses && JSON.stringify(addresses)) +
    optionalField('userAgent', agent === undefined ? undefined : JSON.stringify(cutAgent(agent)))
  if (user !== undefined) places.set(user, { impersonated, remoteAddress, agent, forwarded, real, json })
  return json
}

function userJson(user: UserInfo | undefined): string {
  if (user === undefined) return '{}'
  const { name, uid, groups, extra } = user
  return JSON.stringify({ username: name, uid, groups, extra })
}

/** Returns a field that follows another one, or nothing if it has no value. */
export function optionalField(name: string, json: string | undefined): string {
  return json === undefined ? '' : `,"${name}":${json}`
}

/** The annotations of each grant. */
const decisions = new WeakMap<Grant, string>()

/** Returns the annotations about a decision as JSON, without braces. They are those of Kubernetes. */
export function decisionJson(grant: Grant | undefined): string {
  if (grant === undefined) return '"authorization.k8s.io/decision":"forbid","authorization.k8s.io/reason":""'
  let json = decisions.get(grant)
  if (json === undefined) {
    json = `"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":${JSON.stringify(grant.reason)}`
    decisions.set(grant, json)
  }
  return json
}

/** Returns the JSON of the `objectRef` of an event. Undefined for a path that is not about objects. */
export function objectRefJson(target: AuditTarget, createdName: string | undefined): string | undefined {
  if (typeof target === 'string') return undefined
  const { group, version, plural, namespace, name = createdName, subresource } = target
  let json = `{"resource":${JSON.stringify(plural)}`
  if (namespace !== undefined) json += `,"namespace":${JSON.stringify(namespace)}`
  if (name !== undefined) json += `,"name":${JSON.stringify(name)}`
  if (group !== '') json += `,"apiGroup":${JSON.stringify(group)}`
  json += `,"apiVersion":${JSON.stringify(version)}`
  if (subresource !== undefined) json += `,"subresource":${JSON.stringify(subresource)}`
  return `${json}}`
}

let second = { at: Number.NaN, text: '' }

/** Returns an RFC 3339 time with microseconds, the form of Kubernetes' MicroTime. Many events share a second. */
export function microTime(ms: number): string {
  const at = Math.floor(ms / 1000)
  if (second.at !== at) second = { at, text: new Date(at * 1000).toISOString().slice(0, 20) }
  return `${second.text}${String(ms - at * 1000).padStart(3, '0')}000Z`
}

function cutAgent(text: string): string {
  const { userAgentLength } = eventDefaults
  return text.length > userAgentLength ? `${text.slice(0, userAgentLength)}...TRUNCATED` : text
}

/**
 * Returns the addresses that a request came through, as Kubernetes does: those of `X-Forwarded-For`, then `X-Real-Ip`,
 * then the peer of the connection. Only the last one is certain.
 */
function sourceIPsOf(
  remoteAddress: string,
  forwarded: string | undefined,
  real: string | undefined,
): string[] {
  const claimed = (forwarded ?? '').split(',', eventDefaults.sourceIPs).concat(real ?? [])
  const addresses = claimed.map(text => text.trim()).filter(text => /^[0-9a-f.:]{2,45}$/i.test(text))
  const peer = remoteAddress.replace(/^::ffff:/, '')
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
