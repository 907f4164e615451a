import { BlockList, isIP, isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import { checkSubdomain, errorMessage } from '@setpoint/controller-runtime/api'

/**
 * The command line, the environment or the configuration file is wrong. The message is one line with the problem and
 * the accepted values.
 */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly exitCode = 2
}

/** Where the server listens. `host` is an IP address without brackets, or a host name. */
export interface ListenAddress {
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
}

/**
 * Reads the text of a flag into its value, like the functions below. The message of their UsageError does not name the
 * flag; the caller adds the source of the text.
 */
export function readListenAddress(text: string): ListenAddress {
  const accepted = 'HOST:PORT is accepted, such as 127.0.0.1:8090, localhost:0 or [::1]:8090'
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})$/.exec(text)
  if (match === null) throw new UsageError(`${quote(text)} is not an address: ${accepted}`)
  const [, bracketed, plain, digits = ''] = match
  const port = Number(digits)
  if (port > 65_535) throw new UsageError(`${quote(text)}: a port is at most 65535`)
  if (bracketed !== undefined) {
    if (!isIPv6(bracketed)) throw new UsageError(`${quote(text)}: only an IPv6 address stands in brackets`)
    return { host: bracketed, port }
  }
  // In Go an empty host means every interface. Require a host, so that an omission does not expose the server.
  const host = plain ?? ''
  if (host === '') throw new UsageError(`${quote(text)} names no host: ${accepted}`)
  if (isIP(host) === 0 && !/^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$/.test(host)) {
    throw new UsageError(
      `${quote(text)}: ${quote(host)} is neither an IP address nor a host name: ${accepted}`,
    )
  }
  return { host, port }
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Returns true if only this machine can reach the address. A host name other than `localhost` counts as public. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host.toLowerCase() === 'localhost'
  return loopback.check(host, family === 6 ? 'ipv6' : 'ipv4')
}

/** Formats an address as `HOST:PORT`, with brackets around IPv6. */
export function formatAddress({ host, port }: ListenAddress): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}

/** Returns the path without a trailing slash: '' for the root. */
export function readBasePath(text: string): string {
  const path = text.replace(/\/$/, '')
  const segments = path.split('/').slice(1)
  const usable = segments.every(segment => /^[A-Za-z0-9._~-]+$/.test(segment) && !/^\.+$/.test(segment))
  if (!text.startsWith('/') || !usable) {
    throw new UsageError(
      `${quote(text)} is not a path: it starts with '/' and consists of letters, digits, '-', '.', '_' and '~' between slashes, such as /setpoint`,
    )
  }
  return path
}

/** Returns the absolute path. Relative paths start at the working directory. */
export function readDirectory(text: string): string {
  return resolve(nonEmpty(text, 'a directory'))
}

/** Returns `http://host:port`, `https://host:port`, or `host:port` without a scheme. */
export function readEtcdEndpoint(text: string): string {
  const match =
    /^(https?:\/\/)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?):(\d{1,5})\/?$/.exec(text)
  if (match === null || Number(match[4]) > 65_535) {
    throw new UsageError(
      `${quote(text)} is not an etcd endpoint: HOST:PORT is accepted, optionally after http:// or https://`,
    )
  }
  return text.replace(/\/$/, '')
}

/** Returns the prefix without a trailing slash. */
export function readKeyPrefix(text: string): string {
  const prefix = text.replace(/\/+$/, '')
  if (!/^\S+$/.test(prefix)) {
    throw new UsageError(
      `${quote(text)} is not a key prefix: text without spaces is accepted, such as /setpoint`,
    )
  }
  return prefix
}

export function readDomain(text: string): string {
  const problem = checkSubdomain(text)
  if (problem !== undefined) throw new UsageError(`${quote(text)} ${problem}`)
  return text
}

/** Returns the URL without a trailing slash. */
export function readServerUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw new UsageError(
      `${quote(text)} is not the URL of a server: http://HOST:PORT or https://HOST:PORT is accepted`,
    )
  }
  if (url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new UsageError('the URL of a server has no query, fragment or credentials')
  }
  return url.href.replace(/\/$/, '')
}

/** Reads an origin as browsers send it, or `*.` and a domain. */
export function readAllowedOrigin(text: string): string {
  const accepted = 'an origin such as https://app.example.com or http://localhost:3000, or *.example.com'
  if (text.startsWith('*')) {
    const domain = text.slice(2)
    // At least two labels, and the last one not of an IP address.
    const isDomain = checkSubdomain(domain) === undefined && /\.[a-z][^.]*$/.test(domain)
    if (text[1] === '.' && isDomain) return text
    throw new UsageError(`${quote(text)} does not name the subdomains of a domain: ${accepted} is accepted`)
  }
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.hostname.startsWith('*'))
    throw new UsageError(`${quote(text)} is not an origin: write ${url.hostname}`)
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new UsageError(`${quote(text)} is not an origin: ${accepted} is accepted`)
  if (url.origin !== text)
    throw new UsageError(`${quote(text)} is not an origin as browsers send it: write ${url.origin}`)
  return text
}

/** Returns the URL of an OpenID Connect issuer unchanged, because tokens repeat it exactly. */
export function readIssuer(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:' || url.search !== '' || url.hash !== '' || url.username !== '') {
    throw new UsageError(
      `${quote(text)} is not the URL of an issuer: https://HOST/PATH is accepted, without a query, fragment or credentials`,
    )
  }
  return text
}

/**
 * Returns the absolute path of the audit log. Standard output is for the listening line, standard error for the log.
 */
export function readAuditLog(text: string): string {
  if (text === '-')
    throw new UsageError(
      `${quote(text)} is not a file: standard output is for the address, give the path of a file`,
    )
  return resolve(nonEmpty(text, 'a file'))
}

/** Reads a limit, where 0 means no limit. */
export function readLimit(text: string): number {
  return text === '0' ? 0 : readCount(text)
}

/** Returns an error's message on one line. */
export function reasonOf(error: unknown): string {
  return errorMessage(error).replace(/\s+/g, ' ')
}

export function readNonEmpty(text: string): string {
  return nonEmpty(text, 'a value')
}

/** Reads a count of at least one. */
export function readCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw new UsageError(`${quote(text)} is not a count: a whole number from 1 to 999999999 is accepted`)
  return Number(text)
}

/** Returns a reader that accepts one of these words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): (text: string) => Word {
  return text => {
    const word = words.find(each => each === text)
    if (word === undefined) throw new UsageError(`${quote(text)} is not one of ${words.join(', ')}`)
    return word
  }
}

export function readBoolean(text: string): boolean {
  return oneOf('true', 'false')(text) === 'true'
}

/** Quotes a text for a message, shortened and on one line. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text)
}

/** @throws UsageError for an empty text */
export function nonEmpty(text: string, what: string): string {
  if (text.trim() === '') throw new UsageError(`is empty: ${what} is required`)
  return text
}
