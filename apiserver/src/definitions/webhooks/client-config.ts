import { checkSubdomain } from '@setpoint/controller-runtime/api'
import { type Fields, recordOf, textOf } from '../../kubernetes/index.ts'
import type { Findings } from '../findings.ts'

/** Where a webhook is: `WebhookClientConfig`. */
export interface ClientConfig {
  readonly url?: string
  readonly service?: {
    readonly namespace: string
    readonly name: string
    readonly path?: string
    readonly port?: number
  }
  /** PEM certificates in base64. */
  readonly caBundle?: string
}

/** Reads a `clientConfig` whose fields have the right types. */
export function clientConfigOf({ url, service, caBundle }: Fields): ClientConfig {
  return {
    ...(typeof url === 'string' && { url }),
    ...(service !== undefined && { service: serviceOf(recordOf(service)) }),
    ...(typeof caBundle === 'string' && { caBundle }),
  }
}

function serviceOf({ namespace, name, path, port }: Fields): Service {
  return {
    namespace: textOf(namespace),
    name: textOf(name),
    ...(typeof path === 'string' && { path }),
    ...(typeof port === 'number' && { port }),
  }
}

/** Checks where a webhook is. */
export function checkClientConfig({ url, service }: ClientConfig, at: string, found: Findings): void {
  if ((url === undefined) === (service === undefined))
    found.required(at, 'must have exactly one of url and service')
  else if (url !== undefined) checkUrl(url, `${at}.url`, found)
  else if (service !== undefined) checkService(service, `${at}.service`, found)
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

type Service = NonNullable<ClientConfig['service']>

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
