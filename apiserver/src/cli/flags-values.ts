import { X509Certificate } from 'node:crypto'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import { checkSubdomain, errorMessage } from '@setpoint/controller-runtime/api'
import { AuditPolicyError, readPolicy } from '../audit/policy-file.ts'
import { TokenList, TokenListError } from '../security/token-list.ts'

/** Returns the UTF-8 text of a file. @throws the errors of `node:fs` */
export type ReadFile = (path: string) => string

/**
 * The command line, the environment or the configuration file is wrong. The message is one line with the problem and the
 * accepted values.
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

/** Returns the text of a PEM file. */
function readPem(text: string, readFile: ReadFile): string {
  const pem = readText(nonEmpty(text, 'a file'), readFile)
  if (!pem.includes('-----BEGIN ')) throw new UsageError(`${quote(text)} is not a PEM file`)
  return pem
}

/** Returns the text of a PEM file with one or more CA certificates. */
export function readAuthorities(text: string, readFile: ReadFile): string {
  const pem = readPem(text, readFile)
  const whole = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
  // Node silently ignores certificates that are cut off.
  if (whole.length !== pem.split('-----BEGIN ').length - 1)
    throw new UsageError(`${quote(text)} is not a PEM file of whole certificates and nothing else`)
  for (const [at, each] of whole.entries()) {
    try {
      new X509Certificate(each)
    } catch (error) {
      throw new UsageError(`${quote(text)}: certificate ${at + 1} in it cannot be read: ${reasonOf(error)}`, {
        cause: error,
      })
    }
  }
  return pem
}

/** Reads CA certificates that may be renewed while the server runs. */
export function readAuthoritiesFile(text: string, readFile: ReadFile): NamedText {
  return { path: resolve(text), text: readAuthorities(text, readFile) }
}

/** Reads a PEM file that may be renewed while the server runs. */
export function readPemFile(text: string, readFile: ReadFile): NamedText {
  return { path: resolve(text), text: readPem(text, readFile) }
}

/** Reads a token file and checks that it is valid, see `TokenList`. */
export function readTokenFile(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  try {
    new TokenList(file.text)
  } catch (error) {
    if (error instanceof TokenListError) throw new UsageError(`${quote(text)} ${error.message}`)
    throw error
  }
  return { path: resolve(text), text: file.text }
}

/** Returns the absolute path of the audit log. Standard output is for the listening line, standard error for the log. */
export function readAuditLog(text: string): string {
  if (text === '-')
    throw new UsageError(
      `${quote(text)} is not a file: standard output is for the address, give the path of a file`,
    )
  return resolve(nonEmpty(text, 'a file'))
}

/** Reads an audit policy and checks that it is valid, see `readPolicy`. */
export function readAuditPolicy(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  try {
    readPolicy(file.text)
  } catch (error) {
    if (error instanceof AuditPolicyError) throw new UsageError(`${quote(text)}: ${error.message}`)
    throw error
  }
  return { path: resolve(text), text: file.text }
}

/** Reads a limit, where 0 means no limit. */
export function readLimit(text: string): number {
  return text === '0' ? 0 : readCount(text)
}

/** Reads a file with one token. Keeps the path, because the token may be renewed. */
export function readSecretFile(text: string, readFile: ReadFile): NamedText {
  const file = readTextFile(text, readFile)
  if (file.text.trim() === '') throw new UsageError(`${quote(text)} is empty: it must contain a token`)
  return { path: resolve(text), text: file.text.trim() }
}

/** Reads the token of one user. Rejects the server's list of users, which has only hashes of tokens. */
export function readOwnTokenFile(text: string, readFile: ReadFile): string {
  const token = readSecretFile(text, readFile).text
  if (/\s/.test(token))
    throw new UsageError(
      `${quote(text)} is not one token; the server's list of users has only hashes: give the token that \`setpoint token\` has shown`,
    )
  return token
}

/** The text of a file with its path. */
export interface NamedText {
  readonly path: string
  readonly text: string
}

export function readTextFile(path: string, readFile: ReadFile): NamedText {
  return { path, text: readText(nonEmpty(path, 'a file'), readFile) }
}

function readText(path: string, readFile: ReadFile): string {
  try {
    return readFile(path)
  } catch (error) {
    throw new UsageError(`${quote(path)} cannot be read: ${reasonOf(error)}`, { cause: error })
  }
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

function nonEmpty(text: string, what: string): string {
  if (text.trim() === '') throw new UsageError(`is empty: ${what} is required`)
  return text
}
