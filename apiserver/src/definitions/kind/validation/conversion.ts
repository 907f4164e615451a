import { checkSubdomain } from '@setpoint/controller-runtime/api'
import type { Conversion } from './definition.ts'
import type { Findings } from './findings.ts'
import { problemOfLabel } from './names.ts'

const place = 'spec.conversion'
const strategies = ['None', 'Webhook']
const knownReviews = ['v1', 'v1beta1']

/** What is not demanded of a conversion because the stored one does not have it either. */
export interface ConversionLeniency {
  readonly allowsInvalidBundle: boolean
  readonly allowsUnknownReviews: boolean
}

/** Checks a conversion. Its places are those of Kubernetes' internal type, which has no `webhook` around the parts. */
export function checkConversion(
  { strategy, webhook }: Conversion,
  { allowsInvalidBundle, allowsUnknownReviews }: ConversionLeniency,
  found: Findings,
): void {
  const { clientConfig, conversionReviewVersions: reviews = [] } = webhook ?? {}
  if (strategy === '') found.required(`${place}.strategy`)
  else if (!strategies.includes(strategy)) found.unsupported(`${place}.strategy`, strategy, strategies)
  if (strategy !== 'Webhook') {
    const why = 'must not be set unless the strategy is Webhook'
    if (clientConfig !== undefined) found.forbidden(`${place}.webhookClientConfig`, why)
    if (reviews.length > 0) found.forbidden(`${place}.conversionReviewVersions`, why)
    return
  }
  const at = `${place}.webhookClientConfig`
  if (clientConfig === undefined) found.required(at, 'is required when the strategy is Webhook')
  else {
    const { url, service, caBundle = '' } = clientConfig
    if ((url === undefined) === (service === undefined))
      found.required(at, 'must have exactly one of url and service')
    else if (url !== undefined) checkUrl(url, `${at}.url`, found)
    else if (service !== undefined) checkService(service, `${at}.service`, found)
    if (caBundle !== '' && !allowsInvalidBundle && !isBundle(caBundle))
      found.invalid(`${at}.caBundle`, 'must be certificates in PEM, in base64')
  }
  checkReviews(reviews, allowsUnknownReviews, found)
}

function checkReviews(reviews: readonly string[], allowsUnknown: boolean, found: Findings): void {
  const at = `${place}.conversionReviewVersions`
  if (reviews.length === 0) {
    found.required(at)
    return
  }
  const seen = new Set<string>()
  for (const [index, version] of reviews.entries()) {
    const problem = seen.has(version) ? 'must not be given twice' : problemOfLabel(version)
    if (problem !== undefined) found.invalid(`${at}[${index}]`, problem)
    seen.add(version)
  }
  if (!allowsUnknown && !hasKnownReview(reviews))
    found.invalid(at, `must include at least one of ${knownReviews.join(', ')}`)
}

/** Returns true if Kubernetes knows one of the versions of ConversionReview. */
export function hasKnownReview(reviews: readonly string[]): boolean {
  return reviews.some(version => knownReviews.includes(version))
}

const form = 'the form is https://host[/path]'

function checkUrl(text: string, at: string, found: Findings): void {
  const parts = /^(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?:\/\/([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(text)
  const [, scheme = '', authority = '', path = '', query = '', fragment = ''] = parts ?? []
  const isBroken = /\p{Cc}|%(?![0-9A-Fa-f]{2})/u.test(text) || (scheme === '' && /^[^/]*:/.test(path))
  if (isBroken || !isAuthority(authority)) {
    found.required(at, `must be a valid URL; ${form}`)
    return
  }
  if (scheme.toLowerCase() !== 'https') found.invalid(at, `must have the scheme https; ${form}`)
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  if (host === '') found.invalid(at, `must have a host; ${form}`)
  if (authority.includes('@')) found.invalid(at, 'must have no user')
  if (fragment.length > 1) found.invalid(at, 'must have no fragment')
  if (query.length > 1) found.invalid(at, 'must have no query parameters')
}

function isAuthority(authority: string): boolean {
  const host = authority.slice(authority.lastIndexOf('@') + 1)
  return /^(?:\[[0-9A-Fa-f:.%]+\]|[^\s"<>[\]\\^`{|}:%]*)(?::\d*)?$/.test(host)
}

type Service = NonNullable<NonNullable<NonNullable<Conversion['webhook']>['clientConfig']>['service']>

function checkService({ namespace, name, path, port = 443 }: Service, at: string, found: Findings): void {
  // In this order Kubernetes gives name and namespace to the function that checks them, which takes them the other way round.
  if (namespace === '') found.required(`${at}.name`)
  if (name === '') found.required(`${at}.namespace`)
  if (port < 1 || port > 65_535) found.invalid(`${at}.port`, 'must be between 1 and 65535')
  if (path === undefined || path === '' || path === '/') return
  if (!path.startsWith('/')) found.invalid(`${at}.path`, 'must start with a slash')
  const checked = path.slice(1).replace(/\/$/, '')
  for (const [index, segment] of checked.split('/').entries()) {
    const problem = segment === '' ? 'must not be empty' : checkSubdomain(segment)
    if (problem !== undefined) found.invalid(`${at}.path`, `segment ${index} ${problem}`)
  }
}

/**
 * Returns true for base64 of text with a certificate in PEM. Looks at the frame of the certificate only, because to parse one
 * with a crafted key could take a second.
 */
export function isBundle(caBundle: string): boolean {
  const text = Buffer.from(caBundle, 'base64').toString('latin1')
  const blocks = text.matchAll(/-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/g)
  for (const [, block = ''] of blocks) if (isSequence(Buffer.from(block, 'base64'))) return true
  return false
}

/** Returns true for a DER sequence of more than 128 bytes that is as long as it says and begins with another. */
function isSequence(der: Buffer): boolean {
  const lengthBytes = der.length > 4 && der[0] === 0x30 && der[1] !== undefined ? der[1] - 0x80 : 0
  if (lengthBytes < 1 || lengthBytes > 3) return false
  return der.readUIntBE(2, lengthBytes) === der.length - 2 - lengthBytes && der[2 + lengthBytes] === 0x30
}
